"""The stacks of a stage, put together."""

from dataclasses import dataclass

import aws_cdk as cdk

from infra.analytics import AnalyticsStack
from infra.bundle import FunctionCode
from infra.cluster import ClusterStack
from infra.monitoring import MonitoringStack
from infra.names import NamesStack
from infra.options import StageOptions
from infra.service import ServiceStack
from infra.state import CellStack, StateStack


@dataclass(frozen=True, slots=True)
class Stacks:
    """All of a stage; `cells` by their regions, without the stage's own. `names`, if it has any."""

    state: StateStack
    service: ServiceStack
    cluster: ClusterStack
    analytics: AnalyticsStack
    monitoring: MonitoringStack
    cells: dict[str, CellStack]
    names: NamesStack | None


def build(
    app: cdk.App,
    stage: StageOptions,
    code: FunctionCode,
    *,
    account: str | None,
    region: str | None,
) -> Stacks:
    """The stacks of a stage in an app; account and region are those where options name none."""
    account, region = stage.account or account, stage.region or region
    here = cdk.Environment(account=account, region=region)
    prefix = f"tidegate-{stage.name}"
    state = StateStack(app, f"{prefix}-state", stage, env=here)
    service = ServiceStack(app, f"{prefix}-service", stage, state, code, env=here)
    cluster = ClusterStack(app, f"{prefix}-cluster", stage, service.task.function, env=here)
    analytics = AnalyticsStack(app, f"{prefix}-analytics", stage, state, env=here)
    monitoring = MonitoringStack(
        app, f"{prefix}-monitoring", stage, service, cluster.machine, env=here
    )
    cells = {
        further: CellStack(
            app,
            f"{prefix}-cell-{further}",
            stage,
            env=cdk.Environment(account=account, region=further),
        )
        for further in stage.further_regions
    }
    for cell in cells.values():
        service.add_dependency(cell, "Functions place queues in it as soon as they know of it.")
    names = None
    if stage.names.hosts and service.rest is not None:
        names = NamesStack(app, f"{prefix}-names", stage, service.rest.api, env=here)
    cdk.Tags.of(app).add("tidegate:stage", stage.name)
    return Stacks(state, service, cluster, analytics, monitoring, cells, names)

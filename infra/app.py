"""The stacks of a stage, put together."""

from dataclasses import dataclass

import aws_cdk as cdk

from infra.analytics import AnalyticsStack
from infra.anchor import AnchorStack
from infra.bundle import FunctionCode
from infra.cluster import ClusterStack
from infra.monitoring import MonitoringStack
from infra.names import NamesStack
from infra.options import StageOptions
from infra.service import ServiceStack
from infra.state import StateStack


@dataclass(frozen=True, slots=True)
class Stacks:
    """All of a stage; `names` and `anchor`, if it has them."""

    state: StateStack
    service: ServiceStack
    cluster: ClusterStack
    analytics: AnalyticsStack
    monitoring: MonitoringStack
    names: NamesStack | None
    anchor: AnchorStack | None


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
    monitoring = MonitoringStack(app, f"{prefix}-monitoring", stage, service, cluster, env=here)
    names = None
    if stage.names.hosts and service.rest is not None:
        names = NamesStack(app, f"{prefix}-names", stage, service.rest.api, env=here)
    anchor = None
    if (its := stage.analytics.anchor).account and stage.analytics.audits:
        there = cdk.Environment(account=its.account, region=its.region)
        anchor = AnchorStack(app, f"{prefix}-anchor", stage, env=there)
    cdk.Tags.of(app).add("tidegate:stage", stage.name)
    return Stacks(state, service, cluster, analytics, monitoring, names, anchor)

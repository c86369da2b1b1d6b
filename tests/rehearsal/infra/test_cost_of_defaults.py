"""What `tidegate cost` takes for granted of a deployment is what a stage has by default."""

from control_plane.core import cost
from control_plane.core.price_list import HOURS_A_MONTH
from infra.options import ClusterOptions, ServiceOptions
from tests.rehearsal.infra.synthesis import find_node


def test_functions_are_as_big_and_of_the_same_kind() -> None:
    service = ServiceOptions()
    assert service.memory_mb == cost.MEMORY_MB_DEFAULT
    assert service.architecture == cost.Load(1).architecture
    assert service.log_level != "info", "it would be a line more for each call"


def test_the_cluster_manager_runs_as_often_for_as_many_tasks() -> None:
    find_node()
    from infra.cluster import OFTEN  # noqa: PLC0415 - CDK starts Node when it is imported

    assert HOURS_A_MONTH * 60 // ClusterOptions().period_minutes == cost.MANAGER_RUNS
    assert len(OFTEN) == cost.MANAGER_TASKS

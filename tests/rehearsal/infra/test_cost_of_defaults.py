"""What `tidegate cost` takes for granted of a deployment is what a stage has by default."""

from control_plane.core import cost
from control_plane.core.price_list import HOURS_A_MONTH
from control_plane.serverless.measuring import EVERY_US
from infra.options import ClusterOptions, ServiceOptions
from tests.rehearsal.infra.synthesis import find_node


def test_functions_are_as_big_and_of_the_same_kind() -> None:
    service = ServiceOptions()
    assert service.memory_mb == cost.MEMORY_MB_DEFAULT
    assert service.architecture == cost.Load(1).architecture
    assert service.log_level != "info", "it would be a line more for each call"


def test_queues_have_as_many_metrics_and_are_measured_as_often() -> None:
    find_node()
    from infra import group_metrics, queue_metrics  # noqa: PLC0415 - CDK starts Node when it is imported

    assert len(queue_metrics.METRICS + queue_metrics.GAUGES) == cost.QUEUE_METRICS
    assert len(group_metrics.GAUGES) == cost.GROUP_METRICS
    assert queue_metrics.MEASURED_MINUTES * 60_000_000 == EVERY_US
    assert HOURS_A_MONTH * 60 / queue_metrics.MEASURED_MINUTES == cost.MEASURES


def test_the_cluster_manager_looks_and_sweeps_as_often() -> None:
    find_node()
    from infra.cluster import KEEP_MINUTES  # noqa: PLC0415 - as above

    cluster = ClusterOptions()
    assert HOURS_A_MONTH * 60 / KEEP_MINUTES == cost.STREAM_LOOKS
    assert HOURS_A_MONTH * 60 / cluster.period_minutes == cost.LOOKS
    assert HOURS_A_MONTH / cluster.sweep_hours == cost.SWEEPS

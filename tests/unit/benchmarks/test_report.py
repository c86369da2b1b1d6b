"""What a run of benchmarks fails for."""

from typing import Any

import pytest

from tests.benchmarks.groups import last_read
from tests.benchmarks.latency import Latency
from tests.benchmarks.report import Fact, Report, Row


def measured(*facts: Fact, errors: dict[str, int]) -> Report:
    row = Row("send", 1, 1.0, 1.0, Latency.of([1.0]), 1.0, 1.0, 1.0, errors=errors)
    return Report({}, rows=[row], facts=list(facts))


def test_a_run_fails_for_requests_and_for_what_no_machine_may_miss() -> None:
    slow, grown = Fact("p50", 7, "ms", 5), Fact("memory", 9, "MB", 8, required=True)
    met = Fact("memory of others", 7, "MB", 8, required=True)
    report = measured(slow, grown, met, errors={"503": 2})
    failed = ["2 requests of send failed: 503"]
    assert report.failures(all_targets=False) == [*failed, "missed: memory"]
    assert report.failures(all_targets=True) == [*failed, "missed: p50", "missed: memory"]
    assert not measured(slow, errors={}).failures(all_targets=False)


@pytest.mark.parametrize("unit", ["ms", "times"])
def test_no_time_is_required(unit: str) -> None:
    its: dict[str, Any] = {"name": "p50", "value": 7, "unit": unit}
    assert not Fact(**its).required
    with pytest.raises(ValueError, match="a busy machine"):
        Fact(**its, required=True)


def test_a_shard_is_read_by_who_read_it_last_however_long_ago() -> None:
    reads = [[(1.0, "a"), (2.0, "b"), (9.0, "a")], [(3.0, "b"), (8.0, "a")], []]
    assert last_read(reads) == [{"a"}, {"b"}, set()]

import math
from array import array

import pytest

from tests.benchmarks.latency import Latency, median, percentile


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.991, 100), (1.0, 100)],
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile(range(1, 101), share) == expected


def test_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7.0], share) for share in (0.0, 0.5, 0.99, 1.0)] == [7.0] * 4


def test_percentile_of_nothing_is_no_number() -> None:
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize("share", [-0.1, 1.1, 50])
def test_percentile_refuses_what_is_no_share(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], share)


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], 3.0), ([9.0, 1.0, 5.0], 5.0), ([4.0, 1.0, 2.0, 9.0], 3.0)]
)
def test_median(values: list[float], expected: float) -> None:
    assert median(values) == expected


def test_latency_orders_the_times_and_tells_milliseconds() -> None:
    times_s = array("d", [at / 1000 for at in range(100, 0, -1)])
    assert Latency.of(times_s) == Latency(100, 50.0, 90.0, 99.0, 100.0)


def test_latency_of_nothing_counts_nothing() -> None:
    empty = Latency.of([])
    assert empty.count == 0
    assert math.isnan(empty.p99_ms)


def test_median_of_runs_is_taken_field_by_field() -> None:
    runs = [Latency(10, 1, 2, 9, 9), Latency(10, 2, 3, 5, 8), Latency(10, 3, 4, 7, 99)]
    assert Latency.median_of(runs) == Latency(30, 2, 3, 7, 9)

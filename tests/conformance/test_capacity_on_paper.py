import pytest

from control_plane.core.request_units import Shape
from tests.conformance import capacity_on_paper as capacity

ONE_KB = Shape(1_024)


def bounds(shape: Shape, *, functions: bool = False) -> dict[str, float]:
    return {
        bound.by: bound.messages_per_s for bound in capacity.of_queue(shape, functions=functions)
    }


def test_the_lowest_bound_comes_first() -> None:
    for shape in (ONE_KB, Shape(65_536, 10), Shape(100, 10, fifo=True)):
        rates = [bound.messages_per_s for bound in capacity.of_queue(shape, functions=True)]
        assert rates == sorted(rates)


def test_a_partition_takes_a_thousand_units_of_writes() -> None:
    found = bounds(ONE_KB)
    assert found["writes of messages, in one partition"] == 1_000
    assert bounds(Shape(4_096))["writes of messages, in one partition"] == 250
    assert found["leases and deletes, in one partition"] == pytest.approx(500, rel=0.01)
    assert found["reads of messages, in one partition"] > 1_000


def test_what_is_apart_is_put_under_one_prefix() -> None:
    assert "objects put" not in bounds(ONE_KB)
    assert bounds(Shape(65_536, 10))["objects put"] == 35_000


def test_functions_count_in_one_item() -> None:
    counters = "counters of sends and deletes"
    assert counters not in bounds(ONE_KB)
    assert bounds(ONE_KB, functions=True)[counters] == 500
    assert bounds(Shape(1_024, 10), functions=True)[counters] == 5_000


def test_front_ends_that_take_turns_on_a_log_are_slower_than_its_partition() -> None:
    first, *_ = capacity.of_queue(Shape(1_024, 10, fifo=True))
    assert (first.messages_per_s, first.by) == (250, "appends of front ends in turns")


def test_a_table_and_an_account() -> None:
    assert capacity.of_table(ONE_KB) == pytest.approx(40_000 / 3, rel=0.01)
    assert capacity.of_account(Shape(1_024, 10)) == 100_000 / 3

"""What counts as a time in which nobody was served."""

import pytest

from tests.drills.unavailability import (
    Call,
    distribution,
    longest_call_s,
    percentile,
    unavailable_s,
    verdict,
)

ALWAYS = (0.0, 1000.0)


def test_a_call_that_waits_while_no_other_is_answered_is_a_gap() -> None:
    calls = [Call("send", 9.0, 10.0), Call("send", 11.0, 15.0), Call("send", 15.0, 15.5)]
    assert unavailable_s(calls, *ALWAYS) == 4.0
    assert longest_call_s(calls, *ALWAYS) == 4.0


def test_a_gap_ends_with_the_first_answer_and_begins_with_the_last() -> None:
    """One call waits for long; others of its kind are answered meanwhile."""
    calls = [Call("send", 1.0, 8.0), Call("send", 2.0, 3.0), Call("send", 4.5, 5.0)]
    assert unavailable_s(calls, *ALWAYS) == 3.0
    assert longest_call_s(calls, *ALWAYS) == 7.0


def test_a_time_without_calls_is_no_gap() -> None:
    assert unavailable_s([Call("send", 1.0, 1.5), Call("send", 60.0, 60.25)], *ALWAYS) == 0.5
    assert unavailable_s([], *ALWAYS) == 0.0


def test_each_kind_counts_by_itself() -> None:
    sends = [Call("send", at, at + 1.0) for at in range(10)]
    assert unavailable_s([*sends, Call("receive", 2.0, 8.0)], *ALWAYS) == 6.0


def test_only_what_ends_in_the_time_counts() -> None:
    calls = [Call("send", 1.0, 4.0), Call("send", 4.0, 9.0), Call("send", 9.0, 16.0)]
    assert unavailable_s(calls, 5.0, 10.0) == 5.0
    assert longest_call_s(calls, 5.0, 10.0) == 5.0
    assert unavailable_s(calls, 17.0, 20.0) == 0.0


def test_percentiles_are_of_the_values_themselves() -> None:
    values = [float(value) for value in range(200, 0, -1)]
    assert percentile(values, 0.5) == 100.0
    assert percentile(values, 0.99) == 198.0
    assert percentile([7.0], 0.99) == 7.0
    assert distribution(values) == "100.0 s p50, 198.0 s p99, 200.0 s at most"
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_one_in_a_hundred_may_take_longer() -> None:
    assert verdict([5.0] * 99 + [60.0]) == "met"
    assert verdict([5.0] * 98 + [60.0] * 2) == "MISSED"

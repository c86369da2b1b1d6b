from collections.abc import Iterable

import pytest

from data_plane.core.circuit_breaker import BreakerRules, CircuitBreaker, CircuitState, Permit

SECOND_US = 1_000_000
RULES = BreakerRules()
CLOSED, HALF_OPEN, OPEN = CircuitState.CLOSED, CircuitState.HALF_OPEN, CircuitState.OPEN


def call(breaker: CircuitBreaker, now_us: int, *, failed: bool | None, took_us: int = 0) -> None:
    """One call that ends at this time."""
    permit = admitted(breaker, now_us - took_us)
    breaker.ended(permit, now_us, failed=failed)


def admitted(breaker: CircuitBreaker, now_us: int) -> Permit:
    permit = breaker.admit(now_us)
    assert permit is not None
    return permit


def play(outcomes: Iterable[bool | None], *, took_us: int = 0) -> tuple[CircuitBreaker, int]:
    """A breaker after these outcomes ("failed"), and how many of them it took to open it."""
    breaker = CircuitBreaker()
    for number, failed in enumerate(outcomes, start=1):
        call(breaker, number * 1000 + took_us, failed=failed, took_us=took_us)
        if breaker.state is OPEN:
            return breaker, number
    return breaker, 0


def opened(now_us: int = 0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(RULES.weight_min):
        call(breaker, now_us, failed=True)
    assert breaker.state is OPEN
    return breaker


@pytest.mark.parametrize(
    ("outcomes", "opens_after"),
    [
        ([True] * 9, 0),
        ([True] * 10, 10),
        ([False] * 1000 + [True] * 9, 0),
        ([False] * 1000 + [True] * 10, 1010),
        ([False, True] * 30, 20),
        ([False, False, True] * 300, 0),
        ([None] * 100, 0),
    ],
)
def test_it_opens_when_half_of_the_last_calls_failed(
    outcomes: list[bool | None], opens_after: int
) -> None:
    assert play(outcomes)[1] == opens_after


@pytest.mark.parametrize(
    ("took_us", "opens_after"),
    [(999_999, 10), (1_000_000, 4), (2_999_999, 4), (4_000_000, 2), (8_000_000, 1)],
)
def test_failures_that_took_long_weigh_more(took_us: int, opens_after: int) -> None:
    assert play([True] * 10, took_us=took_us)[1] == opens_after


def test_a_hang_after_many_successes_opens_it_with_the_fifth_call() -> None:
    breaker, _ = play([False] * 1000)
    permits = [admitted(breaker, 2 * SECOND_US) for _ in range(32)]
    for number, permit in enumerate(permits, start=1):
        breaker.ended(permit, 4 * SECOND_US, failed=True)
        assert (breaker.state is OPEN) == (number >= 5)


def test_what_is_long_ago_does_not_count() -> None:
    breaker = CircuitBreaker()
    for number in range(200):
        call(breaker, number * 7 * SECOND_US, failed=True)
    assert breaker.state is CLOSED, "nine failures in any minute"


def test_open_it_refuses_for_a_second_and_then_lets_a_few_probes_pass() -> None:
    breaker = opened()
    assert breaker.admit(SECOND_US - 1) is None
    assert breaker.is_open(SECOND_US - 1)
    assert not breaker.is_open(SECOND_US)
    probes = [admitted(breaker, SECOND_US) for _ in range(RULES.probes)]
    assert breaker.state is HALF_OPEN
    assert breaker.admit(SECOND_US) is None
    for probe in probes:
        assert breaker.state is HALF_OPEN
        breaker.ended(probe, SECOND_US, failed=False)
    assert breaker.state is CLOSED


def test_a_probe_that_fails_opens_it_again() -> None:
    breaker = opened()
    first, second = admitted(breaker, SECOND_US), admitted(breaker, SECOND_US)
    breaker.ended(first, SECOND_US, failed=False)
    breaker.ended(second, 3 * SECOND_US, failed=True)
    assert breaker.state is OPEN
    assert breaker.admit(4 * SECOND_US - 1) is None
    assert breaker.admit(4 * SECOND_US) is not None


def test_a_probe_that_tells_nothing_is_replaced() -> None:
    breaker = opened()
    for _ in range(10):
        call(breaker, SECOND_US, failed=None)
    for _ in range(RULES.probes):
        call(breaker, SECOND_US, failed=False)
    assert breaker.state is CLOSED


def test_a_call_of_before_says_nothing_of_the_time_after() -> None:
    breaker = CircuitBreaker()
    hung = [admitted(breaker, 0) for _ in range(100)]
    for _ in range(RULES.weight_min):
        call(breaker, 0, failed=True)
    probe = admitted(breaker, SECOND_US)
    for permit in hung[:50]:
        breaker.ended(permit, SECOND_US, failed=True)
    assert breaker.state is HALF_OPEN
    breaker.ended(probe, SECOND_US, failed=False)
    for _ in range(RULES.probes - 1):
        call(breaker, SECOND_US, failed=False)
    for permit in hung[50:]:
        breaker.ended(permit, 2 * SECOND_US, failed=True)
    assert breaker.state is CLOSED


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    breaker = opened(now_us=1000 * SECOND_US)
    assert breaker.admit(0) is not None

"""A circuit breaker against what it promises, for any dependency, in virtual time."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.circuit_breaker import BreakerRules, CircuitBreaker, CircuitState, Permit

RULES: Final = BreakerRules()
SECOND_US: Final = 1_000_000

steps = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND_US),  # how much later
        st.booleans(),  # begin a call, or end one
        st.integers(0, 1000),  # which one
        st.sampled_from([True, False, None]),  # whether it failed
    ),
    max_size=300,
)


@given(steps)
def test_while_open_nothing_passes_and_while_half_open_only_the_probes(
    plan: list[tuple[int, bool, int, bool | None]],
) -> None:
    breaker, now_us, opened_us = CircuitBreaker(), 0, 0
    under_way: list[Permit] = []
    for later_us, begins, which, failed in plan:
        now_us += later_us
        before = breaker.state
        if begins:
            refused = breaker.is_open(now_us)
            permit = breaker.admit(now_us)
            assert (permit is None) == refused
            if before is CircuitState.CLOSED:
                assert permit is not None
            if before is CircuitState.OPEN:
                assert (permit is None) == (now_us < opened_us + RULES.open_us)
            if permit is not None:
                under_way.append(permit)
                assert breaker.state is not CircuitState.OPEN
            continue
        if not under_way:
            continue
        permit = under_way.pop(which % len(under_way))
        breaker.ended(permit, now_us, failed=failed)
        if breaker.state is CircuitState.OPEN and before is not CircuitState.OPEN:
            assert failed
            opened_us = now_us
        if before is CircuitState.HALF_OPEN and breaker.state is CircuitState.CLOSED:
            assert failed is False
        assert breaker._probing <= RULES.probes


@given(
    st.integers(1, 32),
    st.integers(1, 60),
    st.lists(st.booleans(), max_size=40),
)
def test_an_outage_opens_it_and_its_end_closes_it(
    at_once: int, outage_s: int, before: list[bool]
) -> None:
    """With calls wanted all the time, however long it lasts, and whatever was before."""
    breaker, now_us = CircuitBreaker(), 0
    for failed in before:
        permit = breaker.admit(now_us)
        if permit is not None:
            breaker.ended(permit, now_us, failed=failed)
        now_us += 10_000
    sent = 0
    down_until_us = now_us + outage_s * SECOND_US
    while now_us < down_until_us:
        permits = [breaker.admit(now_us) for _ in range(at_once)]
        passed = [permit for permit in permits if permit is not None]
        sent += len(passed)
        now_us += 2 * SECOND_US if passed else 100_000
        for permit in passed:
            breaker.ended(permit, now_us, failed=True)
    # Until it opens, a few rounds; then a few probes for each time that it was open.
    assert sent <= 7 * at_once + RULES.probes * (outage_s // 3 + 2)
    back_us = now_us
    while breaker.state is not CircuitState.CLOSED:
        permit = breaker.admit(now_us)
        if permit is None:
            now_us += 100_000
        else:
            breaker.ended(permit, now_us, failed=False)
    assert now_us - back_us <= RULES.open_us + 100_000

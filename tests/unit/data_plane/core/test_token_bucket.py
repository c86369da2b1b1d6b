"""The token bucket against the sum that its promise is: exact, whatever the times are."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.token_bucket import Rate, TokenBucket

_rates = st.builds(
    Rate, st.integers(min_value=1, max_value=10**7), st.integers(min_value=1, max_value=10**7)
)
_small_rates = st.builds(Rate, st.integers(1, 10**7), st.integers(1, 1_000))
_steps_us = st.lists(st.integers(min_value=0, max_value=3_000_000), min_size=1, max_size=60)


@given(_rates, _steps_us, st.integers(min_value=1, max_value=50))
def test_any_stretch_of_time_gives_its_burst_and_its_share_and_not_one_more(
    rate: Rate, steps_us: list[int], tries: int
) -> None:
    bucket = TokenBucket(rate, 0)
    now_us = 0
    taken: list[int] = []
    for step_us in steps_us:
        now_us += step_us
        taken += [now_us for _ in range(tries) if not bucket.take(rate, now_us)]
    for first in range(len(taken)):
        length_us = taken[-1] - taken[first]
        assert len(taken) - first <= rate.burst + Fraction(rate.per_s * length_us, 1_000_000)


@given(_rates, _steps_us)
def test_a_bucket_follows_the_exact_sum(rate: Rate, steps_us: list[int]) -> None:
    bucket = TokenBucket(rate, 0)
    level = Fraction(rate.burst)
    now_us = 0
    for step_us in steps_us:
        now_us += step_us
        level = min(Fraction(rate.burst), level + Fraction(rate.per_s * step_us, 1_000_000))
        wait_us = bucket.take(rate, now_us)
        assert (wait_us == 0) == (level >= 1)
        if not wait_us:
            level -= 1


@given(_small_rates, st.integers(min_value=0, max_value=10**16), st.integers(1, 2_000))
def test_the_wait_it_tells_is_the_shortest_that_helps(rate: Rate, now_us: int, tokens: int) -> None:
    bucket = TokenBucket(rate, now_us)
    while not (wait_us := bucket.take(rate, now_us, tokens)):
        pass
    assert wait_us > 0
    if wait_us > 1:
        assert bucket.take(rate, now_us + wait_us - 1, tokens) == 1
    assert bucket.take(rate, now_us + wait_us, tokens) == 0


def test_a_refusal_costs_nothing() -> None:
    rate = Rate(10, 1)
    bucket = TokenBucket(rate, 0)
    assert bucket.take(rate, 0) == 0
    for now_us in range(1, 100_000, 7):
        assert bucket.take(rate, now_us) == 100_000 - now_us
    assert bucket.take(rate, 100_000) == 0


def test_a_clock_that_is_set_back_neither_gives_nor_blocks() -> None:
    rate = Rate(10, 1)
    bucket = TokenBucket(rate, 3_600_000_000)
    assert bucket.take(rate, 3_600_000_000) == 0
    assert bucket.take(rate, 0) == 100_000
    assert bucket.take(rate, 100_000) == 0


def test_another_rate_counts_at_once() -> None:
    bucket = TokenBucket(Rate(10, 1), 0)
    assert bucket.take(Rate(10, 1), 0) == 0
    assert bucket.take(Rate(1_000_000, 5), 1) == 0
    assert bucket.take(Rate(1, 1), 1) == 1_000_000


def test_more_than_the_burst_passes_when_the_bucket_is_full() -> None:
    rate = Rate(100, 50)
    bucket = TokenBucket(rate, 0)
    assert bucket.take(rate, 0, 5_000) == 0
    assert bucket.take(rate, 499_999, 5_000) == 1
    assert bucket.take(rate, 500_000, 5_000) == 0

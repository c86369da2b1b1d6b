"""Which time-out an attempt gets: by what answers took."""

from data_plane.core.attempt_patience import SCOUTS_AFTER, AttemptPatience

SHORT_US, LONG_US = 2_000_000, 6_000_000


def attempt(patience: AttemptPatience, takes_us: int) -> bool:
    """Whether a store that takes so long answers an attempt in time."""
    patient = patience.begin()
    timeout_us = LONG_US if patient else SHORT_US
    timed_out = takes_us > timeout_us
    patience.ended(min(takes_us, timeout_us), patient=patient, timed_out=timed_out)
    return not timed_out


def test_a_quick_store_gets_the_short_one() -> None:
    patience = AttemptPatience(SHORT_US)
    for _ in range(100):
        assert attempt(patience, 5_000)
        assert not patience.begin()


def test_a_store_of_three_seconds_is_served_after_a_few_timeouts() -> None:
    patience = AttemptPatience(SHORT_US)
    for _ in range(100):
        attempt(patience, 5_000)
    answered = [attempt(patience, 3_000_000) for _ in range(40)]
    assert not any(answered[:SCOUTS_AFTER])
    assert sum(answered) >= 0.7 * len(answered)
    assert all(answered[-10:])
    for _ in range(60):
        attempt(patience, 5_000)
    assert not patience.begin(), "it is quick again"


def test_one_at_a_time_finds_out_whether_it_is_slow_or_away() -> None:
    patience = AttemptPatience(SHORT_US)
    for _ in range(SCOUTS_AFTER):
        assert not attempt(patience, 1 << 40)
    assert [patience.begin() for _ in range(10)] == [True] + [False] * 9
    patience.ended(LONG_US, patient=True, timed_out=True)
    assert [patience.begin() for _ in range(2)] == [True, False]
    patience.ended(4_000_000, patient=True, timed_out=False)
    assert [patience.begin() for _ in range(3)] == [True] * 3


def test_a_store_that_swings_around_the_short_one_gets_the_long_one() -> None:
    patience = AttemptPatience(SHORT_US)
    for number in range(40):
        attempt(patience, 500_000 if number % 2 else 1_900_000)
    assert patience.begin()

"""When to look again at what may not have changed."""

from control_plane.core import revisits
from control_plane.core.revisits import REST_US_MAX, Revisits

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


def looks(used_us: int, from_us: int, for_us: int, every_us: int = SECOND_US) -> int:
    """How many looks there are while nothing happens, asked so often."""
    seen: Revisits[str] = Revisits()
    return sum(seen.take("q", used_us, now) for now in range(from_us, from_us + for_us, every_us))


def test_what_is_used_is_looked_at_each_time() -> None:
    seen: Revisits[str] = Revisits()
    assert all(seen.take("q", now_us, now_us) for now_us in range(1, 10))
    assert seen.take("q", 20, 20)
    assert seen.take("q", 21, 21)


def test_what_rests_is_looked_at_the_less_the_longer_it_rests() -> None:
    start_us = 1_000 * DAY_US
    first_minute = looks(start_us, start_us, 60 * SECOND_US)
    first_day = looks(start_us, start_us, DAY_US)
    assert 25 <= first_minute <= 40
    assert first_day <= first_minute + 150
    assert looks(start_us - DAY_US, start_us, DAY_US) == DAY_US // REST_US_MAX == 48
    assert looks(0, start_us, DAY_US) == 48


def test_a_look_that_failed_is_due_again() -> None:
    seen: Revisits[str] = Revisits()
    assert seen.take("q", 0, DAY_US)
    assert not seen.take("q", 0, DAY_US)
    seen.missed("q")
    assert seen.take("q", 0, DAY_US)


def test_a_clock_that_was_set_back_keeps_nothing_unseen() -> None:
    seen: Revisits[str] = Revisits()
    assert seen.take("q", 0, DAY_US)
    assert seen.take("q", 0, DAY_US - 1)


def test_memory_is_bounded() -> None:
    seen: Revisits[int] = Revisits()
    for number in range(revisits.NAMES_MAX + 10):
        assert seen.take(number, 0, DAY_US)
    assert len(seen._seen_us) == revisits.NAMES_MAX

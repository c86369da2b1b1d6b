"""How many calls may be under way: by what becomes of them."""

from data_plane.core.concurrency_limit import LIMIT_MIN, LONG_US, ConcurrencyLimit

SECOND_US = 1_000_000


def test_slow_answers_and_quick_failures_change_nothing() -> None:
    limit = ConcurrencyLimit(32)
    for number in range(1_000):
        limit.ended(number, number + 3 * SECOND_US, failed=False)
        limit.ended(number, number + LONG_US - 1, failed=True)
        limit.ended(number, number + 3 * SECOND_US, failed=None)
    assert limit.calls == 32


def test_timeouts_of_one_round_halve_it_once() -> None:
    limit = ConcurrencyLimit(32)
    for number in range(32):
        limit.ended(number, 2 * SECOND_US + number, failed=True)
    assert limit.calls == 16
    limit.ended(3 * SECOND_US, 5 * SECOND_US, failed=True)
    assert limit.calls == 8


def test_it_never_falls_so_low_that_nobody_finds_out() -> None:
    for most in (1, 2, 32):
        limit = ConcurrencyLimit(most)
        for round_ in range(20):
            began_us = 10 * round_ * SECOND_US
            limit.ended(began_us, began_us + 2 * SECOND_US, failed=True)
        assert limit.calls == min(most, LIMIT_MIN)


def test_answers_raise_it_again_by_one_a_round() -> None:
    limit = ConcurrencyLimit(32)
    limit.ended(0, 2 * SECOND_US, failed=True)
    rounds = 0
    while limit.calls < 32:
        for _ in range(limit.calls):
            limit.ended(rounds, rounds, failed=False)
        rounds += 1
    assert 14 <= rounds <= 20


def served(limit: ConcurrencyLimit | None, capacity: int, rounds: int) -> int:
    """What a store answers in time that does `capacity` calls at once, in half a second each.

    Whoever is beyond four times that waits past its time-out of two seconds, and so in vain.
    """
    answered, now_us = 0, 0
    for _ in range(rounds):
        calls = limit.calls if limit is not None else 64
        took_us = min(2, calls / capacity / 2) * SECOND_US
        in_time = calls <= 4 * capacity
        began_us, now_us = now_us, now_us + round(took_us) + 1
        answered += calls if in_time else 0
        if limit is not None:
            for _ in range(calls):
                limit.ended(began_us, now_us, failed=not in_time)
    return answered


def test_a_store_that_is_given_too_much_serves_again_what_it_can() -> None:
    assert served(None, 5, 400) == 0
    answered = served(ConcurrencyLimit(64), 5, 400)
    assert answered >= 0.5 * 400 * 20

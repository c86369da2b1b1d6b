"""What is held of bodies and answers: in all, and by account."""

from data_plane.core.limits import (
    ANSWERS_HELD_BYTES_MAX,
    BODIES_HELD_BYTES_MAX,
    REQUEST_BODY_BYTES_MAX,
)
from data_plane.http.held import Held


def test_an_account_alone_holds_half() -> None:
    held = Held(100)
    assert [held.take("a", 10) for _ in range(7)] == [*[True] * 5, False, False]
    assert held.total == 50


def test_who_comes_later_finds_a_part() -> None:
    held = Held(100)
    for account in ("a", "b", "c"):
        while held.take(account, 1):
            pass
    assert held.total == 50 + 25 + 12
    assert held.take("d", 6)


def test_what_has_left_has_room_again() -> None:
    held = Held(100)
    assert held.take("a", 50)
    assert not held.take("a", 1)
    held.leave("a", 20)
    assert held.take("a", 20)
    held.leave("a", 50)
    assert held.total == 0
    assert held._by_account == {}


def test_bytes_of_nobody_are_held_to_the_whole() -> None:
    held = Held(100)
    assert held.take("", 100)
    assert not held.take("", 1)
    assert not held.take("a", 1)


def test_the_longest_body_finds_room_beside_others() -> None:
    held = Held(BODIES_HELD_BYTES_MAX)
    assert all(held.take(account, REQUEST_BODY_BYTES_MAX) for account in "abcd")
    assert ANSWERS_HELD_BYTES_MAX <= BODIES_HELD_BYTES_MAX

"""What of messages fits into an answer that has a bound."""

from data_plane.core.message import Message
from data_plane.stored.room import Room


def message(size: int) -> Message:
    return Message(b"\0" * 16, "x" * size, (), "", "", "111122223333", 0)


def test_an_answer_without_a_bound_takes_everything() -> None:
    room = Room(None)
    assert all(room.take(message(1 << 20)) for _ in range(100))


def test_an_answer_takes_what_is_within_its_bound() -> None:
    room = Room(10)
    assert [room.take(message(size)) for size in (6, 5, 4, 1)] == [True, False, True, False]


def test_the_first_message_fits_whatever_its_size() -> None:
    room = Room(10)
    assert [room.take(message(size)) for size in (11, 1)] == [True, False]


def test_room_that_was_given_back_is_there_again() -> None:
    room = Room(10)
    first = message(10)
    assert room.take(first)
    assert not room.take(message(1))
    room.give_back([first])
    assert room.take(message(11)), "it is the first again"


def test_what_may_fit_is_known_by_sizes_alone_and_takes_no_room() -> None:
    room = Room(10)
    assert room.fitting([6, 4, 1]) == 2
    assert room.fitting([11, 1]) == 1, "the first message fits whatever its size"
    assert room.take(message(10))
    assert room.fitting([1]) == 0
    assert room.fitting([]) == 0
    assert Room(None).fitting([1 << 30] * 3) == 3

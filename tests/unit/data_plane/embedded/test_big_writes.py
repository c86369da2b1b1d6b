"""Which of the writes that wait go into the next commit: small ones do not wait for big ones."""

from collections import deque

from data_plane.embedded.batch import BIG_WRITES_BYTES_MAX, QueuedWrite, taken_of

ALL: int = 1 << 30
BIG = BIG_WRITES_BYTES_MAX * 2 // 5


def writes(*sizes: int) -> deque[QueuedWrite]:
    return deque(QueuedWrite(lambda _: None, None, size) for size in sizes)


def sizes(taken: list[QueuedWrite] | deque[QueuedWrite]) -> list[int]:
    return [write.size_bytes for write in taken]


def test_small_writes_pass_big_ones_that_one_commit_has_no_room_for() -> None:
    waiting = writes(BIG, BIG + 1, BIG + 2, 1, BIG + 3, 2)
    taken, late = taken_of(waiting, ALL, 0)
    assert (sizes(taken), late) == ([BIG, BIG + 1, 1, 2], [])
    assert sizes(waiting) == [BIG + 2, BIG + 3], "those that are passed keep their order"


def test_each_commit_takes_a_big_write_however_big_it_is() -> None:
    waiting = writes(BIG_WRITES_BYTES_MAX * 2, BIG_WRITES_BYTES_MAX * 3, 1)
    assert sizes(taken_of(waiting, ALL, 0)[0]) == [BIG_WRITES_BYTES_MAX * 2, 1]
    assert sizes(taken_of(waiting, ALL, 0)[0]) == [BIG_WRITES_BYTES_MAX * 3]
    assert taken_of(waiting, ALL, 0) == ([], [])


def test_what_one_transaction_has_no_room_for_stays_in_order() -> None:
    waiting = writes(BIG, BIG, BIG, 1, 2)
    taken, _ = taken_of(waiting, BIG, 0)
    assert sizes(taken) == [BIG]
    assert sizes(waiting) == [BIG, BIG, 1, 2]

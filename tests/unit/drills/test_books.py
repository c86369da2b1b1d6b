"""Each kind of violation is found, and what is excused is no violation."""

import pytest

from tests.drills.books import LAG_S_MAX, TAKE_OVER_S_MAX, Book, FifoBook, StandardBook

Identity = tuple[str, str]
NOW_S = 1_790_000_000.0


def kinds(book: Book) -> list[str]:
    return [violation.kind for violation in book.violations]


@pytest.fixture
def standard() -> StandardBook:
    book = StandardBook("jobs")
    assert book.send_asked() == 1
    book.send_answered(1, "id-1")
    return book


def delete(book: StandardBook, number: int = 1) -> float:
    """When it was acknowledged."""
    book.delete_asked(number)
    book.delete_answered(number, NOW_S)
    return NOW_S


def receive(book: StandardBook, asked_s: float, number: int = 1, message_id: str = "id-1") -> None:
    book.delivered(number, message_id, asked_s, asked_s + 0.1, 20)


def test_what_was_acknowledged_and_never_came_is_lost(standard: StandardBook) -> None:
    assert standard.left() == [1]
    standard.end()
    assert kinds(standard) == ["lost"]


def test_what_was_not_acknowledged_or_may_be_deleted_is_not_lost(standard: StandardBook) -> None:
    standard.send_asked()
    standard.delete_asked(1)
    standard.end()
    assert kinds(standard) == []


def test_a_deleted_message_does_not_come_back(standard: StandardBook) -> None:
    deleted_s = delete(standard)
    receive(standard, deleted_s - 0.01)
    assert kinds(standard) == []
    receive(standard, deleted_s + 0.01)
    assert kinds(standard) == ["resurrected"]


def test_but_it_may_where_the_delete_was_told_to_a_cell_about_to_be_lost(
    standard: StandardBook,
) -> None:
    deleted_s = delete(standard)
    standard.cell_lost(deleted_s + LAG_S_MAX / 2)
    receive(standard, deleted_s + 5)
    assert kinds(standard) == []
    assert standard.tally["resurrected, as a cell was lost"] == 1
    assert standard.left() == [1], "and then it has to be deleted again"


@pytest.mark.parametrize("lost_s", [LAG_S_MAX + 0.1, -TAKE_OVER_S_MAX - 0.1])
def test_only_then(standard: StandardBook, lost_s: float) -> None:
    deleted_s = delete(standard)
    standard.cell_lost(deleted_s + lost_s)
    receive(standard, deleted_s + 5)
    assert kinds(standard) == ["resurrected"]


def test_a_front_end_with_an_old_map_may_bring_it_later(standard: StandardBook) -> None:
    deleted_s = delete(standard)
    standard.cell_lost(deleted_s - TAKE_OVER_S_MAX - 3, old_map_s=5)
    receive(standard, deleted_s + 5)
    assert kinds(standard) == []


def test_a_message_in_flight_does_not_come_to_somebody_else(standard: StandardBook) -> None:
    receive(standard, NOW_S)
    receive(standard, NOW_S + 20.2)
    assert kinds(standard) == []
    receive(standard, NOW_S + 30)
    assert kinds(standard) == ["early"]


def test_a_message_is_stored_once_and_under_one_id(standard: StandardBook) -> None:
    receive(standard, NOW_S, message_id="another")
    assert kinds(standard) == ["duplicate"]


def test_nobody_sends_messages_but_clients(standard: StandardBook) -> None:
    receive(standard, NOW_S, number=2)
    assert kinds(standard) == ["altered"]


@pytest.fixture
def fifo() -> FifoBook:
    book = FifoBook("jobs.fifo", "ab")
    for number in range(1, 6):
        assert book.send_asked("a") == number
        book.send_answered("a", number, identity(number))
    return book


def identity(number: int) -> Identity:
    return f"id-{number}", f"{number:020}"


def come(book: FifoBook, *numbers: int) -> None:
    book.delivered("a", [(number, identity(number)) for number in numbers])


def end(book: FifoBook, *numbers: int) -> None:
    for number in numbers:
        book.delete_asked("a", number)
        book.delete_answered("a", number)


def test_a_group_comes_in_order(fifo: FifoBook) -> None:
    come(fifo, 1, 2)
    end(fifo, 1, 2)
    come(fifo, 3)
    come(fifo, 3, 4)
    end(fifo, 3, 4)
    come(fifo, 5)
    end(fifo, 5)
    fifo.end()
    assert kinds(fifo) == []


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (1, 2, 1)])
def test_out_of_order_is_found(fifo: FifoBook, numbers: tuple[int, ...]) -> None:
    come(fifo, *numbers)
    assert kinds(fifo)[:1] == ["order"]


def test_a_deleted_message_of_a_group_never_comes_back(fifo: FifoBook) -> None:
    come(fifo, 1)
    end(fifo, 1)
    fifo.cell_lost(NOW_S)
    come(fifo, 1)
    assert kinds(fifo) == ["resurrected"]


def test_what_may_be_deleted_may_come_or_not(fifo: FifoBook) -> None:
    come(fifo, 1, 2)
    fifo.delete_asked("a", 1)
    come(fifo, 1, 2)
    fifo.delete_asked("a", 1)
    come(fifo, 2)
    assert kinds(fifo) == []
    assert fifo.left() == ["a2", "a3", "a4", "a5"]


def test_but_not_once_a_later_one_came_without_it(fifo: FifoBook) -> None:
    come(fifo, 1)
    fifo.delete_asked("a", 1)
    come(fifo, 2)
    come(fifo, 1)
    assert kinds(fifo) == ["resurrected"]


def test_a_message_has_one_id_and_sequence_number(fifo: FifoBook) -> None:
    fifo.delivered("a", [(1, ("another", identity(1)[1]))])
    assert kinds(fifo) == ["duplicate"]


def test_a_group_has_what_was_sent_to_it(fifo: FifoBook) -> None:
    come(fifo, 6)
    assert kinds(fifo) == ["altered"]
    fifo.violations.clear()
    fifo.delivered("b", [(1, identity(1))])
    assert kinds(fifo) == ["altered"]


def test_what_is_missing_from_a_group_is_lost(fifo: FifoBook) -> None:
    come(fifo, 1, 2, 3)
    end(fifo, 1, 2, 3)
    fifo.end()
    assert kinds(fifo) == ["lost", "lost"]


def test_waits_are_the_longest_since_one_asked(standard: StandardBook) -> None:
    standard.waited("send", NOW_S, NOW_S + 5.0)
    standard.waited("send", NOW_S, NOW_S + 0.1)
    assert standard.take_waits() == {"send": 5.0}
    assert standard.take_waits() == {}


def test_who_waits_for_progress_hears_of_violations(standard: StandardBook) -> None:
    assert standard.wait_for("sends", 1, 0)
    standard.accuse("lost", "evidence")
    assert not standard.wait_for("sends", 2, 60)

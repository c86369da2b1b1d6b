import asyncio

import pytest

from data_plane.core.message import Outgoing, SendCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Key, Tally
from data_plane.stored import ledger
from data_plane.stored.keys import be64
from data_plane.usage.record import US_PER_MINUTE
from data_plane.usage.sends import STATE, UNDER_WAY_US, SendRecords, discard
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.usage.places import MemoryPlace


class Books:
    """A bag, and what becomes of its cell's ledger."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.place = MemoryPlace(self.bench.clock)
        self.sends = self.after_restart()

    def after_restart(self) -> SendRecords:
        return SendRecords(self.bench.cell, self.place, self.bench.entropy)

    def rows(self) -> list[tuple[int, str, int, int, int, int]]:
        return [
            (row["number"], row["operation"], row["requests"], row["units"], row["messages"],
             row["bytes"])
            for row in self.place.rows()
        ]  # fmt: skip

    def left(self) -> int:
        """How many rows the cell has."""
        return sum(item.key.partition == ledger.PARTITION for item in self.bench.cell.items())


@pytest.fixture
def books() -> Books:
    return Books()


def test_a_minute_is_stored_once_it_is_over(books: Books) -> None:
    async def story() -> None:
        await books.bench.send("a" * 70_000)
        await books.bench.send("a", "b", "c", batch=True)
        await books.sends.write()
        assert books.rows() == []
        books.bench.clock.advance(90)
        await books.sends.write()

    asyncio.run(story())
    assert books.rows() == [
        (1, "SendMessageBatch", 1, 1, 3, 3),
        (2, "SendMessage", 1, 2, 1, 70_000),
    ]
    assert books.left() == 0
    (row, _) = books.place.rows()
    assert (row["account"], row["region"], row["queue"]) == (
        *(QUEUE.account, QUEUE.region, QUEUE.name),
    )
    mark = books.place.mark(row["writer"])
    assert (mark["kind"], mark["records"], mark["closed"]) == ("ledger", 2, False)
    assert mark["complete_to"] == (books.bench.clock.now_us() - UNDER_WAY_US) // 60_000_000


def test_what_is_stored_a_moment_after_its_minute_is_recorded(books: Books) -> None:
    """Its row may lie below rows of that minute which would be records by then."""

    def row(queue: str, minute: int) -> Tally:
        named = be64(minute) + be64(0) + ledger.SINGLE + f"1|r|{queue}|u".encode()
        return Tally(Key(ledger.PARTITION, named), 1, "m")

    async def story() -> None:
        cell, clock = books.bench.cell, books.bench.clock
        minute = cell.now_us() // US_PER_MINUTE + 1
        clock.advance((minute * US_PER_MINUTE - cell.now_us()) / 1_000_000)
        await cell.put(Key("B|u", b"1"), {"v": 1}, tallies=lambda _: [row("orders", minute)])
        clock.advance(60.01)
        await books.sends.write()
        # Stamped in the minute before, and committed now.
        await cell.put(Key("B|u", b"2"), {"v": 1}, tallies=lambda _: [row("early", minute)])
        clock.advance(60)
        await books.sends.write()

    asyncio.run(story())
    assert sorted(row["queue"] for row in books.place.rows()) == ["early", "orders"]


@pytest.mark.parametrize(("sent_before", "began_before"), [(True, 2), (False, 0)])
def test_a_ledger_begins_with_what_it_has(
    books: Books, *, sent_before: bool, began_before: int
) -> None:
    async def story() -> int:
        if sent_before:
            await books.bench.send("x")
        books.bench.clock.advance(120)
        await books.sends.write()
        state = await books.bench.cell.get(STATE)
        assert state is not None
        return int(str(state["b"]))

    began = asyncio.run(story())
    assert began == books.bench.clock.now_us() // 60_000_000 - began_before


def test_at_the_end_all_is_stored_and_later_servers_go_on(books: Books) -> None:
    async def story() -> None:
        for _ in range(3):
            await books.bench.send("x")
            await books.sends.write_last()
            books.sends, books.bench.bag = books.after_restart(), books.bench.front_end()

    asyncio.run(story())
    assert books.rows() == [(n, "SendMessage", 1, 1, 1, 1) for n in (1, 2, 3)]
    assert len({row["writer"] for row in books.place.rows()}) == 1


@pytest.mark.parametrize("cut", ["records", "state", "expire"])
def test_whatever_is_cut_off_a_row_becomes_one_record(
    books: Books, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise CellUnavailableError("cut off")

    async def story() -> None:
        await books.bench.send("x")
        books.bench.clock.advance(90)
        await books.bench.send("y")
        with monkeypatch.context() as patch:
            if cut == "records":
                books.place.blobs.refuses = "records/"
            elif cut == "state":
                await books.sends.write()  # the state is there
                await books.bench.send("z")
                books.bench.clock.advance(90)
                patch.setattr(MemoryCell, "put", refuse)
            else:
                patch.setattr(MemoryCell, "expire", lambda *_: None)
            if cut == "expire":
                await books.sends.write()
            else:
                with pytest.raises(CellUnavailableError):
                    await books.sends.write()
        books.place.blobs.refuses = None
        books.sends, books.bench.bag = books.after_restart(), books.bench.front_end()
        await books.bench.send("later")
        await books.sends.write_last()

    asyncio.run(story())
    sent = {"records": 3, "state": 4, "expire": 3}[cut]
    assert sum(messages for *_, messages, _ in books.rows()) == sent
    assert [number for number, *_ in books.rows()] == list(range(1, len(books.rows()) + 1))
    assert books.left() == 0


def test_the_ledger_has_what_was_stored_and_no_repetition(books: Books) -> None:
    async def story() -> None:
        bag = books.bench.bag
        batch = [Outgoing(body="m", size=1, group=group) for group in ("", "g", "g")]
        call = bytes(range(16))
        await bag.send(QUEUE, SendCall("1", batch, name=call, batch=True))
        await bag.send(QUEUE, SendCall("1", batch, name=call, repeated=True, batch=True))
        await books.bench.front_end().send(
            QUEUE, SendCall("1", batch, name=call, repeated=True, batch=True)
        )
        await books.sends.write_last()

    asyncio.run(story())
    assert books.rows() == [(1, "SendMessageBatch", 1, 1, 3, 3)]


def test_what_nobody_wants_goes(books: Books) -> None:
    async def story() -> None:
        await books.bench.send("before")
        books.bench.clock.advance(90)
        since = books.bench.cell.now_us() // US_PER_MINUTE
        await books.bench.send("x")
        await discard(books.bench.cell, since)
        assert books.left() == 2
        books.bench.clock.advance(90)
        await discard(books.bench.cell, since)
        assert await books.bench.cell.get(STATE) is None
        assert books.left() == 1
        await books.sends.write()

    asyncio.run(story())
    assert books.left() == 0
    # What was sent while somebody counted is not lost by whoever does not.
    assert [row[-1] for row in books.rows()] == [len("before")]

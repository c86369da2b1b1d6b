"""Records that a queue over a stream has at hand: built once, and counted by what they take."""

import sys
from collections import Counter
from typing import Any

import pytest

from data_plane.core.message import Delivery, Message
from data_plane.core.record import OutgoingRecord
from data_plane.log.bounds import OPENED_RECORD_BYTES
from data_plane.log.engine import Log
from data_plane.log.sources import Piece
from data_plane.streams import reading
from tests.unit.data_plane.streams.queue_bench import QueueBench


@pytest.fixture
def bench() -> QueueBench:
    return QueueBench()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each slot was opened, by the offset of its first record."""
    counted: Counter[int] = Counter()
    open_slot = reading.open_slot

    async def counting(at: Any, slot: Any, opener: Any) -> Any:
        counted[slot.number] += 1
        return await open_slot(at, slot, opener)

    monkeypatch.setattr(reading, "open_slot", counting)
    return counted


@pytest.mark.parametrize("name", ["orders.fifo", "orders"])
def test_each_slot_is_opened_once(bench: QueueBench, opened: Counter[int], name: str) -> None:
    bench.queue = bench.over(name)

    async def story() -> None:
        for start in range(0, 300, 100):
            await bench.put(*(f"key{n % 7}:{n}" for n in range(start, start + 100)))
        assert len(await bench.drain()) == 300

    bench.run(story())
    assert opened == {1: 1, 101: 1, 201: 1}


def test_a_page_that_is_browsed_is_opened_once(bench: QueueBench, opened: Counter[int]) -> None:
    async def story() -> None:
        await bench.put("ann:1", "bob:2")
        page = await bench.log.browse(bench.queue, count=10)
        assert [one.message.body for one in page.messages] == ["ann:1", "bob:2"]

    bench.run(story())
    assert opened == {1: 1}


def test_what_is_not_at_hand_any_more_is_opened_again(
    bench: QueueBench, opened: Counter[int]
) -> None:
    async def story() -> list[str]:
        await bench.put("ann:1", "ann:2")
        await bench.delete(await bench.receive(1))
        (held,) = (one.reader.held for one in partitions(bench.log))
        held.let_go()
        return [one.message.body for one in await bench.receive()]

    assert bench.run(story()) == ["ann:2"]
    assert opened == {1: 2}


def test_records_at_hand_are_there_as_messages_alone(bench: QueueBench) -> None:
    async def story() -> list[Piece]:
        await bench.put(*(f"key{n}:{n}" for n in range(100)))
        await bench.receive(1)
        return pieces(bench.log)

    held = bench.run(story())
    assert [len(one.opened or ()) for one in held] == [64, 36]
    assert [dict(one.item) for one in held] == [{}, {}]


@pytest.mark.parametrize("data", [b"x", b"\xff" * 30, "ä".encode() * 20])
def test_short_records_count_as_what_they_take(bench: QueueBench, data: bytes) -> None:
    async def story() -> tuple[int, list[Piece], list[Delivery]]:
        await bench.put_records([OutgoingRecord(f"{n}", data) for n in range(100)])
        deliveries = await bench.receive(1)
        return bench.log._desk._shelf.bytes, pieces(bench.log), deliveries

    counted, held, deliveries = bench.run(story())
    messages = [message for one in held for message in one.opened or ()]
    assert len(messages) == 100
    taken = sum(map(bytes_of, messages))
    stored = sum(len(data) + len(f"{n}") for n in range(100))
    assert counted == pytest.approx(100 * OPENED_RECORD_BYTES + stored, abs=2)
    assert taken <= counted <= 2 * taken
    assert deliveries[0].message in messages


def partitions(log: Log) -> list[Any]:
    return [one for one in log._desk.partitions.values() if one.reader.held.bytes]


def pieces(log: Log) -> list[Piece]:
    return [held for one in partitions(log) for held in one.reader.held._held.values()]


def bytes_of(message: Message) -> int:
    """What a message takes in memory, beside what messages share."""
    own = (message.id, message.body, message.group, message.sequence, message.deduplication_id)
    in_list = 8
    return sys.getsizeof(message) + sum(map(sys.getsizeof, own)) + in_list

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from control_plane.sweep import AGAIN_US, SWEPT_AFTER_US, DeletedQueues, Sweep
from data_plane.core.dropping import Dropped
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.queue import Queue
from data_plane.embedded.traces import TRACE_KEPT_S
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Attributes, CellUnavailableError, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.keys import partitions, reader_low_water, reader_states, records
from data_plane.stored.sent_minutes import ALWAYS_US, SentTo, sent_to
from data_plane.system import SystemClock
from tests.unit.control_plane.conftest import ACCOUNT


class DroppingCell(MemoryCell):
    """A cell that removes many items at once, as the embedded one does."""

    async def drop(self, partition: str, budget: int) -> int:
        items = await self.query(partition, limit=budget)
        self.expire([item.key for item in items])
        return len(items)


def fill(cell: MemoryCell, uid: str, count: int) -> None:
    async def put_all() -> None:
        for partition in partitions(uid):
            for number in range(count):
                await cell.put(Key(partition, number.to_bytes(4, "big")), {"v": 1})

    asyncio.run(put_all())


def deleted_queue(control: Any) -> str:
    control.call("CreateQueue", QueueName="orders")
    uid = control.find("orders").uid
    control.call("DeleteQueue", QueueUrl="orders")
    return str(uid)


@pytest.mark.parametrize("kind", [MemoryCell, DroppingCell])
def test_a_deleted_queue_leaves_nothing_behind(control: Any, kind: type[MemoryCell]) -> None:
    data = kind(control.clock)
    uid = deleted_queue(control)
    fill(data, uid, 7)
    cells = {"a": data, "b": data}
    control.clock.advance(SWEPT_AFTER_US / 1_000_000)

    def step() -> int:
        now_us = control.clock.now_us()
        return asyncio.run(DeletedQueues(control.registry, cells).remove(now_us, items_max=10))

    assert [step() for _ in range(7)] == [10, 10, 10, 10, 10, 6, 0]
    assert data.items() == []
    assert asyncio.run(control.registry.dropped(10)) == []


def test_a_deleted_queue_over_a_stream_leaves_the_stream(control: Any) -> None:
    data = MemoryCell(control.clock)
    control.call("CreateQueue", QueueName="reader")
    reader = replace(control.find("reader"), stream_uid="a" * 16)
    asyncio.run(control.registry.delete(reader, control.clock.now_us()))

    async def fill_shards() -> None:
        for shard in (0, 0x1F):
            await data.put(reader_low_water(reader.uid, shard), {"v": 1})
            await data.put(Key(reader_states(reader.uid, shard), b"1"), {"v": 1})
            await data.put(Key(records(reader.stream_uid, shard), b"1"), {"v": 1})

    asyncio.run(fill_shards())
    control.clock.advance(SWEPT_AFTER_US / 1_000_000)
    cells, now_us = {"a": data, "b": data}, control.clock.now_us()
    assert asyncio.run(DeletedQueues(control.registry, cells).remove(now_us)) == 4
    assert {item.key.partition for item in data.items()} == {
        records(reader.stream_uid, 0),
        records(reader.stream_uid, 0x1F),
    }


def test_a_deleted_queue_keeps_its_name_while_there_are_traces_of_it(control: Any) -> None:
    """Also where another queue has had its name since, and long after the sweep."""
    data = MemoryCell(control.clock)
    uid = deleted_queue(control)
    control.clock.advance(SWEPT_AFTER_US / 1_000_000)
    control.call("CreateQueue", QueueName="orders")
    swept_s = control.clock.now_us() // 1_000_000
    asyncio.run(
        DeletedQueues(control.registry, {"a": data, "b": data}).remove(control.clock.now_us())
    )
    assert asyncio.run(control.registry.dropped(10)) == []
    (name,) = asyncio.run(control.cell.query(f"X|{ACCOUNT}", limit=9))
    assert (name.key.sort[8:].decode(), name.attributes["q"]) == (uid, "orders")
    assert name.attributes["x"] > swept_s + TRACE_KEPT_S


def test_nothing_is_removed_while_a_front_end_may_still_write(control: Any) -> None:
    data = MemoryCell(control.clock)
    fill(data, deleted_queue(control), 1)
    control.clock.advance(SWEPT_AFTER_US / 1_000_000 - 1)
    now_us = control.clock.now_us()
    assert asyncio.run(DeletedQueues(control.registry, {"a": data, "b": data}).remove(now_us)) == 0
    assert len(data.items()) == 8


def test_a_deletion_that_was_cut_off_harms_nothing(control: Any) -> None:
    """The sweep's item was written, the tombstone was not."""
    control.call("CreateQueue", QueueName="orders")
    queue = control.find("orders")
    data = MemoryCell(control.clock)
    fill(data, queue.uid, 1)

    async def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    control.registry._compare_and_set, kept = crash, control.registry._compare_and_set
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(control.registry.delete(queue, control.clock.now_us()))
    control.registry._compare_and_set = kept
    assert len(asyncio.run(control.registry.dropped(10))) == 1

    control.clock.advance(SWEPT_AFTER_US / 1_000_000)
    now_us = control.clock.now_us()
    assert asyncio.run(DeletedQueues(control.registry, {"a": data, "b": data}).remove(now_us)) == 0
    assert len(data.items()) == 8
    assert asyncio.run(control.registry.dropped(10)) == []


class SilentCell(MemoryCell):
    """A cell that does not answer."""

    async def drop(self, *_: Any) -> int:
        self.requests["drop"] += 1
        raise CellUnavailableError("silent")

    async def drop_superfluous(self, *_: Any) -> Dropped:
        raise CellUnavailableError("silent")


def deleted_queues(control: Any, count: int) -> list[Any]:
    names = [f"orders{number}" for number in range(count)]
    for name in names:
        control.call("CreateQueue", QueueName=name)
    queues = [control.find(name) for name in names]
    for name in names:
        control.call("DeleteQueue", QueueUrl=name)
        control.clock.advance(1)
    return queues


def test_a_cell_that_does_not_answer_holds_up_no_deleted_queue_of_others(control: Any) -> None:
    silent, data = SilentCell(control.clock), DroppingCell(control.clock)
    queues = deleted_queues(control, 50)
    assert [queue.cell for queue in queues[:20]].count("b") > 1
    for queue in queues:
        fill(data, queue.uid, 1)
    control.clock.advance(60)
    cells: Any = {"a": data, "b": silent}
    waits = EventLoopWaits(SystemClock())
    sweep = Sweep(control.registry, cells, cells, control.clock, waits, after_us=36_000_000)
    for _ in range(6):
        with pytest.raises(CellUnavailableError, match="silent"):
            asyncio.run(sweep.step())
    assert silent.requests["drop"] <= 6  # It is asked once a step.
    left = asyncio.run(control.registry.dropped(99))
    assert [one.uid for one in left] == [one.uid for one in queues if one.cell == "b"]
    cells["b"] = data
    for _ in range(6):
        asyncio.run(sweep.step())
    assert data.items() == asyncio.run(control.registry.dropped(99)) == []


def test_a_deleted_queue_that_has_to_wait_holds_up_no_other_one(control: Any) -> None:
    data = DroppingCell(control.clock, stamps=False)
    queues = deleted_queues(control, 15)
    for queue in queues:
        fill(data, queue.uid, 1)
    control.clock.advance(60)
    cells: Any = {"a": data, "b": data}
    waits = EventLoopWaits(SystemClock())
    sweep = Sweep(control.registry, cells, cells, control.clock, waits, after_us=36_000_000)

    async def note(to: SentTo, until_us: int) -> int:
        return until_us if to.uid in {queue.uid for queue in queues[11:]} else 0

    sweep.note_sent = note
    for _ in range(3):
        asyncio.run(sweep.step())
    left = asyncio.run(control.registry.dropped(99))
    assert [one.uid for one in left] == [one.uid for one in queues[:11]]


class Purges:
    """A queue with messages before and after a purge, and a server that drops what was purged."""

    def __init__(self, control: Any, cell: Any) -> None:
        self.control = control
        self.cell = cell
        self.recorded_us = ALWAYS_US
        self.asked: list[tuple[SentTo, int]] = []
        control.call("CreateQueue", QueueName="orders")
        self.queue = control.find("orders")
        self.restart()

    def restart(self) -> None:
        """Another process: it knows what is stored."""
        clock = self.control.clock
        cells = {"a": self.cell, "b": self.cell}
        self.sweep = Sweep(
            *(self.control.registry, cells, cells, clock, EventLoopWaits(SystemClock())),
            after_us=36_000_000,
        )
        self.sweep.note_sent = self.note

    async def note(self, to: SentTo, until_us: int) -> int:
        self.asked.append((to, until_us))
        return self.recorded_us

    def send(self, number: int) -> None:
        segment: Attributes = {
            "v": 1,
            "k": "s",
            "b": bytes(10),
            "i": number,
            "n": 1,
            "y": 3,
            "z": b"abc",
        }
        partition = partitions(self.queue.uid)[0]
        record = Append(
            partition, bytes(10) + bytes((number,)), segment, self.control.clock.now_us()
        )
        asyncio.run(self.cell.append(record))

    def left(self) -> list[int]:
        found = asyncio.run(self.cell.query(partitions(self.queue.uid)[0], limit=9))
        return [item.attributes["i"] for item in found]

    def purge(self) -> None:
        self.control.call("PurgeQueue", QueueUrl="orders")

    def step(self) -> int:
        return asyncio.run(self.sweep.step())

    def to_drop(self) -> int:
        return len(asyncio.run(self.control.registry.purges(9)))


def test_what_was_purged_is_dropped_and_nothing_else(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock))
    its.send(1)
    control.clock.advance(1)
    its.purge()
    control.clock.advance(1)
    its.send(2)
    assert its.step() == 0  # requests of before may be under way
    control.clock.advance(35)
    its.restart()
    assert (its.step(), its.left(), its.to_drop()) == (1, [2], 0)
    assert its.step() == 0


def test_purges_in_a_cell_that_does_not_answer_hold_up_no_others(control: Any) -> None:
    silent, data = SilentCell(control.clock), MemoryCell(control.clock)
    for number in range(60):
        control.call("CreateQueue", QueueName=f"orders{number}")
        control.call("PurgeQueue", QueueUrl=f"orders{number}")
        control.clock.advance(1)
    purged = asyncio.run(control.registry.purges(99))
    in_silent = [one.name for one in purged if control.find(one.name).cell == "b"]
    assert len(in_silent) > 20
    control.clock.advance(60)
    cells: Any = {"a": data, "b": silent}
    waits = EventLoopWaits(SystemClock())
    sweep = Sweep(control.registry, cells, cells, control.clock, waits, after_us=36_000_000)
    for _ in range(7):
        with suppress(CellUnavailableError):
            asyncio.run(sweep.step())
    assert [one.name for one in asyncio.run(control.registry.purges(99))] == in_silent
    cells["b"] = data
    control.clock.advance(AGAIN_US / 1_000_000)
    for _ in range(7):
        asyncio.run(sweep.step())
    assert asyncio.run(control.registry.purges(99)) == []


def test_each_purge_waits_for_the_requests_of_before(control: Any) -> None:
    """Though an earlier one was not dropped yet, as where a cell did not answer."""
    its = Purges(control, MemoryCell(control.clock))
    its.send(1)
    control.clock.advance(1)
    its.purge()
    control.clock.advance(60)
    its.send(2)
    control.clock.advance(1)
    its.purge()
    control.clock.advance(35)
    assert (its.step(), its.left(), its.to_drop()) == (1, [2], 1)
    control.clock.advance(1)
    assert (its.step(), its.left(), its.to_drop()) == (1, [], 0)


def test_a_purge_of_before_stamps_were_noted_goes_by_the_definition(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock))
    its.send(1)
    control.clock.advance(1)
    its.purge()
    [purge] = asyncio.run(control.registry.purges(9))
    noted = asyncio.run(control.cell.get(purge.key))
    asyncio.run(control.cell.put(purge.key, {n: v for n, v in noted.items() if n != "p"}))
    control.clock.advance(36)
    assert (its.step(), its.left(), its.to_drop()) == (1, [], 0)


def test_a_purge_that_was_cut_off_drops_nothing(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock))
    its.send(1)

    async def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    control.registry._compare_and_set, kept = crash, control.registry._compare_and_set
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(control.registry.purge(its.queue, control.clock.now_us()))
    control.registry._compare_and_set = kept
    control.clock.advance(36)
    assert (its.step(), its.left(), its.to_drop()) == (0, [1], 0)


def test_a_queue_of_the_same_name_loses_nothing_by_a_purge_of_before(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock))
    its.purge()
    control.call("DeleteQueue", QueueUrl="orders")
    control.clock.advance(61)
    control.call("CreateQueue", QueueName="orders")
    its.queue = control.find("orders")
    its.send(1)
    while its.step():
        pass
    assert (its.left(), its.to_drop()) == ([1], 0)


@pytest.mark.parametrize("operation", ["PurgeQueue", "DeleteQueue"])
def test_what_was_sent_is_noted_before_it_is_dropped_at_once(control: Any, operation: str) -> None:
    its = Purges(control, MemoryCell(control.clock, stamps=False))
    its.send(1)
    control.call(operation, QueueUrl="orders")
    control.clock.advance(36)
    left: list[list[int]] = []

    async def note(_to: SentTo, until_us: int) -> int:
        found = await its.cell.query(partitions(its.queue.uid)[0], limit=9)
        left.append([item.attributes["i"] for item in found])
        return until_us

    its.sweep.note_sent = note
    assert (its.step(), its.left(), left[0]) == (1, [], [1])


def test_a_cell_with_a_ledger_has_noted_what_was_sent(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock))
    its.send(1)
    its.purge()
    control.call("DeleteQueue", QueueUrl="orders")
    control.clock.advance(36)
    assert (its.step(), its.asked) == (1, [])


def test_what_was_sent_is_recorded_before_it_is_dropped(control: Any) -> None:
    """In a cell without a ledger the messages themselves say what was sent."""
    its = Purges(control, MemoryCell(control.clock, stamps=False))
    its.send(1)
    its.purge()
    its.recorded_us = 0
    control.clock.advance(36)
    assert (its.step(), its.to_drop()) == (0, 1)
    its.recorded_us = control.clock.now_us()
    assert its.step() == 0  # gone over again a minute later
    purged_us = control.find("orders").purged_us
    assert its.asked == [(sent_to(its.queue), purged_us)]
    control.clock.advance(60)
    assert (its.step(), its.left(), its.to_drop()) == (1, [], 0)


def test_a_cell_that_drops_nothing_is_asked_for_nothing(control: Any) -> None:
    """As on DynamoDB: what was purged is left to its time to live, which costs no request."""
    control.call("CreateQueue", QueueName="orders")
    control.call("PurgeQueue", QueueUrl="orders")
    control.clock.advance(36)
    cells: Any = dict.fromkeys("ab", object())
    waits = EventLoopWaits(SystemClock())
    sweep = Sweep(control.registry, cells, cells, control.clock, waits, after_us=36_000_000)
    assert asyncio.run(sweep.step()) == 0
    assert asyncio.run(control.registry.purges(9)) == []


def test_what_was_sent_to_a_deleted_queue_is_recorded_before_it_is_dropped(control: Any) -> None:
    its = Purges(control, MemoryCell(control.clock, stamps=False))
    its.send(1)
    control.call("DeleteQueue", QueueUrl="orders")
    deleted_us = control.clock.now_us()
    control.clock.advance(60)
    for recorded_us in (deleted_us, deleted_us + 35_000_000):
        its.recorded_us = recorded_us
        assert (its.step(), its.left()) == (0, [1])
    its.recorded_us = deleted_us + 36_000_000
    assert (its.step(), its.left()) == (1, [])


def test_a_raised_retention_is_gone_over_when_all_front_ends_know_it(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"MessageRetentionPeriod": "60"})
    control.call(
        "SetQueueAttributes", QueueUrl="orders", Attributes={"MessageRetentionPeriod": "345600"}
    )
    cells = {"a": MemoryCell(control.clock), "b": MemoryCell(control.clock)}
    waits = EventLoopWaits(control.clock)
    restamped: list[int] = []
    failures: list[Exception] = [CellUnavailableError("a"), queue_does_not_exist()]

    async def restamp(queue: Queue) -> None:
        if failures:
            raise failures.pop()
        restamped.append(queue.retention_s)

    def step() -> None:
        # Each by another server: what is left to do is stored.
        sweep = Sweep(control.registry, cells, cells, control.clock, waits, restamp=restamp)
        asyncio.run(sweep.step())

    control.clock.advance(SWEPT_AFTER_US / 1_000_000 - 1)
    step()
    assert len(failures) == 2
    control.clock.advance(1)
    step()
    with pytest.raises(CellUnavailableError):
        step()
    assert restamped == []
    for _ in range(2):
        step()
    assert restamped == [345_600]
    assert asyncio.run(control.registry.purges(10)) == []


def test_a_raised_retention_of_a_queue_that_was_deleted_is_forgotten(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"MessageRetentionPeriod": "60"})
    control.call(
        "SetQueueAttributes", QueueUrl="orders", Attributes={"MessageRetentionPeriod": "61"}
    )
    control.call("DeleteQueue", QueueUrl="orders")
    control.clock.advance(SWEPT_AFTER_US / 1_000_000)
    cells = {"a": MemoryCell(control.clock), "b": MemoryCell(control.clock)}
    sweep = Sweep(control.registry, cells, cells, control.clock, EventLoopWaits(control.clock))
    asyncio.run(sweep.step())
    assert asyncio.run(control.registry.purges(10)) == []

"""Dropping where each item costs a request: at a pace, and by one front end at a time."""

import asyncio
from typing import Any

import pytest

from control_plane.drop_turn import KEY, TURN_US, DropTurn
from control_plane.sweep import AGAIN_US, SWEPT_AFTER_US, Paid, Sweep
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Attributes, CellThrottledError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.keys import partitions
from data_plane.stored.superfluous import Verdict, verdict
from data_plane.system import SystemClock, SystemEntropy

STEP_ITEMS = 5


class PaidCell(MemoryCell):
    """A cell that drops in small steps, and says what it was asked for."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock, stamps=False)
        self.deleted: list[bytes] = []
        self.looked = 0
        self.throttled = False

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        if self.throttled:
            raise CellThrottledError("too much")
        page = await self.query(part.partition, after=after, limit=STEP_ITEMS)
        self.looked += len(page)
        gone = [
            item.key
            for item in page
            if verdict(part, item.key.sort, item.attributes) is Verdict.REMOVE
        ]
        self.deleted += [key.sort for key in gone]
        self.expire(gone)
        return Dropped(page[-1].key.sort if page else b"", len(gone))


class Purged:
    """A queue of which 100 messages were purged, 5 came later, and front ends that drop."""

    def __init__(self, control: Any) -> None:
        self.control = control
        self.clock = control.clock
        self.cell = PaidCell(self.clock)
        self.registry_cell = MemoryCell(self.clock)
        control.call("CreateQueue", QueueName="orders")
        self.partition = partitions(control.find("orders").uid)[0]
        self.send(100)
        self.clock.advance(1)
        control.call("PurgeQueue", QueueUrl="orders")
        self.clock.advance(1)
        self.send(5)
        self.clock.advance(SWEPT_AFTER_US / 1_000_000)

    def send(self, count: int) -> None:
        for number in range(count):
            now_us = self.clock.now_us()
            its: Attributes = {"v": 1, "k": "s", "b": bytes(10), "i": number, "n": 1, "y": 3}
            record = Append(self.partition, bytes(10) + bytes((number,)), its, now_us)
            asyncio.run(self.cell.append(record))

    def front_end(self, items_per_s: int = 20) -> Sweep:
        cells = {"a": self.cell, "b": self.cell}
        turn = DropTurn(self.registry_cell, self.clock, SystemEntropy())
        waits = EventLoopWaits(SystemClock())
        paid = Paid(items_per_s, turn)
        return Sweep(self.control.registry, cells, cells, self.clock, waits, paid=paid)

    def step(self, sweep: Sweep) -> int:
        return asyncio.run(sweep.step())

    def left(self) -> int:
        return len(asyncio.run(self.cell.query(self.partition, limit=500)))

    def to_drop(self) -> int:
        return len(asyncio.run(self.control.registry.purges(9)))

    def seconds(self, *sweeps: Sweep, count: int = 60) -> list[int]:
        """What all of them drop together in each second."""
        dropped = []
        for _ in range(count):
            dropped.append(sum(map(self.step, sweeps)))
            self.clock.advance(1)
        return dropped


@pytest.fixture
def its(control: Any) -> Purged:
    return Purged(control)


def test_items_go_at_the_pace_and_no_faster(its: Purged) -> None:
    sweep = its.front_end(20)
    dropped = its.seconds(sweep)
    assert dropped[:5] == [20] * 5
    assert (sum(dropped), its.left(), its.to_drop()) == (100, 5, 0)


def test_a_pace_below_a_step_is_a_mean(its: Purged) -> None:
    dropped = its.seconds(its.front_end(1), count=20)
    assert (sum(dropped), dropped[0]) == (4 * STEP_ITEMS, STEP_ITEMS)


def test_with_no_pace_what_was_purged_is_left_to_its_time_to_live(its: Purged) -> None:
    assert its.seconds(its.front_end(0), count=2) == [0, 0]
    assert (its.left(), its.cell.looked, its.to_drop()) == (105, 0, 0)


def test_several_front_ends_drop_no_faster_and_nothing_twice(its: Purged) -> None:
    sweeps = [its.front_end(20) for _ in range(4)]
    dropped = its.seconds(*sweeps)
    assert max(dropped) == 20
    assert sum(dropped) == len(its.cell.deleted) == len(set(its.cell.deleted)) == 100
    # Each item is looked at once; what came after the purge, too.
    assert its.cell.looked == 105


def test_the_turn_costs_a_write_in_15_s_and_others_one_in_30_s(its: Purged) -> None:
    turns = [DropTurn(its.registry_cell, its.clock, SystemEntropy()) for _ in range(3)]
    before = its.registry_cell.requests.total()
    for _ in range(60):
        assert [asyncio.run(turn.take()) for turn in turns] == [True, False, False]
        its.clock.advance(1)
    assert its.registry_cell.requests.total() - before == 4 + 2 * 2


@pytest.mark.parametrize("after", range(1, 6))
def test_another_goes_on_after_a_crash_and_repeats_nothing_that_costs(
    its: Purged, after: int
) -> None:
    first, second = its.front_end(20), its.front_end(20)
    its.seconds(first, count=after)
    assert sum(its.seconds(second, count=40)) == 100 - 20 * after
    assert len(its.cell.deleted) == len(set(its.cell.deleted)) == 100
    # It begins at the beginning, where nothing is left.
    assert its.cell.looked <= 105 + STEP_ITEMS
    assert (its.left(), its.to_drop()) == (5, 0)


def test_a_turn_is_another_s_when_it_was_not_kept(its: Purged) -> None:
    first, second = (DropTurn(its.registry_cell, its.clock, SystemEntropy()) for _ in range(2))
    assert asyncio.run(first.take())
    assert not asyncio.run(second.take())
    its.clock.advance(TURN_US / 1_000_000 + 1)
    assert asyncio.run(second.take())
    assert not asyncio.run(first.take())


def test_a_turn_of_a_clock_far_ahead_is_over_some_time(its: Purged) -> None:
    turn = DropTurn(its.registry_cell, its.clock, SystemEntropy())
    ahead_us = its.clock.now_us() + 3600 * 1_000_000
    asyncio.run(its.registry_cell.put(KEY, {"v": 1, "w": b"x", "u": ahead_us}))
    assert not asyncio.run(turn.take())
    its.clock.advance(3601)
    assert asyncio.run(turn.take())


def test_a_table_that_throttles_is_left_alone_for_a_minute(its: Purged) -> None:
    sweep = its.front_end(20)
    its.cell.throttled = True
    with pytest.raises(CellThrottledError):
        its.step(sweep)
    its.cell.throttled = False
    assert sum(its.seconds(sweep, count=59)) == 0
    its.clock.advance(AGAIN_US / 1_000_000)
    assert sum(its.seconds(sweep)) == 100


def test_deleted_queues_go_at_the_pace(control: Any) -> None:
    its = Purged(control)
    control.call("DeleteQueue", QueueUrl="orders")
    its.clock.advance(SWEPT_AFTER_US / 1_000_000)
    dropped = its.seconds(its.front_end(20), count=10)
    assert (max(dropped), sum(dropped), its.left()) == (20, 105, 0)

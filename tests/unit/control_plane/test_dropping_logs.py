"""What purges of a FIFO queue drop while other front ends append by what they saw before."""

import asyncio
from typing import Any

from control_plane.sweep import SWEPT_AFTER_US, Sweep
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.log.bounds import APPEND_AGE_US_MAX, BLOCK_FULL_MESSAGES
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Item, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.system import SystemClock
from tests.unit.control_plane.conftest import ACCOUNT

MINUTE_US = 60_000_000


class Fifo:
    """A FIFO queue, two front ends that append to it, and a server that drops what was purged."""

    def __init__(self, control: Any) -> None:
        self.control = control
        self.clock = control.clock
        self.cell = MemoryCell(self.clock)
        control.call("CreateQueue", QueueName="q.fifo", Attributes={"FifoQueue": "true"})
        self.here, self.there = self.front_end(), self.front_end()
        cells = {"a": self.cell, "b": self.cell}
        waits = EventLoopWaits(SystemClock())
        self.sweep = Sweep(control.registry, cells, cells, self.clock, waits)
        self.sent = 0

    @property
    def queue(self) -> Queue:
        return self.control.find("q.fifo")  # type: ignore[no-any-return]

    def front_end(self) -> Log:
        cells = {"a": self.cell, "b": self.cell}
        return Log(cells, self.clock, self.control.entropy, EventLoopWaits(self.clock))

    def send(self, log: Log, count: int = 1) -> list[bytes]:
        """Messages with bodies of their own in one slot: the ids that were answered."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        messages = [
            Outgoing(body=f"{n}", size=9, group="g", deduplication_id=f"{n}") for n in numbers
        ]
        answers = asyncio.run(log.send(self.queue, SendCall(ACCOUNT, messages)))
        return [answer.id for answer in answers]

    def purge(self) -> None:
        stamp_us = asyncio.run(self.here.purge(self.queue))
        asyncio.run(self.control.registry.purge(self.queue, stamp_us))

    def left(self) -> list[bytes]:
        """The ids of what a front end delivers that has read to the end before."""
        call = self.here.receive(self.queue, count=10, visibility_s=30, until_us=0)
        return [delivery.message.id for delivery in asyncio.run(call)]

    def slots(self) -> list[Item]:
        return [item for item in self.cell.items() if item.key.partition.startswith("G|")]

    def to_drop(self) -> list[int]:
        return [purge.purged_us for purge in asyncio.run(self.control.registry.purges(9))]


def test_what_a_later_purge_reaches_waits_for_its_own_turn(control: Any) -> None:
    """Else a slot that was dropped is free to who saw the end of the log before that purge."""
    its = Fifo(control)
    its.send(its.here, BLOCK_FULL_MESSAGES)
    its.purge()
    its.clock.advance((SWEPT_AFTER_US - MINUTE_US / 6) / 1_000_000)
    its.send(its.there)
    its.send(its.here, BLOCK_FULL_MESSAGES)
    its.send(its.here, BLOCK_FULL_MESSAGES)
    its.purge()
    assert its.left() == []
    its.clock.advance(10)
    assert asyncio.run(its.sweep.step())
    assert its.to_drop() == [its.queue.purged_us]
    acknowledged = its.send(its.there)
    assert its.left() == acknowledged

    its.clock.advance(SWEPT_AFTER_US / 1_000_000)
    before = len(its.slots())
    assert asyncio.run(its.sweep.step())
    assert (len(its.slots()) < before, its.to_drop()) == (True, [])


def test_a_purge_that_does_not_say_how_far_it_goes_drops_nothing_of_after_it(control: Any) -> None:
    """Such as those that are stored since before there was `p`."""
    its = Fifo(control)
    its.purge()
    (item,) = [item for item in control.cell.items() if item.key.partition == "Z|"]
    without: Attributes = {name: value for name, value in item.attributes.items() if name != "p"}
    asyncio.run(control.cell.put(Key("Z|", item.key.sort), without))
    assert its.to_drop() == [int.from_bytes(item.key.sort[:8], "big")]


def test_what_was_purged_is_dropped_when_no_append_counts_that_did_not_see_the_purge() -> None:
    """A front end's clock may differ from another one's by five minutes besides."""
    assert SWEPT_AFTER_US >= APPEND_AGE_US_MAX + 2 * 5 * MINUTE_US

"""What the shipped engines spend on a queue whose consumer keeps up, counted from item sizes."""

import asyncio
import base64
from collections import Counter
from random import Random
from typing import Final

from control_plane.core.request_units import Shape, Spent
from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.log.engine import Log
from data_plane.memory.blobs import MemoryBlobs
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.bodies import BodyStore
from tests.conformance.capacity_cell import CapacityCell
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD
from tests.unit.data_plane.log.conftest import QUEUE as FIFO
from tests.unit.repeatable import HandClock, SeededEntropy

BETWEEN_CALLS_S: Final = 0.01
WRITES: Final = ("put_item", "update_item", "delete_item")
READS: Final = ("get_item", "batch_get_item", "query")
TRIES_MAX: Final = 40


class Count:
    """A queue and front ends of which each call meets one, chosen at random by a fixed seed."""

    def __init__(self, shape: Shape, front_ends: int = 1) -> None:
        self._shape = shape
        self._queue: Queue = FIFO if shape.fifo else STANDARD
        self._clock = HandClock()
        self._cell = CapacityCell(self._clock)
        self._random = Random(7)
        entropy, waits = SeededEntropy(), EventLoopWaits(self._clock)
        engine: type[Bag | Log] = Log if shape.fifo else Bag
        self._bodies = [BodyStore(MemoryBlobs(self._clock))] * front_ends
        self._front_ends = [
            engine({self._queue.cell: self._cell}, self._clock, entropy, waits, {"a": bodies})
            for bodies in self._bodies
        ]
        self._spent: dict[str, Counter[str]] = {}
        self._before: Counter[str] = Counter()

    def calls(self, rounds: int) -> dict[str, Spent]:
        """Send a batch, receive it, delete it, so many times: what each of these spends."""
        asyncio.run(self._work(rounds))
        return {
            step: Spent(
                writes=sum(units[name] for name in WRITES) / rounds,
                reads=sum(units[name] for name in READS) / rounds,
                puts=units["puts"] / rounds,
                gets=units["gets"] / rounds,
            )
            for step, units in self._spent.items()
        }

    def empty_receive(self) -> float:
        """Read units of the second receive that finds nothing, after a minute without messages."""
        self.calls(3)
        self._clock.advance(60)
        assert asyncio.run(self._receive(1)) == []
        before = self._units()
        assert asyncio.run(self._receive(1)) == []
        after = self._units()
        return sum(after[name] - before[name] for name in READS)

    async def _work(self, rounds: int) -> None:
        shape = self._shape
        self._before = self._units()
        for number in range(rounds):
            messages = [self._message(number, index) for index in range(shape.batch)]
            await self._front_end().send(self._queue, SendCall(self._queue.account, messages))
            self._note("send")
            self._clock.advance(BETWEEN_CALLS_S)
            found: list[Delivery] = []
            for _ in range(TRIES_MAX):
                found += await self._receive(shape.batch - len(found))
                if len(found) == shape.batch:
                    break
            self._note("receive")
            assert len(found) == shape.batch
            handles = [decode(each.receipt_handle, self._queue) for each in found]
            await self._front_end().delete(self._queue, handles)
            self._note("delete")
            self._clock.advance(BETWEEN_CALLS_S)

    async def _receive(self, count: int) -> list[Delivery]:
        return await self._front_end().receive(
            self._queue, count=count, visibility_s=30, until_us=0
        )

    def _front_end(self) -> Bag | Log:
        return self._random.choice(self._front_ends)

    def _message(self, number: int, index: int) -> Outgoing:
        """Random text of 64 different characters; in FIFO queues a hundred groups take turns."""
        size = self._shape.size_bytes
        body = base64.b64encode(self._random.randbytes(size))[:size].decode()
        if not self._shape.fifo:
            return Outgoing(body=body, size=size)
        return Outgoing(
            body=body,
            size=size,
            group=f"group-{number % 100}",
            deduplication_id=self._random.randbytes(16).hex() + str(index),
        )

    def _units(self) -> Counter[str]:
        units = self._cell.units.copy()
        bodies = self._bodies[0]
        units["puts"], units["gets"] = bodies.counters.puts, bodies.counters.gets
        return units

    def _note(self, step: str) -> None:
        now = self._units()
        self._spent.setdefault(step, Counter()).update(now - self._before)
        self._before = now

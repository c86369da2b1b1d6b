"""Front ends over one counted memory cell, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle, decode
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

T = TypeVar("T")

QUEUE = Queue(
    account="111122223333",
    region="us-east-1",
    name="orders",
    uid="00112233445566aa",
    cell="a",
    version=1,
    created_s=0,
    modified_s=0,
    fifo=False,
    visibility_timeout_s=30,
    delay_s=0,
    message_bytes_max=1 << 20,
    retention_s=345_600,
    receive_wait_s=0,
    purged_us=0,
    attributes={},
    secret=SECRET,
)


@dataclass
class Bench:
    """A cell, a clock, and as many front ends as a test opens."""

    clock: HandClock = field(default_factory=HandClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    queue: Queue = QUEUE

    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock)
        self.bag = self.front_end()

    def front_end(self) -> Bag:
        """A front end that knows nothing yet: another one, or this one after a restart."""
        return Bag({"a": self.cell}, self.clock, self.entropy, EventLoopWaits(self.clock))

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    async def send(self, *bodies: str, bag: Bag | None = None, **options: Any) -> list[bytes]:
        delay_s = options.pop("delay_s", None)
        messages = [Outgoing(body=b, size=len(b), delay_s=delay_s) for b in bodies]
        call = SendCall(self.queue.account, messages, options.pop("call", b""), **options)
        return await (bag or self.bag).send(self.queue, call)

    async def receive(
        self, count: int = 10, visibility_s: int = 30, bag: Bag | None = None
    ) -> list[Delivery]:
        return await (bag or self.bag).receive(
            self.queue, count=count, visibility_s=visibility_s, until_us=0
        )

    def handle(self, delivery: Delivery) -> ReceiptHandle:
        return decode(delivery.receipt_handle, self.queue)

    async def delete(self, deliveries: list[Delivery], bag: Bag | None = None) -> None:
        await (bag or self.bag).delete(self.queue, [self.handle(d) for d in deliveries])

    async def drain(self, bag: Bag | None = None, count: int = 10) -> list[str]:
        """Receive and delete until nothing is left: the bodies."""
        bodies: list[str] = []
        while deliveries := await self.receive(count, bag=bag):
            bodies += [d.message.body for d in deliveries]
            await self.delete(deliveries, bag=bag)
        return bodies

    async def cost_of(
        self, call: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[dict[str, int], int]:
        """Requests by kind, and items read, of one call."""
        requests, items = self.cell.requests.copy(), self.cell.items_read
        await call()
        return dict(self.cell.requests - requests), self.cell.items_read - items


@pytest.fixture
def bench() -> Bench:
    return Bench()

"""Front ends over one counted memory cell with a FIFO queue, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from data_plane.core.message import Delivery, Outgoing, SendCall, Sent
from data_plane.core.queue import Generation, Queue
from data_plane.core.receipt_handle import ReceiptHandle, decode
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD_QUEUE
from tests.unit.repeatable import HandClock, SeededEntropy

T = TypeVar("T")

QUEUE = replace(STANDARD_QUEUE, name="orders.fifo", fifo=True, attributes={"FifoQueue": "true"})
GROUP_SCOPE = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
HIGH_THROUGHPUT = (Generation(0, 8, 0),)
"""The generations of a queue that had its throughput limit from the start."""


@dataclass
class Bench:
    """A cell, a clock, and as many front ends as a test opens."""

    clock: HandClock = field(default_factory=HandClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    queue: Queue = QUEUE

    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock)
        self.log = self.front_end()

    def front_end(self) -> Log:
        """A front end that knows nothing yet: another one, or this one after a restart."""
        return Log({"a": self.cell}, self.clock, self.entropy, EventLoopWaits(self.clock))

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    async def send(self, *texts: str, log: Log | None = None) -> list[Sent]:
        """Send messages `group:body` or `group:body:deduplication id` (else the body is it)."""
        messages = []
        for text in texts:
            group, body, *rest = text.split(":")
            messages.append(
                Outgoing(
                    body=body, size=len(body), group=group, deduplication_id=(rest or [body])[0]
                )
            )
        return await (log or self.log).send(self.queue, SendCall(self.queue.account, messages))

    async def receive(
        self, count: int = 10, visibility_s: int = 30, log: Log | None = None, until_us: int = 0
    ) -> list[Delivery]:
        return await (log or self.log).receive(
            self.queue, count=count, visibility_s=visibility_s, until_us=until_us
        )

    def handle(self, delivery: Delivery) -> ReceiptHandle:
        return decode(delivery.receipt_handle, self.queue)

    async def delete(self, deliveries: list[Delivery], log: Log | None = None) -> list[str]:
        """Delete; the messages of those that were refused."""
        outcomes = await (log or self.log).delete(self.queue, [self.handle(d) for d in deliveries])
        return [outcome.message for outcome in outcomes if outcome is not None]

    async def drain(self, log: Log | None = None) -> list[str]:
        """Receive and delete until nothing is left: the bodies."""
        found: list[str] = []
        while deliveries := await self.receive(log=log):
            found += bodies(deliveries)
            assert not await self.delete(deliveries, log=log)
        return found

    async def cost_of(
        self, call: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[dict[str, int], int]:
        """Requests by kind, and items read, of one call."""
        requests, items = self.cell.requests.copy(), self.cell.items_read
        await call()
        return dict(self.cell.requests - requests), self.cell.items_read - items


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [delivery.message.body for delivery in deliveries]


@pytest.fixture
def bench() -> Bench:
    return Bench()

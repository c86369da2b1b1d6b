"""A FIFO queue with a FIFO dead-letter queue, on cells that stop, and front ends over both."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue, RedrivePolicy
from data_plane.log.engine import Log
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from tests.unit.data_plane.bag.pipe import KnownQueues, StoppingCell
from tests.unit.data_plane.log.conftest import QUEUE, Bench, bodies

DEAD = replace(QUEUE, name="dead.fifo", uid="dddd112233445566", cell="b")
ORDERS = replace(QUEUE, redrive=RedrivePolicy(DEAD.account, DEAD.region, DEAD.name, 2))


class StoppingLogCell(StoppingCell):
    """Appends of a log are puts; those of messages are told from others."""

    stops: Callable[[str], bool] = staticmethod(lambda _write: False)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        write = "append" if attributes.get("k") == "s" else "put"
        if self.stops(write) and not self.after:
            raise CellUnavailableError(write)
        written = await super().put(key, attributes, condition, tallies)
        if self.stops(write):
            raise CellUnavailableError(f"{write}, stored")
        return written

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        if not key.partition.startswith("F|"):
            stops, self.stops = self.stops, lambda _write: False
            try:
                return await super().update(key, change, condition, tallies)
            finally:
                self.stops = stops
        return await super().update(key, change, condition, tallies)


@dataclass
class Pipe(Bench):
    """`queue` has the policy: its messages are delivered twice, and then go to `dead`."""

    cell: StoppingLogCell = field(init=False)
    queue: Queue = ORDERS
    dead: Queue = DEAD
    queues: KnownQueues = field(init=False)

    def __post_init__(self) -> None:
        self.cell = StoppingLogCell(self.clock)
        self.dead_cell = StoppingLogCell(self.clock)
        self.queues = KnownQueues(ORDERS, DEAD)
        self.log = self.front_end()

    def front_end(self) -> Log:
        return Log(
            {"a": self.cell, "b": self.dead_cell},
            self.clock,
            self.entropy,
            EventLoopWaits(self.clock),
            queues=self.queues,
        )

    async def receive_dead(
        self, count: int = 10, visibility_s: int = 30, log: Log | None = None
    ) -> list[Delivery]:
        return await (log or self.log).receive(
            self.dead, count=count, visibility_s=visibility_s, until_us=0
        )

    async def poison(self, *texts: str) -> None:
        """Send messages, and receive them as often as they may be delivered."""
        await self.send(*texts)
        for _ in range(2):
            assert len(await self.receive(visibility_s=0)) == len(texts)

    async def bury(self, *texts: str) -> list[Delivery]:
        """Let messages come into the dead-letter queue: as they are received there at once."""
        await self.poison(*texts)
        assert await self.receive() == []
        return await self.receive_dead(visibility_s=0)

    def copies(self) -> int:
        """Slots with messages in the dead-letter queue."""
        partition = keys.slots(DEAD.uid, 0, 0)
        return sum(
            item.key.partition == partition and item.attributes["k"] == "s"
            for item in self.dead_cell.items()
        )

    async def back(self, message: Message) -> Queue:
        """To be redriven to where it came from."""
        del message
        return self.queue


__all__ = ["DEAD", "ORDERS", "Pipe", "bodies"]

"""A queue with a dead-letter queue, on cells of their own, and front ends that know both."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue, RedrivePolicy
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    CellUnavailableError,
    Condition,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from tests.unit.data_plane.bag.conftest import QUEUE, Bench

DEAD = replace(QUEUE, name="dead", uid="dddd112233445566", cell="b")
ORDERS = replace(QUEUE, redrive=RedrivePolicy(DEAD.account, DEAD.region, DEAD.name, 2))


class KnownQueues:
    """The port Queues: those that a test says are there."""

    def __init__(self, *queues: Queue) -> None:
        self.by_name = {queue.name: queue for queue in queues}
        self.answering = True

    async def find(self, account: str, region: str, name: str) -> Queue | None:
        assert (account, region) == (QUEUE.account, QUEUE.region)
        if not self.answering:
            raise CellUnavailableError("the registry")
        return self.by_name.get(name)


class StoppingCell(MemoryCell):
    """Fails each write for which `stops` says so, before it or after it took effect."""

    stops: Callable[[str], bool] = staticmethod(lambda _write: False)
    meets: Callable[[Append], None] = staticmethod(lambda _record: None)
    after = False

    async def append(self, record: Append) -> Appended:
        self.meets(record)
        if self.stops("append") and not self.after:
            raise CellUnavailableError("append")
        appended = await super().append(record)
        if self.stops("append"):
            raise CellUnavailableError("append, stored")
        return appended

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        write = "delete" if change.add else "lease"
        if self.stops(write) and not self.after:
            raise CellUnavailableError(write)
        written = await super().update(key, change, condition, tallies)
        if self.stops(write):
            raise CellUnavailableError(f"{write}, stored")
        return written


@dataclass
class Pipe(Bench):
    """`queue` has the policy: its messages are delivered twice, and then go to `dead`."""

    cell: StoppingCell = field(init=False)
    queue: Queue = ORDERS
    dead: Queue = DEAD
    queues: KnownQueues = field(init=False)

    def __post_init__(self) -> None:
        self.cell = StoppingCell(self.clock)
        self.dead_cell = StoppingCell(self.clock)
        self.queues = KnownQueues(ORDERS, DEAD)
        self.bag = self.front_end()

    def take_proposed_stamps(self) -> None:
        """From now on the cells are such as do not choose the stamps of what they take."""
        self.cell = StoppingCell(self.clock, stamps=False)
        self.dead_cell = StoppingCell(self.clock, stamps=False)
        self.bag = self.front_end()

    def front_end(self) -> Bag:
        return Bag(
            {"a": self.cell, "b": self.dead_cell},
            self.clock,
            self.entropy,
            EventLoopWaits(self.clock),
            queues=self.queues,
        )

    async def receive_dead(
        self, count: int = 10, visibility_s: int = 30, bag: Bag | None = None
    ) -> list[Delivery]:
        return await (bag or self.bag).receive(
            self.dead, count=count, visibility_s=visibility_s, until_us=0
        )

    async def poison(self, *bodies: str) -> None:
        """Send messages, and receive them as often as they may be delivered."""
        await self.send(*bodies)
        for _ in range(2):
            assert len(await self.receive(visibility_s=0)) == len(bodies)

    async def bury(self, *bodies: str) -> list[Delivery]:
        """Let messages come into the dead-letter queue: as they are received there at once."""
        await self.poison(*bodies)
        assert await self.receive() == []
        return await self.receive_dead(visibility_s=0)

    def copies(self) -> list[Item]:
        """Segments in the dead-letter queue's cell."""
        partition = keys.segments(DEAD.uid, 0, 0)
        return [item for item in self.dead_cell.items() if item.key.partition == partition]

    async def back(self, message: Message) -> Queue:
        """To be redriven to where it came from."""
        del message
        return self.queue

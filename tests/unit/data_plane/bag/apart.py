"""Front ends over a cell of small items, with a blob store for what is too big for them."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery
from data_plane.memory.blobs import MemoryBlobs
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Appended, CellUnavailableError, Item, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.repeatable import HandClock, SeededEntropy

ITEM_BYTES_MAX = 400 * 1024
HOUR_S = 3600
entropy = SeededEntropy()


def text(size: int) -> str:
    """A body that does not compress to less than half of it."""
    return entropy.random_bytes(size // 2).hex()


class NarrowCell(MemoryCell):
    """As DynamoDB: takes proposed stamps and no item above 400 KB, and leaves all to its time."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock, stamps=False)
        self.append_takes_s: list[float] = []
        self.failing = 0
        self.hand = clock

    async def append(self, record: Append) -> Appended:
        sizes = [len(v) for v in record.attributes.values() if isinstance(v, str | bytes)]
        assert sum(sizes) < ITEM_BYTES_MAX
        if self.failing:
            self.failing -= 1
            raise CellUnavailableError("lost")
        if self.append_takes_s:
            self.hand.advance(self.append_takes_s.pop())
        return await super().append(record)

    def expire(self, keys: Sequence[Key]) -> None:
        del keys


class FailingBlobs(MemoryBlobs):
    """Fails while it is told to, by the name of the call."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.failing: set[str] = set()
        self.failing_names: set[str] = set()

    def _fail(self, call: str, name: str = "") -> None:
        if call in self.failing or name in self.failing_names:
            raise CellUnavailableError(f"no {call}")

    async def put(self, name: str, body: bytes) -> None:
        self._fail("put")
        await super().put(name, body)

    async def get(self, name: str) -> bytes | None:
        self._fail("get", name)
        return await super().get(name)

    async def delete(self, names: Sequence[str]) -> None:
        self._fail("delete")
        await super().delete(names)


@dataclass
class ApartBench(Bench):
    cell: NarrowCell = field(init=False)
    threshold_bytes: int = BLOB_THRESHOLD_BYTES

    def __post_init__(self) -> None:
        self.cell = NarrowCell(self.clock)
        self.blobs = FailingBlobs(self.clock)
        self.bag = self.front_end()

    def front_end(self) -> Bag:
        return Bag(
            {"a": self.cell},
            self.clock,
            self.entropy,
            EventLoopWaits(self.clock),
            {"a": BodyStore(self.blobs, self.threshold_bytes)},
        )

    async def names(self) -> list[str]:
        return [blob.name for blob in await self.blobs.names(limit=1000)]

    def segments(self) -> list[Item]:
        partition = keys.segments(QUEUE.uid, 0, 0)
        return [i for i in self.cell.items() if i.key.partition == partition]

    async def blob_cost_of(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> dict[str, int]:
        before = self.blobs.requests.copy()
        await call()
        return dict(self.blobs.requests - before)


def bodies_of(deliveries: list[Delivery]) -> list[str]:
    return [delivery.message.body for delivery in deliveries]


async def sweep(bench: ApartBench, times: int = 8, bag: Bag | None = None) -> None:
    for _ in range(times):
        await (bag or bench.bag).sweep()
        await (bag or bench.bag).sweep_bodies()

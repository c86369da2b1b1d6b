"""Front ends over one counted memory cell with a stream of two shards, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from data_plane.core.record import OutgoingRecord, Put, PutCall
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place, Read
from tests.unit.repeatable import HandClock, SeededEntropy

T = TypeVar("T")
HALF = 2**127
DAY_S = 86_400


def stream_at(now_us: int) -> Stream:
    """A stream that was made now."""
    made_s = now_us // 1_000_000
    return Stream(
        account="123456789012",
        region="eu-central-1",
        name="clicks",
        uid="aaaa112233445566",
        cell="a",
        version=1,
        retention_s=DAY_S,
        kept_s=DAY_S,
        record_bytes_max=1024 * 1024,
        shards=(Shard(0, 0, HALF - 1, made_s), Shard(1, HALF, HASH_KEY_MAX, made_s)),
        secret=bytes(range(32)),
    )


@dataclass
class Bench:
    """A cell, a clock, and as many front ends as a test opens."""

    clock: HandClock = field(default_factory=HandClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)

    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock)
        self.stream = stream_at(self.clock.now_us())
        self.streams = self.front_end()

    @property
    def shard(self) -> Shard:
        return self.stream.shards[0]

    def front_end(self) -> Streams:
        """A front end that knows nothing yet: another one, or this one after a restart."""
        return Streams({"a": self.cell}, self.clock, self.entropy, EventLoopWaits(self.clock))

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    def keep_for(self, retention_s: int) -> None:
        self.stream = replace(self.stream, retention_s=retention_s, kept_s=retention_s)

    async def put(
        self, *texts: str, streams: Streams | None = None, call: PutCall | None = None
    ) -> list[Put]:
        records = [OutgoingRecord(text.partition(":")[0], text.encode()) for text in texts]
        return await self.put_records(records, streams, call)

    async def put_records(
        self,
        records: Sequence[OutgoingRecord],
        streams: Streams | None = None,
        call: PutCall | None = None,
    ) -> list[Put]:
        engine = streams or self.streams
        by_position = dict(enumerate(records))
        stored, failure = await engine.put(self.stream, self.shard, by_position, call or PutCall())
        if failure is not None:
            raise failure
        return [stored[position] for position in by_position]

    async def read(
        self, place: Place | None = None, records_max: int = 10_000, streams: Streams | None = None
    ) -> Read:
        engine = streams or self.streams
        at = place or Place(1)
        return await engine.read(self.stream, self.shard, at, records_max=records_max)

    async def all_texts(
        self, records_max: int = 10_000, streams: Streams | None = None
    ) -> list[str]:
        """Everything from the oldest record on, a page after the other."""
        found: list[str] = []
        place: Place | None = Place(1)
        while place is not None:
            page = await self.read(place, records_max, streams)
            found += texts(page)
            if not page.records:
                break
            place = page.place
        return found

    async def cost_of(self, call: Callable[[], Coroutine[Any, Any, T]]) -> dict[str, int]:
        """Requests by kind of one call."""
        requests = self.cell.requests.copy()
        await call()
        return dict(self.cell.requests - requests)


def texts(page: Read) -> list[str]:
    return [record.data.decode() for record in page.records]


@pytest.fixture
def bench() -> Bench:
    return Bench()

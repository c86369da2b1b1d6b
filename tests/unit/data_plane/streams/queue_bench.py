"""Front ends of a queue that reads a stream, over one counted memory cell, in virtual time."""

from collections import Counter
from dataclasses import replace
from typing import Any

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream, hash_key_of
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Clock, Written
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.engine import Streams
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD_QUEUE
from tests.unit.data_plane.streams.conftest import Bench


class LosingCell(MemoryCell):
    """A cell whose next replies to updates may be lost; what they change is changed."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.lost = 0
        self.written: Counter[str] = Counter()

    async def update(self, *args: Any, **kwargs: Any) -> Written:
        answer = await super().update(*args, **kwargs)
        self.written[args[0].partition[0]] += 1
        if self.lost:
            self.lost -= 1
            raise CellUnavailableError("the reply was lost")
        return answer


class QueueBench(Bench):
    """A stream, a queue over it, and as many front ends as a test opens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cell: LosingCell = LosingCell(self.clock)
        self.streams = self.front_end()
        self.log = self.consumer()
        self.queue = self.over("orders.fifo")

    def over(self, name: str, uid: str = "ffee112233445566", **more: Any) -> Queue:
        """A queue over the stream, from its beginning on."""
        attributes = {"TidegateStreamArn": self.stream.arn, **more.pop("attributes", {})}
        return replace(
            STANDARD_QUEUE,
            account=self.stream.account,
            region=self.stream.region,
            name=name,
            uid=uid,
            fifo=name.endswith(".fifo"),
            attributes=attributes,
            stream_uid=self.stream.uid,
            **more,
        )

    def consumer(self) -> Log:
        """A front end that knows nothing yet."""
        cells, waits = {"a": self.cell}, EventLoopWaits(self.clock)
        bag = Bag(cells, self.clock, self.entropy, waits)
        streams = Streams(cells, self.clock, self.entropy, waits)
        ports = (cells, self.clock, self.entropy, waits)
        return Log(*ports, sources=streams.sources(self), copies=bag.store_copy)

    async def find(self, _account: str, _region: str, _name: str) -> Stream | None:
        return self.stream

    async def renewed(self, _stream: Stream) -> Stream:
        return self.stream

    async def put_for(self, key: str, *texts: str) -> None:
        """Put records in one call into the shard that their key belongs to."""
        shard = self.stream.shard_of(hash_key_of(key))
        records = {n: OutgoingRecord(key, text.encode()) for n, text in enumerate(texts)}
        _, failure = await self.streams.put(self.stream, shard, records, PutCall())
        assert failure is None

    async def split(self, number: int) -> None:
        """Split an open shard in the middle."""
        shard = self.stream.shard(number)
        assert shard is not None
        closed_us = await self.streams.close(self.stream, shard)
        made_s = closed_us // 1_000_000 + 1
        middle = (shard.first_hash + shard.last_hash) // 2
        following = max(one.number for one in self.stream.shards) + 1
        children = (
            Shard(following, shard.first_hash, middle, made_s, parent=number),
            Shard(following + 1, middle + 1, shard.last_hash, made_s, parent=number),
        )
        await self._replace([replace_end(shard, closed_us)], children)

    async def merge_all(self) -> None:
        """Merge the open shards into one, two by two."""
        while len(self.stream.open_shards) > 1:
            first, second = self.stream.open_shards[:2]
            ends = [await self.streams.close(self.stream, one) for one in (first, second)]
            made_s = max(ends) // 1_000_000 + 1
            following = max(one.number for one in self.stream.shards) + 1
            parents = {"parent": first.number, "adjacent": second.number}
            child = Shard(following, first.first_hash, second.last_hash, made_s, **parents)
            closed = [replace_end(one, end) for one, end in zip((first, second), ends, strict=True)]
            await self._replace(closed, (child,))
        assert self.stream.open_shards[0].last_hash == HASH_KEY_MAX

    async def _replace(self, closed: list[Shard], children: tuple[Shard, ...]) -> None:
        by_number = {one.number: one for one in (*self.stream.shards, *closed, *children)}
        shards = tuple(by_number[number] for number in sorted(by_number))
        self.stream = replace(self.stream, shards=shards, version=self.stream.version + 1)

    async def receive(
        self, count: int = 10, log: Log | None = None, queue: Queue | None = None
    ) -> list[Delivery]:
        return await (log or self.log).receive(
            queue or self.queue, count=count, visibility_s=30, until_us=0
        )

    async def delete(
        self, deliveries: list[Delivery], log: Log | None = None, queue: Queue | None = None
    ) -> list[str]:
        """Delete; the bodies of what was deleted."""
        wanted = queue or self.queue
        handles = [decode(one.receipt_handle, wanted) for one in deliveries]
        outcomes = await (log or self.log).delete(wanted, handles)
        told = zip(deliveries, outcomes, strict=True)
        return [one.message.body for one, outcome in told if outcome is None]

    async def drain(self, log: Log | None = None, queue: Queue | None = None) -> list[str]:
        """Receive and delete until nothing is left: the bodies in order."""
        found: list[str] = []
        while deliveries := await self.receive(log=log, queue=queue):
            done = await self.delete(deliveries, log, queue)
            assert done == [one.message.body for one in deliveries]
            found += done
        return found


def replace_end(shard: Shard, closed_us: int) -> Shard:
    """The shard as it is when it is closed."""
    return shard._replace(closed_us=closed_us)

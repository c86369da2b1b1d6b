"""The stream of a universe: its records, how its shards change, and how front ends see that."""

from random import Random

from control_plane.core import shard_map
from data_plane.core.sequence_number import sequence_number
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream
from data_plane.streams.lag import Lag
from data_plane.streams.reading import Place
from tests.simulation.scheduler import Scheduler
from tests.simulation.sealed import ACCOUNT, REGION

NAME = "clicks"
SEEN_LATE_US = 5_000_000
"""A front end sees a change so much later at most, unless it asks."""

_US_PER_S = 1_000_000


class Shards:
    """What there is. A record is a text; its offset is its place, from 1 on."""

    def __init__(self, scheduler: Scheduler, random: Random, count: int) -> None:
        self._scheduler = scheduler
        self._random = random
        shards = shard_map.first_shards(count, scheduler.now_us // _US_PER_S)
        self.versions: list[tuple[int, Stream]] = [(scheduler.now_us, _stream(shards, 1))]
        self.records: dict[int, list[str]] = {shard.number: [] for shard in shards}

    @property
    def now(self) -> Stream:
        """The definition as it is."""
        return self.versions[-1][1]

    def put(self, text: str) -> None:
        """Put a record into some shard."""
        shard = self.now.shard_of(self._random.randrange(HASH_KEY_MAX))
        self.records[shard.number].append(text)

    def change(self) -> str:
        """Split a shard, or merge two: what was done."""
        opened = self.now.open_shards
        number = len(self.now.shards)
        at = self._random.randrange(len(opened))
        if at + 1 < len(opened) and self._random.random() < 0.5:
            plan = shard_map.merge(opened[at], opened[at + 1], number)
        else:
            middle = (opened[at].first_hash + opened[at].last_hash) // 2
            plan = shard_map.split(opened[at], middle, number)
        now_us = self._scheduler.now_us
        ended_us = dict.fromkeys(plan.parents, now_us)
        shards = shard_map.carried_out(self.now.shards, plan, ended_us)
        self.versions.append((now_us, _stream(shards, self.now.version + 1)))
        self.records |= {shard.number: [] for shard in plan.children}
        return f"shards {plan.parents} end, {[shard.number for shard in plan.children]} begin"

    def number(self, shard: Shard, offset: int) -> str:
        """The sequence number of a record."""
        return sequence_number(shard, offset, self._scheduler.now_us)


class SeenShards:
    """The stream as a front end sees it: some of the time as it was before."""

    def __init__(self, shards: Shards, scheduler: Scheduler, random: Random) -> None:
        self._shards = shards
        self._scheduler = scheduler
        self._random = random

    async def find(self, account: str, region: str, name: str) -> Stream | None:
        """As of at most 5 s ago."""
        if (account, region, name) != (ACCOUNT, REGION, NAME):
            return None
        late_us = self._random.choice((0, 0, self._random.randrange(SEEN_LATE_US)))
        seen_us = self._scheduler.now_us - late_us
        seen = [stream for since_us, stream in self._shards.versions if since_us <= seen_us]
        return seen[-1] if seen else self._shards.versions[0][1]

    async def renewed(self, stream: Stream) -> Stream:
        """As it is when the answer leaves."""
        del stream
        await self._scheduler.pause(self._random.randrange(1_000, 10_000))
        now = self._shards.now
        await self._scheduler.pause(self._random.randrange(1_000, 10_000))
        return now

    async def latest(self, stream: Stream, shard: Shard) -> Place:
        """Behind the last record."""
        del stream
        return Place(len(self._shards.records[shard.number]) + 1)

    async def since(self, stream: Stream, shard: Shard, time_us: int) -> Place:
        """The first record."""
        del stream, shard, time_us
        return Place(1)

    async def lag(self, stream: Stream, shard: Shard, offset: int) -> Lag:
        """How many records there are behind an offset."""
        del stream
        return Lag(len(self._shards.records[shard.number]) - offset, 0)


def _stream(shards: tuple[Shard, ...], version: int) -> Stream:
    return Stream(
        account=ACCOUNT,
        region=REGION,
        name=NAME,
        uid="5" * 16,
        cell="a",
        version=version,
        retention_s=86_400,
        kept_s=86_400,
        record_bytes_max=1_048_576,
        shards=shards,
    )

"""What messages take in tables, as a front end learns it: by few looks, and only where asked."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Any, TypeVar

import pytest

from control_plane import stored_on_tables
from control_plane.stored_on_tables import StoredOnTables
from data_plane.core.queue import Queue
from data_plane.core.stream import Shard, Stream
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Item, Tally
from data_plane.stored import counting
from data_plane.streams.measuring import Measured
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.streams.conftest import stream_at
from tests.unit.repeatable import HandClock

T = TypeVar("T")

LOOK_S = 10
WHOLE_S = 60


class CountedCell(MemoryCell):
    """A memory cell that knows how often each partition was asked for, and can be away."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self.asked: Counter[str] = Counter()
        self.away = False

    async def query(self, partition: str, **options: Any) -> list[Item]:
        if self.away:
            raise CellUnavailableError
        self.asked[partition] += 1
        return await super().query(partition, **options)


@dataclass
class Names:
    """A registry of these queues."""

    queues: dict[str, Queue] = field(default_factory=dict)

    async def names(
        self, account: str, region: str, *, prefix: str, after: str, limit: int
    ) -> list[str]:
        assert not prefix
        return sorted(
            queue.name
            for queue in self.queues.values()
            if (queue.account, queue.region) == (account, region) and queue.name > after
        )[:limit]

    async def find(self, _account: str, _region: str, name: str) -> Queue | None:
        return self.queues.get(name)


@dataclass
class StreamNames:
    """A registry of these streams."""

    streams: dict[str, Stream] = field(default_factory=dict)

    async def names(self, account: str, region: str, *, after: str, limit: int) -> list[str]:
        return sorted(
            stream.name
            for stream in self.streams.values()
            if (stream.account, stream.region) == (account, region) and stream.name > after
        )[:limit]

    async def find(self, _account: str, _region: str, name: str) -> Stream | None:
        return self.streams.get(name)


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.cell = CountedCell(self.clock)
        self.names = Names()
        self.stream_names = StreamNames()
        self.came_bytes: Counter[tuple[str, int]] = Counter()
        self.shards_asked = 0
        self.regions: dict[str, list[str]] = {}
        self.stored = StoredOnTables(
            lambda _queue: self.cell,
            lambda: self.names,  # type: ignore[arg-type, return-value]
            lambda: self.stream_names,  # type: ignore[arg-type, return-value]
            self._look_at,
            self._regions,
            self.clock,
        )

    async def _look_at(self, stream: Stream, known: Mapping[Shard, Measured]) -> None:
        self.shards_asked += len(known)
        if self.cell.away:
            raise CellUnavailableError
        for shard, measured in known.items():
            measured.came_bytes = self.came_bytes[stream.uid, shard.number]

    async def _regions(self, account: str) -> list[str]:
        return self.regions.get(account, [])

    def queue(self, number: int = 0, **facts: Any) -> Queue:
        made = replaced(QUEUE, name=f"q{number:03}", uid=f"{number:016x}", **facts)
        self.names.queues[made.name] = made
        return made

    def stream(self, shards: int, **facts: Any) -> Stream:
        made = tuple(Shard(number, 0, 0, 1) for number in range(shards))
        whole = replaced(stream_at(self.clock.now_us()), account=QUEUE.account, region=QUEUE.region)
        stream = replaced(whole, shards=made, **facts)
        self.stream_names.streams[stream.name] = stream
        for shard in made:
            self.came_bytes[stream.uid, shard.number] = 100
        return stream

    def move(self, queue: Queue, count: int, size_bytes: int, ago_s: float = 0) -> None:
        """So many messages, of this size together, come or go."""
        stamp_us = self.clock.now_us() - round(ago_s * 1_000_000)
        tallies: list[Tally] = list(counting.sent(queue, stamp_us, 0, count, size_bytes))
        self.cell._count(tallies)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    def of_queue(self, queue: Queue | Stream) -> int:
        return self.run(self.stored.of_one(queue))

    def of_account(self, queue: Queue | Stream) -> int:
        return self.run(self.stored.of_account(queue))

    def shard_looks(self) -> int:
        """At shards, since this was asked last."""
        asked, self.shards_asked = self.shards_asked, 0
        return asked

    def looks(self) -> int:
        """At queues, since this was asked last; each is a query and one that finds the end."""
        asked, self.cell.asked = self.cell.asked, Counter()
        return sum(-(-count // 2) for count in asked.values())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_queue_is_looked_at_once_in_ten_seconds(bench: Bench) -> None:
    queue = bench.queue()
    bench.move(queue, 2, 3_000)
    assert [bench.of_queue(queue) for _ in range(50)] == [3_000] * 50
    assert bench.looks() == 1
    bench.move(queue, 1, 500)
    bench.clock.advance(LOOK_S - 0.1)
    assert (bench.of_queue(queue), bench.looks()) == (3_000, 0)
    bench.clock.advance(0.1)
    assert (bench.of_queue(queue), bench.looks()) == (3_500, 1)


def test_nobody_waits_for_a_look_of_another(bench: Bench) -> None:
    queue = bench.queue()
    bench.of_queue(queue)
    bench.clock.advance(LOOK_S)

    async def together() -> list[int]:
        return await asyncio.gather(*(bench.stored.of_one(queue) for _ in range(20)))

    bench.looks()
    assert bench.run(together()) == [0] * 20
    assert bench.looks() == 1


def test_older_minutes_are_read_once_in_a_minute(bench: Bench) -> None:
    queue = bench.queue()
    bench.move(queue, 3, 9_000, ago_s=3_600)
    bench.move(queue, 1, 1_000, ago_s=60)
    assert bench.of_queue(queue) == 10_000
    bench.move(queue, -2, -6_000, ago_s=3_600)
    bench.move(queue, 1, 400)
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(queue) == 10_400
    bench.clock.advance(WHOLE_S - LOOK_S)
    assert bench.of_queue(queue) == 4_400


def test_what_is_purged_or_expired_counts_no_more(bench: Bench) -> None:
    queue = bench.queue(retention_s=600)
    bench.move(queue, 1, 7_000, ago_s=700)
    bench.move(queue, 1, 100, ago_s=300)
    assert bench.of_queue(queue) == 100
    purged = replaced(queue, purged_us=bench.clock.now_us())
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(purged) == 0


def test_what_counters_lack_is_not_taken_from_others(bench: Bench) -> None:
    """Of messages whose handles said no size the bytes stay, until none is left."""
    queue = bench.queue()
    bench.move(queue, 1, 500)
    bench.move(queue, 2, -300, ago_s=120)  # a copy was not told of what came
    assert bench.of_queue(queue) == 500
    bench.move(queue, -1, 0)
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(queue) == 0


def test_while_a_table_is_away_what_is_known_serves(bench: Bench) -> None:
    queue = bench.queue()
    bench.move(queue, 1, 500)
    assert bench.of_queue(queue) == 500
    bench.cell.away = True
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(queue) == 500
    assert bench.of_queue(bench.queue(1)) == 0


def test_an_account_has_what_its_queues_have(bench: Bench) -> None:
    one, two = bench.queue(1), bench.queue(2)
    other = bench.queue(3, account="444455556666")
    for queue in (one, two, other):
        bench.move(queue, 1, 1_000)
    assert bench.of_account(one) == 1_000  # the other one is not known yet
    assert bench.of_account(other) == 1_000
    bench.run(bench.stored.measure())
    assert bench.of_account(one) == 2_000
    # A queue that was deleted counts no more after a while.
    del bench.names.queues[two.name]
    for _ in range(11):
        bench.clock.advance(WHOLE_S)
        bench.run(bench.stored.measure())
        bench.of_account(one)
    assert bench.of_account(one) == 1_000


def test_queues_in_regions_that_nobody_sends_to_here_count(bench: Bench) -> None:
    here, there = bench.queue(1), bench.queue(2, region="us-east-2")
    bench.move(there, 1, 1_000)
    bench.regions[here.account] = [there.region]
    assert bench.of_account(here) == 0
    bench.run(bench.stored.measure())
    assert bench.of_account(here) == 1_000


def test_a_round_has_a_pace_and_begins_once_in_a_minute(bench: Bench) -> None:
    queues = [bench.queue(number) for number in range(25)]
    for queue in queues:
        bench.move(queue, 1, 10)
    bench.of_account(queues[0])
    bench.looks()
    looks = []
    for _ in range(WHOLE_S):
        bench.run(bench.stored.measure())
        looks.append(bench.looks())
        bench.clock.advance(1)
    assert looks[:4] == [9, 10, 5, 0]
    assert not any(looks[4:])
    assert bench.of_account(queues[0]) == 250
    bench.looks()
    bench.run(bench.stored.measure())
    assert bench.looks()


def test_accounts_that_nobody_holds_to_anything_cost_nothing(bench: Bench) -> None:
    queue = bench.queue()
    for _ in range(100):
        bench.stored.met(queue)
        bench.run(bench.stored.measure())
        bench.clock.advance(1)
    assert not bench.looks()
    # Nor do those that sent nothing for ten minutes.
    bench.of_account(queue)
    bench.clock.advance(601)
    bench.looks()
    for _ in range(100):
        bench.run(bench.stored.measure())
        bench.clock.advance(1)
    assert not bench.looks()


def test_only_so_many_queues_are_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_on_tables, "QUEUES_MAX", 5)
    queues = [bench.queue(number) for number in range(9)]
    for queue in queues:
        bench.move(queue, 1, 10)
        bench.of_account(queue)
    assert bench.of_account(queues[-1]) == 50
    assert len(bench.stored._known) == 5


def test_shards_of_a_stream_are_looked_at_once_in_ten_seconds(bench: Bench) -> None:
    stream = bench.stream(3)
    assert [bench.of_queue(stream) for _ in range(50)] == [300] * 50
    assert bench.shard_looks() == 3
    bench.came_bytes[stream.uid, 1] += 50
    bench.clock.advance(LOOK_S - 0.1)
    assert (bench.of_queue(stream), bench.shard_looks()) == (300, 0)
    bench.clock.advance(0.1)
    assert (bench.of_queue(stream), bench.shard_looks()) == (350, 3)
    # Nobody puts anything into a closed one any more.
    closed = [one._replace(closed_us=2_000_000) for one in stream.shards[:2]]
    halved = replaced(stream, shards=(*closed, stream.shards[2]))
    bench.clock.advance(LOOK_S)
    assert (bench.of_queue(halved), bench.shard_looks()) == (350, 1)
    # What was forgotten counts no more.
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(replaced(stream, shards=stream.shards[2:])) == 100


def test_a_look_is_at_so_many_shards_however_many_there_are(bench: Bench) -> None:
    stream = bench.stream(25)
    told = [(bench.of_queue(stream), bench.shard_looks()) for _ in range(6)]
    assert told == [(1_000, 10), (2_000, 10), (2_500, 5), (2_500, 0), (2_500, 0), (2_500, 0)]
    bench.came_bytes.update(list(bench.came_bytes))  # one more in each
    for _ in range(3):
        bench.clock.advance(LOOK_S)
        told.append((bench.of_queue(stream), bench.shard_looks()))
    assert told[6:] == [(2_510, 10), (2_520, 10), (2_525, 10)]


def test_an_account_has_what_its_streams_have(bench: Bench) -> None:
    queue = bench.queue()
    bench.move(queue, 1, 1_000)
    bench.stream(25)
    assert bench.of_account(queue) == 1_000
    bench.run(bench.stored.measure())
    assert bench.of_account(queue) == 1_000 + 2_500
    assert bench.shard_looks() == 25
    bench.clock.advance(601)
    assert bench.of_account(bench.queue(1)) == 0


def test_while_a_table_is_away_what_is_known_of_a_stream_serves(bench: Bench) -> None:
    stream = bench.stream(2)
    assert bench.of_queue(stream) == 200
    bench.cell.away = True
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(stream) == 200
    assert bench.shard_looks() == 4


def test_only_so_many_shards_are_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_on_tables, "SHARDS_MAX", 20)
    streams = [bench.stream(10, name=f"s{n}", uid=f"{n + 99:016x}") for n in range(9)]
    for stream in streams:
        bench.of_account(stream)
    assert bench.of_account(streams[-1]) == 2_000
    assert bench.stored._shards == 20


def test_closed_shards_keep_nobody_from_looking_at_open_ones(bench: Bench) -> None:
    whole = bench.stream(20)
    closed = [one._replace(closed_us=2_000_000) for one in whole.shards[:10]]
    stream = replaced(whole, shards=(*closed, *whole.shards[10:]))
    assert [bench.of_queue(stream) for _ in range(2)] == [1_000, 2_000]
    bench.came_bytes[stream.uid, 15] += 50
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(stream) == 2_050


def test_what_came_to_a_shard_just_before_its_end_counts(bench: Bench) -> None:
    stream = bench.stream(1)
    assert bench.of_queue(stream) == 100
    bench.came_bytes[stream.uid, 0] += 900
    closed = stream.shards[0]._replace(closed_us=bench.clock.now_us() + 1)
    bench.clock.advance(LOOK_S)
    assert bench.of_queue(replaced(stream, shards=(closed,))) == 1_000

"""Streams are defined once, and their shards change by plans that anybody may complete."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from control_plane.consumer_groups.groups import consumer_groups
from control_plane.consumer_groups.positions import StartingPosition, beginning
from control_plane.core import group_keys, shard_map
from control_plane.core.consumer_group import STICKY, ConsumerGroup
from control_plane.core.stream_definition import (
    Resharding,
    StreamDefinition,
    with_retention_lowered,
)
from control_plane.places.items import PlacedQueue
from control_plane.places.placing import GroupPlacing
from control_plane.registry import Registry
from control_plane.stream_upkeep import StreamUpkeep
from control_plane.streams import StreamRegistry
from control_plane.sweep import SWEPT_AFTER_US, DeletedQueues
from data_plane.core.errors import RefusedError
from data_plane.core.record import OutgoingRecord, PutCall
from data_plane.core.stream import Shard, Stream
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Item, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.streams.appending import ShardClosedError
from data_plane.streams.engine import Streams
from data_plane.streams.reading import Place
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

T = TypeVar("T")
WHERE = ("123456789012", "eu-central-1", "clicks")
DAY_S = 86_400


class Bench:
    """A registry of streams and their engine over one cell."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.entropy = SeededEntropy()
        self.cell = MemoryCell(self.clock)
        waits = EventLoopWaits(self.clock)
        self.engine = Streams({"a": self.cell}, self.clock, self.entropy, waits)
        self.registry = self.another(self.engine)
        self.groups = consumer_groups(
            self.cell, self.registry, self.engine, self.clock, self.entropy, waits
        )
        self.upkeep = StreamUpkeep(self.registry, self.engine, self.groups.forgetting, self.clock)

    def another(self, engine: Streams) -> StreamRegistry:
        return StreamRegistry(self.cell, ("a",), self.clock, self.entropy, engine, secret=SECRET)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    async def create(self, name: str = WHERE[2], shards: int = 2) -> Stream:
        wanted = self.registry.define(
            account=WHERE[0], region=WHERE[1], name=name, shards=shards, tags={}
        )
        return self.registry.stream(await self.registry.create(wanted))

    async def put(self, stream: Stream, shard: Shard, text: str) -> None:
        outcome = await self.engine.put(
            stream, shard, {0: OutgoingRecord("k", text.encode())}, PutCall()
        )
        if outcome.failure is not None:
            raise outcome.failure

    async def slots(self, stream: Stream, shard: int) -> list[Item]:
        return await self.cell.query(keys.records(stream.uid, shard), limit=100)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def split_first(definition: StreamDefinition) -> Resharding:
    shard = next(shard for shard in definition.shards if shard.is_open)
    middle = (shard.first_hash + shard.last_hash) // 2
    return shard_map.split(shard, middle, definition.next_shard)


def test_a_stream_is_found_as_it_was_made(bench: Bench) -> None:
    async def scenario() -> tuple[Stream, Stream | None]:
        return await bench.create(), await bench.another(bench.engine).find(*WHERE)

    made, found = bench.run(scenario())
    assert made == found
    assert len(made.shards) == 2


def test_on_several_cells_a_stream_lies_in_a_group_that_lists_it(bench: Bench) -> None:
    placing = GroupPlacing(bench.cell, lambda: 3)
    several = StreamRegistry(
        bench.cell,
        ("a", "b", "c"),
        bench.clock,
        bench.entropy,
        bench.engine,
        secret=SECRET,
        placing=placing,
    )

    def define() -> StreamDefinition:
        return several.define(account=WHERE[0], region=WHERE[1], name=WHERE[2], shards=2, tags={})

    async def scenario() -> None:
        made = await several.create(define())
        assert made.cell == f"g3.{int(made.uid, 16) % 16:02}"
        listed = PlacedQueue(*WHERE, made.uid, is_stream=True)
        assert await placing.queues_of(made.cell) == [listed]
        assert await placing.shards_of(listed) == (0, 1)
        assert await placing.shards_of(listed._replace(uid="0" * 16)) == ()
        taken = define()
        with pytest.raises(RefusedError, match="already exists"):
            await several.create(taken)
        assert taken.uid not in [one.uid for one in await placing.queues_of(taken.cell)]
        await several.delete(several.stream(made))
        assert await placing.shards_of(listed) == ()
        # Until nothing is left of it, its group knows of it.
        queues = Registry(
            bench.cell, ("a",), bench.clock, bench.entropy, secret=SECRET, placing=placing
        )
        slot = Key(keys.records(made.uid, 1), keys.be64(1))
        await bench.cell.put(slot, {"v": 1})
        bench.clock.advance(SWEPT_AFTER_US / 1_000_000)
        assert await placing.queues_of(made.cell) == [listed]
        cells = {made.cell: bench.cell}
        assert await DeletedQueues(queues, cells).remove(bench.clock.now_us()) == 1
        assert await bench.cell.get(slot) is None
        assert await placing.queues_of(made.cell) == []

    bench.run(scenario())


def test_a_name_is_taken_once(bench: Bench) -> None:
    bench.run(bench.create())
    with pytest.raises(RefusedError, match="already exists"):
        bench.run(bench.create())
    assert bench.run(bench.registry.names(*WHERE[:2], after="", limit=10)) == ["clicks"]


def test_a_deleted_stream_is_gone_and_its_name_free(bench: Bench) -> None:
    async def scenario() -> tuple[Stream, Stream]:
        stream = await bench.create()
        await bench.registry.delete(stream)
        assert await bench.registry.find(*WHERE) is None
        with pytest.raises(RefusedError, match="not found"):
            await bench.registry.delete(stream)
        return stream, await bench.create()

    before, after = bench.run(scenario())
    assert before.uid != after.uid


def test_a_split_ends_the_parent_and_begins_its_children(bench: Bench) -> None:
    async def scenario() -> StreamDefinition:
        stream = await bench.create()
        await bench.put(stream, stream.shards[0], "before")
        definition = await bench.registry.reshard(stream, split_first)
        with pytest.raises(ShardClosedError):
            await bench.put(stream, stream.shards[0], "after")
        page = await bench.engine.read(stream, stream.shards[0], Place(1), records_max=10)
        assert page.place is None
        assert [record.data for record in page.records] == [b"before"]
        return definition

    definition = bench.run(scenario())
    assert [shard.is_open for shard in definition.shards] == [False, True, True, True]
    stream = bench.registry.stream(definition)
    assert [shard.number for shard in stream.open_shards] == [2, 3, 1]
    assert [child.number for child in stream.children_of(0)] == [2, 3]


def test_a_change_that_was_cut_off_is_completed_by_whoever_comes(bench: Bench) -> None:
    class Failing(Streams):
        async def close(self, stream: Stream, shard: Shard) -> int:
            await super().close(stream, shard)
            raise CellUnavailableError("cut off")

    failing = Failing({"a": bench.cell}, bench.clock, bench.entropy, EventLoopWaits(bench.clock))

    async def scenario() -> Stream:
        stream = await bench.create()
        with pytest.raises(CellUnavailableError):
            await bench.another(failing).reshard(stream, split_first)
        return await bench.registry.renewed(stream)

    stream = bench.run(scenario())
    assert [shard.number for shard in stream.open_shards] == [2, 3, 1]


def test_upkeep_completes_what_nobody_comes_for(bench: Bench) -> None:
    async def scenario() -> Stream | None:
        stream = await bench.create()
        definition = await bench.registry.read(*WHERE)
        assert definition is not None
        plan = split_first(definition)
        await bench.registry.change(stream, lambda known: replace(known, resharding=plan))
        await bench.upkeep.step()
        return await bench.registry.find(*WHERE)

    stream = bench.run(scenario())
    assert stream is not None
    assert [shard.number for shard in stream.open_shards] == [2, 3, 1]


def test_one_change_at_a_time(bench: Bench) -> None:
    async def scenario() -> list[object]:
        stream = await bench.create(shards=4)
        return await asyncio.gather(
            *(bench.registry.reshard(stream, split_first) for _ in range(2)),
            return_exceptions=True,
        )

    outcomes = bench.run(scenario())
    assert sum(isinstance(outcome, StreamDefinition) for outcome in outcomes) >= 1
    stream = bench.run(bench.registry.find(*WHERE))
    assert stream is not None
    ranges = [(shard.first_hash, shard.last_hash) for shard in stream.open_shards]
    assert ranges[0][0] == 0
    assert all(one[1] + 1 == other[0] for one, other in pairwise(ranges))


def test_closed_shards_are_forgotten_when_their_records_have_long_expired(bench: Bench) -> None:
    async def scenario() -> list[int]:
        stream = await bench.create()
        await bench.registry.reshard(stream, split_first)
        bench.clock.advance(DAY_S + shard_map.FORGOTTEN_AFTER_S - 60)
        await bench.upkeep.step()
        kept = await bench.registry.read(*WHERE)
        assert kept is not None
        assert len(kept.shards) == 4
        bench.clock.advance(120)
        await bench.upkeep.step()
        after = await bench.registry.read(*WHERE)
        assert after is not None
        return [shard.number for shard in after.shards]

    assert bench.run(scenario()) == [1, 2, 3]


def test_offsets_in_shards_that_are_forgotten_are_removed(bench: Bench) -> None:
    async def offsets(uid: str) -> list[bytes]:
        items = await bench.cell.query(group_keys.offsets(uid), limit=10)
        return [item.key.sort[-1:] for item in items]

    async def scenario() -> None:
        stream = await bench.create()
        position = StartingPosition("LATEST")
        uids = []
        for name in ("one", "two"):
            wanted = ConsumerGroup(
                account=WHERE[0],
                region=WHERE[1],
                name=name,
                uid=bench.groups.registry.new_uid(),
                created_ms=0,
                session_s=10,
                rebalance_s=60,
                assignor=STICKY,
                streams=(beginning(stream, position),),
            )
            uids.append((await bench.groups.positions.create(wanted, [stream], position)).uid)
        await bench.registry.reshard(stream, split_first)
        bench.clock.advance(DAY_S + shard_map.FORGOTTEN_AFTER_S - 60)
        await bench.upkeep.step()
        assert [await offsets(uid) for uid in uids] == [[b"0", b"1"]] * 2
        bench.clock.advance(120)
        await bench.upkeep.step()
        assert [await offsets(uid) for uid in uids] == [[b"1"]] * 2

    bench.run(scenario())


def test_a_look_at_streams_that_forget_nothing_reads_no_groups(bench: Bench) -> None:
    async def scenario() -> list[str]:
        await bench.create()
        read: list[str] = []
        query = bench.cell.query

        async def noted(partition: str, **asked: Any) -> Any:
            read.append(partition)
            return await query(partition, **asked)

        bench.cell.query = noted  # type: ignore[method-assign]
        await bench.upkeep.step()
        return read

    assert group_keys.groups(*WHERE[:2]) not in bench.run(scenario())


def test_a_raised_retention_keeps_what_is_stored(bench: Bench) -> None:
    async def scenario() -> tuple[int, int]:
        stream = await bench.create()
        await bench.put(stream, stream.shards[0], "old")
        before = int(str((await bench.slots(stream, 0))[0].attributes["x"]))
        now_ms = bench.clock.now_us() // 1_000
        await bench.registry.change(
            stream, lambda known: replace(known, retention_hours=48, raised_ms=now_ms)
        )
        await bench.upkeep.step()
        after = int(str((await bench.slots(stream, 0))[0].attributes["x"]))
        # One that knows the old definition still appends with a shorter time to live.
        await bench.put(stream, stream.shards[0], "late")
        bench.clock.advance(20 * 60)
        await bench.upkeep.step()
        definition = await bench.registry.read(*WHERE)
        assert definition is not None
        assert not definition.raised_ms
        ends = [int(str(item.attributes["x"])) for item in await bench.slots(stream, 0)]
        assert ends == sorted(ends)
        assert ends[1] - ends[0] <= 1
        return before, after

    before, after = bench.run(scenario())
    assert after - before == DAY_S


def test_a_lowered_retention_lets_go_of_what_is_older(bench: Bench) -> None:
    async def texts(stream: Stream) -> list[bytes]:
        page = await bench.engine.read(stream, stream.shards[0], Place(1), records_max=10)
        return [record.data for record in page.records]

    async def scenario() -> None:
        stream = await bench.create()
        definition = await bench.registry.change(
            stream, lambda known: replace(known, retention_hours=240, kept_hours=240)
        )
        stream = bench.registry.stream(definition)
        for text in ("one", "two", "three"):
            await bench.put(stream, stream.shards[0], text)
            bench.clock.advance(DAY_S)
        now_ms = bench.clock.now_us() // 1_000
        definition = await bench.registry.change(
            stream, lambda known: with_retention_lowered(known, 48, now_ms)
        )
        stream = bench.registry.stream(definition)
        await bench.upkeep.step()
        assert len(await bench.slots(stream, 0)) == 2  # the first is past two days, and an hour
        assert await texts(stream) == [b"three"]
        bench.clock.advance(3 * DAY_S)
        await bench.upkeep.step()
        # The last one stays, and offsets go on; it says a longer time for those that follow, too.
        assert len(await bench.slots(stream, 0)) == 1
        assert await texts(stream) == []
        for _ in range(2):
            await bench.put(stream, stream.shards[0], "four")
            assert await texts(stream) == [b"four"]
            bench.clock.advance(3 * DAY_S)
            await bench.upkeep.step()
            assert len(await bench.slots(stream, 0)) == 1
        last = (await bench.slots(stream, 0))[0]
        assert keys.slot_of(last.key.sort) == 5
        bench.clock.advance(10 * DAY_S)
        await bench.upkeep.step()
        found = await bench.registry.read(*WHERE)
        assert found is not None
        assert (found.trimmed_until_ms, found.hours_kept) == (0, 48)

    bench.run(scenario())

"""A shard that rests for longer than its records are kept goes on with the next offset."""

from collections.abc import Awaitable, Callable

from data_plane.core.record import Numbered, OutgoingRecord, PutCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Key
from data_plane.stored import keys
from data_plane.streams.bounds import OFFSETS_SKIPPED
from data_plane.streams.engine import Streams
from tests.unit.data_plane.streams.conftest import DAY_S, Bench


def _forget_slots(bench: Bench) -> None:
    """What a cell does with items that are past their time."""

    async def forget() -> None:
        log = keys.records(bench.stream.uid, 0)
        for item in await bench.cell.query(log, limit=1_000):
            await bench.cell.delete(Key(log, item.key.sort))

    bench.run(forget())


def _rest(bench: Bench, days: int) -> None:
    """Days in which upkeep goes on and nobody puts anything."""
    for _ in range(24 * days):
        bench.clock.advance(3_600)
        bench.run(bench.streams.anchor(bench.stream, bench.shard))


def test_offsets_go_on_when_all_records_are_gone(bench: Bench) -> None:
    bench.run(bench.put("a:1", "a:2"))
    _rest(bench, 3)
    _forget_slots(bench)
    assert [put.offset for put in bench.run(bench.put("a:3"))] == [3]
    other = bench.front_end()
    assert [put.offset for put in bench.run(bench.put("a:4", streams=other))] == [4]


def test_a_shard_that_was_never_used_begins_with_one_whenever_it_is(bench: Bench) -> None:
    _rest(bench, 3)
    assert [put.offset for put in bench.run(bench.put("a:1"))] == [1]


def test_slots_past_their_time_that_are_still_there_are_not_the_end(bench: Bench) -> None:
    bench.run(bench.put("a:1"))
    bench.run(bench.put("a:2"))
    _rest(bench, 3)
    bench.run(bench.cell.delete(Key(keys.records(bench.stream.uid, 0), keys.be64(2))))
    assert [put.offset for put in bench.run(bench.put("a:3"))] == [3]


def test_without_upkeep_no_offset_is_used_twice(bench: Bench) -> None:
    bench.run(bench.put("a:1", "a:2"))
    bench.clock.advance(3 * DAY_S)
    _forget_slots(bench)
    first, other = bench.streams, bench.front_end()
    offsets = [put.offset for put in bench.run(bench.put("a:3", streams=first))]
    offsets += [put.offset for put in bench.run(bench.put("a:4", streams=other))]
    assert offsets == [1 + OFFSETS_SKIPPED, 2 + OFFSETS_SKIPPED]
    assert bench.run(bench.all_texts()) == ["a:3", "a:4"]


def test_an_anchor_costs_a_write_an_hour(bench: Bench) -> None:
    async def anchor() -> None:
        await bench.streams.anchor(bench.stream, bench.shard)

    bench.run(bench.put("a:1"))
    bench.run(anchor())
    for _ in range(30):
        bench.clock.advance(60)
        assert not bench.run(bench.cost_of(anchor))
    bench.clock.advance(1_800)
    assert bench.run(bench.cost_of(anchor)) == {"query": 1, "update": 1}


class BusyCell(MemoryCell):
    """Lets `meanwhile` happen before the next single item is read."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().get(key, strong=strong)


def test_what_is_put_before_an_anchor_is_read_is_not_passed_over(bench: Bench) -> None:
    bench.cell = cell = BusyCell(bench.clock)
    streams, other = bench.front_end(), bench.front_end()
    numbered = Numbered(b"p" * 16, 1, [1])
    records = {0: OutgoingRecord("k", b"a:1")}

    async def put(engine: Streams) -> None:
        await engine.put(bench.stream, bench.shard, records, PutCall(), numbered)

    async def scenario() -> None:
        async def meanwhile() -> None:
            await put(other)
            await other.anchor(bench.stream, bench.shard)

        cell.meanwhile = meanwhile
        await put(streams)

    bench.run(scenario())
    assert bench.run(bench.all_texts(streams=streams)) == ["a:1"]

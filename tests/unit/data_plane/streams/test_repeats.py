"""A call that an SDK repeats stores its records once, and is answered as before."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from data_plane.core.record import OutgoingRecord, Put, PutCall
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Item,
    Key,
    Tallies,
    Written,
    no_tallies,
)
from data_plane.stored import keys
from data_plane.streams.appending import PutOutcome
from data_plane.streams.bounds import SLOT_BYTES_MAX
from data_plane.streams.held_calls import StoredPart
from data_plane.streams.slots import RECORDS, PartOfCall, pack_calls, read_slot, slot_attributes
from tests.unit.data_plane.streams.conftest import Bench


class SilentCell(MemoryCell):
    """Stores what it is given, and does not say so while it `is_silent`."""

    is_silent = False

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        written = await super().put(key, attributes, condition, tallies)
        if self.is_silent:
            raise CellUnavailableError("silent")
        return written


FIRST = PutCall(b"c" * 16)
AGAIN = PutCall(b"c" * 16, repeated=True)
_SLOT = slot_attributes(RECORDS, b"n", 1, 1, 500)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeated_call_finds_its_records(bench: Bench, restarted: bool) -> None:  # noqa: FBT001
    async def scenario() -> tuple[object, object]:
        await bench.put("a:0")
        first = await bench.put("a:1", "a:2", call=FIRST)
        await bench.put("a:3")
        streams = bench.front_end() if restarted else None
        return first, await bench.put("a:1", "a:2", call=AGAIN, streams=streams)

    first, again = bench.run(scenario())
    assert first == again
    assert bench.run(bench.all_texts()) == ["a:0", "a:1", "a:2", "a:3"]


@pytest.mark.parametrize("restarted", [False, True])
def test_of_a_call_that_broke_off_the_rest_is_stored(bench: Bench, restarted: bool) -> None:  # noqa: FBT001
    records = [OutgoingRecord("k", bytes([n]) * (SLOT_BYTES_MAX - 10)) for n in range(3)]

    async def scenario() -> list[int]:
        # The first two slots of three took effect before the front end was gone.
        await bench.put_records(records[:2], call=FIRST)
        streams = bench.front_end() if restarted else None
        return [put.offset for put in await bench.put_records(records, streams, AGAIN)]

    assert bench.run(scenario()) == [1, 2, 3]
    page = bench.run(bench.read())
    assert [record.data for record in page.records] == [record.data for record in records]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_attempt_may_have_put_other_records_into_the_shard(
    bench: Bench,
    restarted: bool,  # noqa: FBT001
) -> None:
    """Of a shard that was merged into this one; those of the other one failed."""
    records = {n: OutgoingRecord("k", b"a:%d" % n) for n in range(8)}
    first = {position: records[position] for position in (0, 2, 7)}

    async def scenario() -> tuple[PutOutcome, PutOutcome]:
        stored = await bench.streams.put(bench.stream, bench.shard, first, FIRST)
        engine = bench.front_end() if restarted else bench.streams
        return stored, await engine.put(bench.stream, bench.shard, records, AGAIN)

    before, again = bench.run(scenario())
    assert before.stored.items() <= again.stored.items()
    page = bench.run(bench.read())
    where = {position: put.offset for position, put in again.stored.items()}
    assert where == {n: 1 + offset for offset, n in enumerate((0, 2, 7, 1, 3, 4, 5, 6))}
    assert {record.offset: record.data for record in page.records} == {
        where[position]: records[position].data for position in records
    }


def test_a_first_attempt_that_stood_still_knows_what_its_repetition_finds(bench: Bench) -> None:
    """Both wait for the same write; others stored the call meanwhile, and more behind it."""
    late = bench.front_end()

    async def scenario() -> None:
        await bench.put("a:1", call=FIRST)
        for n in range(2, 5):
            await bench.put(f"a:{n}")
        await asyncio.gather(
            bench.put("a:5", streams=late),
            bench.put("a:1", streams=late, call=FIRST),
            bench.put("a:1", streams=late, call=AGAIN),
        )

    bench.run(scenario())
    assert bench.run(bench.all_texts()) == [f"a:{n}" for n in range(1, 6)]


def test_parts_of_calls_are_read_as_they_were_packed() -> None:
    parts = [
        PartOfCall(b"a" * 16, 0, 1),
        PartOfCall(b"b" * 16, 1, (1 << 500) - 1),
        PartOfCall(b"c" * 16, 499, 1 << 499 | 1 << 8),
    ]
    item = Item(Key("N|s|0", keys.be64(7)), {**_SLOT, "cp": pack_calls(parts)})
    assert list(read_slot(item).calls) == parts
    where = StoredPart(7, 5, parts[2]).puts()
    assert list(where) == [(8, Put(506, 5)), (499, Put(507, 5))]


def test_a_call_that_took_effect_without_an_answer_is_not_stored_again(bench: Bench) -> None:
    bench.cell = cell = SilentCell(bench.clock)
    streams = bench.front_end()
    cell.is_silent = True

    async def scenario() -> None:
        with pytest.raises(CellUnavailableError):
            await bench.put("a:1", streams=streams, call=FIRST)
        cell.is_silent = False
        await bench.put("a:1", streams=streams, call=AGAIN)

    bench.run(scenario())
    assert bench.run(bench.all_texts(streams=streams)) == ["a:1"]


def test_first_attempts_ask_for_nothing(bench: Bench) -> None:
    bench.run(bench.put("a:0"))
    assert bench.run(bench.cost_of(lambda: bench.put("a:1", call=FIRST))) == {"put": 1}


class LateCell(MemoryCell):
    """Lets `meanwhile` happen before the next put."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().put(key, attributes, condition, tallies)


def test_an_attempt_that_is_late_finds_the_one_that_overtook_it(bench: Bench) -> None:
    bench.cell = cell = LateCell(bench.clock)
    streams, other = bench.front_end(), bench.front_end()

    async def scenario() -> tuple[object, object]:
        await bench.put("a:0", streams=streams)
        overtaking: list[object] = []

        async def overtake() -> None:
            overtaking.append(await bench.put("a:1", "a:2", streams=other, call=AGAIN))

        cell.meanwhile = overtake
        late = await bench.put("a:1", "a:2", streams=streams, call=FIRST)
        return late, overtaking[0]

    late, overtaking = bench.run(scenario())
    assert late == overtaking
    assert bench.run(bench.all_texts(streams=streams)) == ["a:0", "a:1", "a:2"]


def test_attempts_that_wait_together_are_stored_once(bench: Bench) -> None:
    async def scenario() -> list[list[Put]]:
        puts = (("a:0", None), ("a:1", FIRST), ("a:1", AGAIN), ("a:3", None))
        return await asyncio.gather(*(bench.put(text, call=call) for text, call in puts))

    _, first, again, _ = bench.run(scenario())
    assert first == again
    assert sorted(bench.run(bench.all_texts())) == ["a:0", "a:1", "a:3"]

"""Records get offsets without gaps, in the order of their calls, whoever puts them."""

import asyncio
from typing import Any, cast

import pytest

from data_plane.core.record import OutgoingRecord, Put
from data_plane.core.sequence_number import parse, sequence_number, sequence_numbers
from data_plane.ports import Attributes, Key, Written
from data_plane.stored import keys, segment
from data_plane.streams.appending import ShardClosedError
from data_plane.streams.bounds import SLOT_BYTES_MAX, SLOT_RECORDS_MAX
from tests.unit.data_plane.streams.conftest import Bench, texts


def test_offsets_begin_with_one_and_have_no_gaps(bench: Bench) -> None:
    async def scenario() -> list[int]:
        puts = [*await bench.put("a:1", "b:2"), *await bench.put("a:3")]
        puts += await bench.put("c:4", streams=bench.front_end())
        return [put.offset for put in puts]

    assert bench.run(scenario()) == [1, 2, 3, 4]
    assert bench.run(bench.all_texts()) == ["a:1", "b:2", "a:3", "c:4"]


def test_a_front_end_whose_tail_is_old_goes_on_behind_the_others(bench: Bench) -> None:
    other = bench.front_end()

    async def scenario() -> None:
        await bench.put("a:1")
        await bench.put("a:2", streams=other)
        await bench.put("a:3")
        await bench.put("a:4", streams=other)

    bench.run(scenario())
    assert bench.run(bench.all_texts()) == ["a:1", "a:2", "a:3", "a:4"]


def test_what_arrives_together_is_one_write(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.put("a:0")
        await asyncio.gather(*(bench.put(f"a:{n}") for n in range(1, 101)))

    bench.run(bench.put("a:first"))
    cost = bench.run(bench.cost_of(scenario))
    # The first of the hundred goes alone, the others while it is under way.
    assert cost["put"] <= 3
    assert sorted(bench.run(bench.all_texts())) == sorted(
        ["a:first", *(f"a:{n}" for n in range(101))]
    )


def test_a_call_that_is_too_much_for_a_slot_takes_several(bench: Bench) -> None:
    half = SLOT_BYTES_MAX // 2

    async def scenario() -> list[int]:
        big = [OutgoingRecord("k", bytes([n]) * half) for n in range(3)]
        huge = [OutgoingRecord("k", b"x" * (10 * SLOT_BYTES_MAX))]
        many = [OutgoingRecord("k", b"y")] * (SLOT_RECORDS_MAX + 1)
        puts = [
            *await bench.put_records(big),
            *await bench.put_records(huge),
            *await bench.put_records(many),
        ]
        return [put.offset for put in puts]

    assert bench.run(scenario()) == list(range(1, SLOT_RECORDS_MAX + 6))
    items = bench.run(bench.cell.query(keys.records(bench.stream.uid, 0), limit=100))
    # Two keys of one byte make two halves of the limit too much for one slot.
    assert [item.attributes["n"] for item in items] == [1, 1, 1, 1, SLOT_RECORDS_MAX, 1]


def test_a_slot_that_fails_takes_nothing_from_whoever_is_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = bench.cell.put

    async def put_small(key: Key, attributes: Attributes, *more: Any) -> Written:
        if len(cast(bytes, attributes["z"])) > SLOT_BYTES_MAX:
            raise AssertionError("a mistake of the program")
        return await put(key, attributes, *more)

    async def scenario() -> list[list[Put] | BaseException]:
        big = [OutgoingRecord("k", bytes(range(256)) * 8 * 1024)]
        small = [bench.put(f"a:{n}") for n in range(3)]
        calls = [small[0], small[1], bench.put_records(big), small[2]]
        return await asyncio.gather(*calls, return_exceptions=True)

    monkeypatch.setattr(bench.cell, "put", put_small)
    monkeypatch.setattr(segment, "COMPRESS_BYTES_MIN", 1 << 30)
    first, second, *failed = bench.run(scenario())
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert [one.offset for one in (*first, *second)] == [1, 2]
    assert [str(one) for one in failed] == ["a mistake of the program"] * 2
    assert bench.run(bench.all_texts()) == ["a:0", "a:1"]


def test_sequence_numbers_grow_and_say_where_the_record_is(bench: Bench) -> None:
    puts = bench.run(bench.put("a:1", "a:2"))
    bench.clock.advance(2)
    puts += bench.run(bench.put("a:3"))
    numbers = [sequence_number(bench.shard, put.offset, put.stamp_us) for put in puts]
    assert numbers == sorted(numbers) == list(sequence_numbers(bench.shard, puts))
    assert [parse(number).offset for number in numbers] == [1, 2, 3]
    assert parse(numbers[2]).stamp_s == bench.clock.now_us() // 1_000_000


def test_nothing_is_put_into_a_closed_shard(bench: Bench) -> None:
    other = bench.front_end()

    async def scenario() -> tuple[int, int]:
        await bench.put("a:1")
        await bench.put("a:2", streams=other)
        closed = await bench.streams.close(bench.stream, bench.shard)
        for streams in (bench.streams, other):
            with pytest.raises(ShardClosedError):
                await bench.put("a:3", streams=streams)
        return closed, await other.close(bench.stream, bench.shard)

    closed, again = bench.run(scenario())
    assert closed == again
    page = bench.run(bench.read())
    assert (texts(page), page.place) == (["a:1", "a:2"], None)


def test_records_are_sealed(bench: Bench) -> None:
    bench.run(bench.put("secret-key:secret-data"))
    item = bench.run(bench.cell.get(Key(keys.records(bench.stream.uid, 0), keys.be64(1))))
    assert item is not None
    assert b"secret" not in b"".join(value for value in item.values() if isinstance(value, bytes))

"""What a producer that numbers its records puts again is stored once, whoever serves it."""

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest

from data_plane.core.errors import FENCED_PRODUCER, LIMIT_EXCEEDED, RefusedError
from data_plane.core.record import STORED_BEFORE, Numbered, OutgoingRecord, Put, PutCall
from data_plane.streams import producers
from data_plane.streams.bounds import PRODUCER_SLOTS_MAX
from data_plane.streams.engine import Streams
from tests.unit.data_plane.streams.conftest import DAY_S, Bench

ONE, OTHER = b"p" * 16, b"q" * 16


async def put(
    bench: Bench,
    *sequences: int,
    name: bytes = ONE,
    epoch: int = 1,
    streams: Streams | None = None,
) -> list[Put]:
    letter = name[:1].decode()
    records = {
        position: OutgoingRecord("k", f"{letter}{n}".encode())
        for position, n in enumerate(sequences)
    }
    engine = streams or bench.streams
    numbered = Numbered(name, epoch, sequences)
    stored, failure = await engine.put(bench.stream, bench.shard, records, PutCall(), numbered)
    if failure is not None:
        raise failure
    return [stored[position] for position in records]


def offsets(puts: Sequence[Put]) -> list[int]:
    return [one.offset for one in puts]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_put_again_is_passed_over(bench: Bench, restarted: bool) -> None:  # noqa: FBT001
    async def scenario() -> list[list[int]]:
        first = await put(bench, 3, 5)
        await bench.put("a:between")
        streams = bench.front_end() if restarted else None
        again = await put(bench, 3, 5, 6, streams=streams)
        assert again[:2] == [STORED_BEFORE] * 2
        return [offsets(first), offsets(again[2:])]

    assert bench.run(scenario()) == [[1, 2], [4]]
    assert bench.run(bench.all_texts()) == ["p3", "p5", "a:between", "p6"]


def test_producers_have_numbers_of_their_own(bench: Bench) -> None:
    async def scenario() -> None:
        await put(bench, 7)
        await put(bench, 1, name=OTHER)
        await asyncio.gather(put(bench, 7, 8), put(bench, 1, 2, name=OTHER), put(bench, 8, 9))

    bench.run(scenario())
    assert sorted(bench.run(bench.all_texts())) == ["p7", "p8", "p9", "q1", "q2"]


def test_a_producer_with_an_older_epoch_is_fenced(bench: Bench) -> None:
    async def scenario() -> None:
        await put(bench, 1, epoch=4)
        await put(bench, 1, 2, epoch=5)
        with pytest.raises(RefusedError) as refused:
            await put(bench, 3, epoch=4, streams=bench.front_end())
        assert refused.value.fault is FENCED_PRODUCER
        await put(bench, 3, epoch=5)

    bench.run(scenario())
    assert bench.run(bench.all_texts()) == ["p1", "p2", "p3"]


def test_who_is_refused_holds_up_nobody(bench: Bench) -> None:
    async def scenario() -> list[object]:
        await put(bench, 1, epoch=2)
        late = put(bench, 2, epoch=1)
        return list(await asyncio.gather(late, bench.put("a:1"), return_exceptions=True))

    late, other = bench.run(scenario())
    assert isinstance(late, RefusedError)
    assert isinstance(other, list)
    assert [one.offset for one in other] == [2]


def test_two_front_ends_store_a_number_once(bench: Bench) -> None:
    async def scenario() -> None:
        other = bench.front_end()
        await put(bench, 1)
        await put(bench, 1, 2, streams=other)
        await put(bench, 2, 3)
        await put(bench, 1, 2, 3, 4, streams=other)

    bench.run(scenario())
    assert bench.run(bench.all_texts()) == ["p1", "p2", "p3", "p4"]


@pytest.mark.parametrize("slots", [1, PRODUCER_SLOTS_MAX - 1, PRODUCER_SLOTS_MAX, 300])
def test_few_slots_say_everything(bench: Bench, slots: int) -> None:
    async def scenario() -> int:
        await put(bench, 1)
        numbers = count(1)
        for _ in range(slots):
            await put(bench, next(numbers), name=OTHER)
            await bench.put("a:between")
        before = bench.cell.requests.copy()
        again = await put(bench, 1, streams=bench.front_end())
        assert again == [STORED_BEFORE]
        return (bench.cell.requests - before)["get"]

    assert bench.run(scenario()) <= PRODUCER_SLOTS_MAX


def test_without_numbers_a_put_asks_for_nothing_more(bench: Bench) -> None:
    bench.run(put(bench, 1))
    assert bench.run(bench.cost_of(lambda: bench.put("a:1"))) == {"put": 1}
    assert bench.run(bench.cost_of(lambda: put(bench, 2))) == {"put": 1}
    assert bench.run(bench.cost_of(lambda: put(bench, 2))) == {}


def test_numbers_are_known_for_as_long_as_records_are_kept(bench: Bench) -> None:
    bench.run(put(bench, 1))
    bench.clock.advance(DAY_S + 7_200)
    bench.cell.expire([item.key for item in bench.cell.items()])
    bench.run(put(bench, 1, streams=bench.front_end()))
    assert bench.run(bench.all_texts()) == ["p1"]


def test_a_shard_has_a_bounded_number_of_producers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)

    async def scenario() -> None:
        await put(bench, 1)
        await put(bench, 1, name=OTHER)
        with pytest.raises(RefusedError) as refused:
            await put(bench, 1, name=b"r" * 16)
        assert refused.value.fault is LIMIT_EXCEEDED
        await put(bench, 2)
        bench.clock.advance(DAY_S + 10)
        await put(bench, 1, name=b"r" * 16)

    bench.run(scenario())


def test_a_front_end_remembers_producers_of_some_shards(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "SHARDS_PRODUCED_MAX", 1)

    async def scenario() -> None:
        await put(bench, 1)
        await bench.streams.produced(bench.stream, bench.stream.shards[1], ONE)
        before = bench.cell.requests.copy()
        assert await put(bench, 1) == [STORED_BEFORE]
        assert dict(bench.cell.requests - before) == {"get": 1}

    bench.run(scenario())


def test_of_a_closed_shard_all_is_known(bench: Bench) -> None:
    async def scenario() -> None:
        other = bench.front_end()
        await put(bench, 1)
        # What others do from now on this front end would learn in a minute.
        await put(bench, 2, epoch=2, streams=other)
        await other.close(bench.stream, bench.shard)
        last = await bench.streams.produced(bench.stream, bench.shard, ONE)
        assert last is not None
        assert (last.epoch, last.sequence) == (2, 2)

    bench.run(scenario())

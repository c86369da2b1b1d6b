"""Readers get what there is from any place on, in order, as often as they like."""

import asyncio
from typing import Any

import pytest

from data_plane.core.errors import RefusedError, stream_not_found
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.long_answers import use_room
from data_plane.core.record import OutgoingRecord
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, DeadlinePassedError, Item, Key
from data_plane.stored import keys
from data_plane.streams.bounds import OFFSETS_SKIPPED, READ_BYTES_MAX
from data_plane.streams.reading import Place, Read
from tests.unit.data_plane.room_asked_for import RoomAskedFor
from tests.unit.data_plane.streams.conftest import DAY_S, Bench, texts


def _put_hundred(bench: Bench) -> list[str]:
    wanted = [f"k:{n}" for n in range(100)]

    async def scenario() -> None:
        for start in range(0, 100, 7):
            await bench.put(*wanted[start : start + 7])
            bench.clock.advance(1)

    bench.run(scenario())
    return wanted


@pytest.mark.parametrize("records_max", [1, 3, 7, 10, 50, 99, 100, 101])
def test_pages_of_any_size_have_all_records_in_order(bench: Bench, records_max: int) -> None:
    wanted = _put_hundred(bench)
    assert bench.run(bench.all_texts(records_max)) == wanted


@pytest.mark.parametrize("offset", [1, 2, 7, 8, 50, 99, 100, 101, 500])
def test_any_offset_is_a_place(bench: Bench, offset: int) -> None:
    wanted = _put_hundred(bench)
    assert texts(bench.run(bench.read(Place(offset)))) == wanted[offset - 1 :]


def test_a_short_page_reads_few_slots_once_it_is_known_how_many_records_they_have(
    bench: Bench,
) -> None:
    wanted = _put_hundred(bench)
    read: list[int] = []

    async def scenario() -> None:
        place: Place | None = Place(1, 1)
        for first in range(0, 100, 14):
            assert place is not None
            before = bench.cell.items_read
            page = await bench.read(place, 14)
            assert texts(page) == wanted[first : first + 14]
            read.append(bench.cell.items_read - before)
            place = page.place

    bench.run(scenario())
    # Two that have the records, and two more: one that is not whole, and one behind.
    assert read[0] > 15
    assert all(slots <= 4 + 2 for slots in read[1:])


def test_a_page_says_how_far_behind_it_is(bench: Bench) -> None:
    _put_hundred(bench)
    first = bench.run(bench.read(records_max=7))
    behind_us = bench.clock.now_us() - first.records[-1].arrived_us
    assert first.behind_ms == behind_us // 1000
    assert bench.run(bench.read(records_max=100)).behind_ms == 0
    assert bench.run(bench.read(Place(200))).behind_ms == 0


@pytest.mark.parametrize(("is_busy", "queries"), [(False, 1), (True, 2)])
def test_a_read_that_has_to_wait_for_room_reads_once_more(
    bench: Bench, queries: int, *, is_busy: bool
) -> None:
    """What it has read before it waits, it lets go."""
    room = RoomAskedFor(is_busy=is_busy)
    long = b"x" * (2 * SMALL_BODY_BYTES_MAX)

    async def scenario() -> None:
        await bench.put_records([OutgoingRecord("k", long)])
        before = bench.cell.requests["query"]
        use_room(room)
        page = await bench.read(Place(1, 1))
        use_room(None)
        assert [record.data for record in page.records] == [long]
        assert room.taken == [len(long) + len("k")]
        assert bench.cell.requests["query"] - before == queries

    bench.run(scenario())


def test_a_read_that_waits_ends_where_its_stream_is_gone(bench: Bench) -> None:
    async def gone() -> None:
        raise stream_not_found("clicks", "123456789012")

    async def scenario() -> None:
        at = bench.streams._at(bench.stream, bench.shard)
        reading = asyncio.ensure_future(
            bench.streams.read(
                bench.stream,
                bench.shard,
                Place(1),
                records_max=1,
                until_us=bench.clock.now_us() + 3_600_000_000,
                look_again=gone,
            )
        )
        await asyncio.sleep(0)
        at.desk.waits.signal(at.channel, 1)
        with pytest.raises(RefusedError, match="not found"):
            await reading

    bench.run(scenario())


def test_a_read_without_room_fails(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.put_records([OutgoingRecord("k", b"x" * (2 * SMALL_BODY_BYTES_MAX))])
        use_room(RoomAskedFor(DeadlinePassedError("busy")))
        with pytest.raises(DeadlinePassedError):
            await bench.read()
        use_room(None)

    bench.run(scenario())


def test_a_page_has_ten_mebibytes_at_most_or_one_record(bench: Bench) -> None:
    big = READ_BYTES_MAX - 1
    bench.run(
        bench.put_records(
            [OutgoingRecord("k", b"x" * big), OutgoingRecord("k", b"y"), OutgoingRecord("k", b"z")]
        )
    )
    page = bench.run(bench.read())
    assert [len(record.data) for record in page.records] == [big]
    assert page.place is not None
    assert texts(bench.run(bench.read(page.place))) == ["y", "z"]


def test_a_read_costs_the_same_wherever_it_is(bench: Bench) -> None:
    _put_hundred(bench)
    at_the_end = bench.run(bench.read(Place(99))).place
    assert bench.run(bench.cost_of(lambda: bench.read(at_the_end))) == {"query": 1}
    near = bench.run(bench.cost_of(lambda: bench.read(Place(50), records_max=1)))
    assert near == {"query": 2}


def test_records_expire_by_time_alone(bench: Bench) -> None:
    bench.run(bench.put("a:old"))
    bench.clock.advance(DAY_S - 10)
    bench.run(bench.put("a:new"))
    assert bench.run(bench.all_texts()) == ["a:old", "a:new"]
    bench.clock.advance(11)
    assert bench.run(bench.all_texts()) == ["a:new"]
    bench.keep_for(2 * DAY_S)
    assert bench.run(bench.all_texts()) == ["a:old", "a:new"]  # Nothing had removed it.


def test_a_place_that_has_expired_goes_on_with_the_oldest_record(bench: Bench) -> None:
    _put_hundred(bench)
    stored = bench.run(bench.read(Place(1))).records
    bench.clock.advance(DAY_S - 8)
    expired_us = bench.clock.now_us() - DAY_S * 1_000_000
    left = [record for record in stored if record.arrived_us > expired_us]
    assert left[0].offset > 3
    assert bench.run(bench.read(Place(3))).records == left


def test_latest_is_behind_what_is_there_also_of_other_front_ends(bench: Bench) -> None:
    other = bench.front_end()

    async def scenario() -> list[str]:
        await bench.put("a:1")
        await bench.put("a:2", streams=other)
        await bench.put("a:3")
        place = await other.latest(bench.stream, bench.shard)
        await bench.put("a:4")
        return texts(await bench.read(place))

    assert bench.run(scenario()) == ["a:4"]


def test_latest_of_an_empty_shard_is_its_beginning(bench: Bench) -> None:
    place = bench.run(bench.streams.latest(bench.stream, bench.shard))
    bench.run(bench.put("a:1"))
    assert texts(bench.run(bench.read(place))) == ["a:1"]


def test_the_first_record_since_a_time(bench: Bench) -> None:
    began_us = bench.clock.now_us()
    _put_hundred(bench)
    for n in range(16):
        place = bench.run(bench.streams.since(bench.stream, bench.shard, began_us + n * 1_000_000))
        assert place.offset == min(7 * n, 100) + 1
    place = bench.run(bench.streams.since(bench.stream, bench.shard, began_us - 1))
    assert place.offset == 1


def test_a_search_by_time_takes_few_steps_whatever_the_pauses(bench: Bench) -> None:
    async def scenario() -> None:
        for n in range(300):
            await bench.put(f"k:{n}")
            bench.clock.advance(0.001 if n % 100 else 20_000)

    bench.run(scenario())
    bench.keep_for(30 * DAY_S)
    cost = bench.run(
        bench.cost_of(
            lambda: bench.streams.since(
                bench.stream, bench.shard, bench.clock.now_us() - 30_000_000
            )
        )
    )
    assert cost["query"] <= 24


def test_a_read_waits_for_the_first_record(bench: Bench) -> None:
    async def scenario() -> list[str]:
        until_us = bench.clock.now_us() + 60_000_000
        waiting = asyncio.ensure_future(
            bench.streams.read(
                bench.stream, bench.shard, Place(1), records_max=10, until_us=until_us
            )
        )
        await asyncio.sleep(0)
        await bench.put("a:1")
        return texts(await waiting)

    assert bench.run(scenario()) == ["a:1"]


def test_a_damaged_slot_is_passed_over_and_counted(bench: Bench) -> None:
    async def scenario() -> list[str]:
        for n in range(3):
            await bench.put(f"k:{n}")
        key = Key(keys.records(bench.stream.uid, 0), keys.be64(2))
        item = await bench.cell.get(key)
        assert item is not None
        await bench.cell.put(key, {**item, "z": b"\0" * 40})
        return await bench.all_texts()

    assert bench.run(scenario()) == ["k:0", "k:2"]
    assert bench.streams.damaged_slots == 1


def test_a_search_passes_over_what_is_gone_and_over_gaps(bench: Bench) -> None:
    """Cells remove what has expired in any order, and offsets may go on much later."""

    async def scenario() -> list[str]:
        for text in ("a:0", "a:1", "a:2", "a:3"):
            await bench.put(text)
        for offset in (2, 3):
            slots = keys.records(bench.stream.uid, bench.shard.number)
            await bench.cell.delete(Key(slots, keys.be64(offset)))
        bench.clock.advance(DAY_S + 2 * 3_600)
        await bench.put("a:4")
        await bench.put("a:5")
        page = await bench.read(Place(4))
        assert page.records[0].offset > OFFSETS_SKIPPED
        return await bench.all_texts(streams=bench.front_end())

    assert bench.run(scenario()) == ["a:4", "a:5"]


def test_a_shard_that_was_never_open_is_at_its_end(bench: Bench) -> None:
    """It was made on the way from three shards to two, say; nobody wrote the end of its log."""
    shard = bench.shard._replace(closed_us=bench.shard.made_s * 1_000_000)
    page = bench.run(bench.streams.read(bench.stream, shard, Place(1), records_max=10))
    assert page[:3] == ([], None, 0)


@pytest.mark.parametrize("offset", [1, 3])
def test_a_closed_shard_ends_also_when_all_of_it_has_expired(bench: Bench, offset: int) -> None:
    async def scenario() -> Read:
        await bench.put("a:0", "a:1")
        await bench.streams.close(bench.stream, bench.shard)
        bench.clock.advance(DAY_S + 600)
        return await bench.read(Place(offset))

    assert bench.run(scenario())[:3] == ([], None, 0)


class TurnTakingCell(MemoryCell):
    """Others go on while it reads."""

    async def query(self, *words: Any, **more: Any) -> list[Item]:
        await asyncio.sleep(0)
        return await super().query(*words, **more)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        await asyncio.sleep(0)
        return await super().get(key, strong=strong)


def test_many_learn_at_once_where_an_empty_shard_ends(bench: Bench) -> None:
    bench.cell = TurnTakingCell(bench.clock)
    streams = bench.front_end()

    async def latest(turns: int) -> Place:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await streams.latest(bench.stream, bench.shard)

    async def scenario() -> set[Place]:
        return set(await asyncio.gather(*map(latest, range(50))))

    assert bench.run(scenario()) == {Place(1, 1)}


@pytest.mark.parametrize("records_max", [1, 2, 3, 100])
def test_a_page_has_records_older_than_a_week_or_younger_ones(
    bench: Bench, records_max: int
) -> None:
    """Also where a slot that could have been read with others lies behind that time."""
    bench.keep_for(30 * DAY_S)

    async def scenario() -> list[tuple[list[str], bool]]:
        for n in range(4):
            await bench.put(f"a:{n}")
        bench.clock.advance(DAY_S)
        for n in range(4, 9):
            await bench.put(f"a:{n}")
        await bench.streams.close(bench.stream, bench.shard)
        bench.clock.advance(6 * DAY_S + 60)
        pages, place = [], Place(1)
        while True:
            page = await bench.read(place, records_max)
            pages.append((texts(page), page.long_term))
            if page.place is None:
                return pages
            place = page.place

    pages = bench.run(scenario())
    assert [text for page, _ in pages for text in page] == [f"a:{n}" for n in range(9)]
    for page, long_term in pages:
        assert [text < "a:4" for text in page] == [long_term] * len(page)

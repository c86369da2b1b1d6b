"""What becomes of bodies apart that nobody needs any more."""

import asyncio
from dataclasses import replace

import pytest

from data_plane.bag import bounds
from data_plane.memory.blobs import MemoryBlobs
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import bodies, keys
from data_plane.stored.bodies import BodyStore, blob_name, segment_of
from tests.unit.data_plane.bag.apart import HOUR_S, ApartBench, sweep, text
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.repeatable import HandClock


@pytest.fixture
def bench() -> ApartBench:
    return ApartBench()


async def finish_a_block(bench: ApartBench) -> None:
    """Send and delete as many messages as fill a block, a part of them big."""
    for _ in range(6):
        await bench.send(*"abcdefghij")
    await bench.send(*(text(20_000) for _ in range(4)))
    while got := await bench.receive():
        await bench.delete(got)


def test_the_bodies_of_a_finished_block_go_with_it(bench: ApartBench) -> None:
    async def story() -> None:
        await finish_a_block(bench)
        await bench.send(text(20_000))
        assert len(await bench.names()) == 2
        await sweep(bench)
        assert len(await bench.names()) == 2
        bench.clock.advance(bounds.COLLECT_AFTER_US / 1_000_000 + 1)
        await sweep(bench)
        assert await bench.names() == [blob_name(bench.segments()[-1].key)]

    bench.run(story())


def test_a_block_without_big_bodies_costs_the_blob_store_nothing(bench: ApartBench) -> None:
    async def story() -> None:
        for _ in range(7):
            await bench.send(*"abcdefghij")
        await bench.drain()
        await sweep(bench)
        bench.clock.advance(bounds.COLLECT_AFTER_US / 1_000_000 + 1)
        assert await bench.blob_cost_of(lambda: sweep(bench)) == {}

    bench.run(story())


def test_bodies_that_could_not_be_deleted_stay_due(bench: ApartBench) -> None:
    async def story() -> None:
        await finish_a_block(bench)
        bench.clock.advance(bounds.COLLECT_AFTER_US / 1_000_000 + 1)
        bench.blobs.failing = {"delete"}
        with pytest.raises(CellUnavailableError):
            await sweep(bench)
        bench.blobs.failing = set()
        await sweep(bench)
        assert await bench.names() == []

    bench.run(story())


def test_the_sweep_takes_what_has_expired_and_what_has_no_segment_alone(bench: ApartBench) -> None:
    async def story() -> None:
        bench.queue = replace(bench.queue, retention_s=7_200)
        await bench.send(text(20_000))
        (expiring,) = await bench.names()
        bench.queue = replace(bench.queue, retention_s=345_600)
        for _ in range(5):
            await bench.send(text(20_000))
        (dropped, *kept) = [n for n in await bench.names() if n != expiring]
        segment = segment_of(dropped)
        assert segment is not None
        await bench.cell.delete(segment)
        foreign = ["cell", "elsewhere/a", f"{QUEUE.uid}/00.0/x"]
        for name in foreign:
            await bench.blobs.put(name, b"?")
        bench.clock.advance(7_200 + HOUR_S - 1)
        await sweep(bench, bag=bench.front_end())
        assert await bench.names() == sorted([expiring, *kept, *foreign])
        bench.clock.advance(2)
        await sweep(bench, bag=bench.front_end())
        assert await bench.names() == sorted([*kept, *foreign])

    bench.run(story())


def test_a_swept_body_of_an_expired_message_is_no_damage(
    bench: ApartBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_HELD_MAX", 0)

    async def story() -> None:
        await bench.send(text(20_000))
        assert len(await bench.receive(visibility_s=30)) == 1
        bench.clock.advance(bench.queue.retention_s + HOUR_S + 1)
        await sweep(bench)
        assert await bench.names() == []
        # The segment is still there, and its message comes back in memory: its lease has ended.
        assert len(bench.segments()) == 1
        assert await bench.blob_cost_of(bench.receive) == {}
        assert bench.bag.damaged_segments == 0

    bench.run(story())


def test_a_sweep_goes_page_by_page_and_rests_for_hours(
    bench: ApartBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SWEPT_NAMES_MAX", 3)
    monkeypatch.setattr(bodies, "GET_MANY_MAX", 2)

    async def story() -> None:
        for _ in range(7):
            await bench.send(text(20_000))
        bench.clock.advance(HOUR_S + 1)
        requests, _ = await bench.cost_of(lambda: sweep(bench, 1))
        assert requests["get_many"] == 2
        costs = await bench.blob_cost_of(lambda: sweep(bench, 20))
        assert costs == {"names": 3}
        bench.clock.advance(6 * HOUR_S)
        assert await bench.blob_cost_of(lambda: sweep(bench, 20)) == {"names": 4}
        assert len(await bench.names()) == 7

    bench.run(story())


@pytest.mark.parametrize("ahead", ["own clock", "cell's time"])
def test_a_clock_that_is_ahead_makes_no_orphans(ahead: str) -> None:
    async def story() -> None:
        right, wrong = HandClock(), HandClock()
        wrong.advance(10 * HOUR_S)
        blobs = MemoryBlobs(right)
        name = blob_name(Key(keys.segments(QUEUE.uid, 0, 0), bytes(19)))
        await blobs.put(name, b"body")
        cell = MemoryCell(wrong if ahead == "cell's time" else right, stamps=False)
        own = wrong if ahead == "own clock" else right
        store = BodyStore(blobs)
        assert await store.sweep(cell, EventLoopWaits(own), own.now_us()) == 0
        right.advance(HOUR_S + 1)
        assert await BodyStore(blobs).sweep(cell, EventLoopWaits(own), own.now_us()) == 1

    asyncio.run(story())

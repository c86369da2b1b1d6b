"""What readers of many queues have at hand: bounded together, and read again where it is gone."""

from dataclasses import replace

import pytest

from data_plane.core.queue import Queue
from data_plane.log.engine import Log
from data_plane.stored import shelf
from tests.unit.data_plane.log.conftest import QUEUE, Bench, bodies

BODY_BYTES = 10_000
ROOM_BYTES = 100_000
QUEUES = [replace(QUEUE, name=f"q{n}.fifo", uid=f"{n:016x}") for n in range(10)]


@pytest.fixture
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SEGMENTS_HELD_TOGETHER_BYTES_MAX", ROOM_BYTES)


def bytes_at_hand(log: Log) -> int:
    """By what is there, not by what was counted."""
    return sum(
        segment.size_bytes
        for partition in log._desk.partitions.values()
        for segment in partition.reader.held._held.values()
    )


def texts_of(queue: Queue) -> list[str]:
    """Four messages of two groups, one slot for each."""
    return [f"g{n % 2}:" + f"{queue.name} {n} ".ljust(BODY_BYTES, "b") for n in range(4)]


async def fill(bench: Bench) -> None:
    for bench.queue in QUEUES:
        for text in texts_of(bench.queue):
            await bench.send(text)


@pytest.mark.usefixtures("small_room")
def test_many_queues_have_no_more_at_hand_than_a_few(bench: Bench) -> None:
    async def story() -> None:
        await fill(bench)
        for _ in range(2):
            for bench.queue in QUEUES:
                received = bodies(await bench.receive(visibility_s=0))
                assert sorted(received) == sorted(t.split(":")[1] for t in texts_of(bench.queue))
                assert bytes_at_hand(bench.log) <= ROOM_BYTES
                assert bench.log._desk._shelf.bytes == bytes_at_hand(bench.log)
        assert bytes_at_hand(bench.log) >= ROOM_BYTES - 4 * BODY_BYTES, "there is room for these"
        for bench.queue in QUEUES:
            assert len(await bench.drain()) == 4

    bench.run(story())


def test_what_is_at_hand_costs_no_read_and_what_is_not_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await fill(bench)
        for bench.queue in QUEUES:
            await bench.receive(visibility_s=0)
        bench.queue = QUEUES[0]
        near, _ = await bench.cost_of(lambda: bench.receive(visibility_s=0))
        monkeypatch.setattr(shelf, "SEGMENTS_HELD_TOGETHER_BYTES_MAX", ROOM_BYTES)
        for bench.queue in QUEUES[::-1]:
            await bench.receive(visibility_s=0)
        bench.queue = QUEUES[-1]
        far, items = await bench.cost_of(lambda: bench.receive(visibility_s=0))
        assert "get_many" not in near
        assert far == near | {"get_many": 1}
        assert items == 4

    bench.run(story())


def test_what_was_delivered_or_dropped_takes_no_room(bench: Bench) -> None:
    async def story() -> None:
        await fill(bench)
        for bench.queue in QUEUES:
            await bench.receive(visibility_s=0)
        counted = bench.log._desk._shelf
        assert counted.bytes == len(QUEUES) * 4 * BODY_BYTES
        for bench.queue in QUEUES[:5]:
            assert len(await bench.drain()) == 4
        assert counted.bytes == 5 * 4 * BODY_BYTES
        for queue in QUEUES[5:]:
            bench.log.dropped(queue)
        assert (counted.bytes, len(counted._readers)) == (0, 0)

    bench.run(story())


def test_partitions_that_are_forgotten_take_no_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.log.desk.PARTITIONS_MAX", 3)

    async def story() -> None:
        await fill(bench)
        for bench.queue in QUEUES:
            await bench.receive(visibility_s=0)
        assert len(bench.log._desk._shelf._readers) == 3
        bench.clock.advance(1_000)
        await bench.log.sweep()
        assert not bench.log._desk.partitions
        assert bench.log._desk._shelf.bytes == 0

    bench.run(story())


def test_how_long_slots_are_is_remembered_when_they_are_let_go(bench: Bench) -> None:
    """By that receives ask for room for what they are about to read again."""

    async def story() -> None:
        await bench.send(*texts_of(QUEUE)[:1])
        await bench.receive(visibility_s=0)
        held = next(iter(bench.log._desk.partitions.values())).reader.held
        held.let_go()
        assert (held.bytes, held.mean_bytes) == (0, BODY_BYTES)

    bench.run(story())


def test_the_end_of_a_log_is_remembered_without_its_messages(bench: Bench) -> None:
    async def story() -> None:
        for log in (bench.log, bench.front_end()):
            await bench.send(f"g:{id(log)}", log=log)
            await bench.send(f"g:{id(log)} again", log=log)
            (partition,) = log._desk.partitions.values()
            assert partition.tail is not None
            assert not partition.tail.last.item
        opened = bench.front_end()
        await bench.send("g:again", "h:more", log=opened)
        assert len(await bench.drain()) == 6

    bench.run(story())

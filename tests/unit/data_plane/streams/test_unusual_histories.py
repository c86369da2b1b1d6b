"""What a front end delivers, whatever it was asked for before, and was not asked for."""

import pytest

from data_plane.core.message import Delivery
from data_plane.core.receipt_handle import decode
from data_plane.core.stream import hash_key_of
from data_plane.log import receiving
from data_plane.log.bounds import FETCH_ITEMS_MAX
from data_plane.log.engine import Log
from tests.unit.data_plane.streams.queue_bench import QueueBench

HALF_A_DAY_S = 43_200
PAUSE_S = 600
KEYS = [f"k{number}" for number in range(100)]


@pytest.fixture
def bench() -> QueueBench:
    return QueueBench()


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [one.message.body for one in deliveries]


def key_between(first: int, last: int) -> str:
    """A partition key whose hash key lies there, in 2^128ths of 16."""
    return next(key for key in KEYS if first <= hash_key_of(key) >> 124 < last)


async def hold_all(bench: QueueBench, log: Log) -> list[Delivery]:
    """Receive whatever there is, for half a day."""
    found: list[Delivery] = []
    while more := await log.receive(bench.queue, count=10, visibility_s=HALF_A_DAY_S, until_us=0):
        found += more
    return found


def test_a_group_waits_for_a_shard_that_was_forgotten_and_is_read_anew(
    bench: QueueBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shard 0 is split into 2 and 3, and 2 into 6 and 7; 1 is split, too."""
    other = bench.consumer()
    waiting, also_there = key_between(0, 2), key_between(4, 8)

    async def story() -> list[str]:
        for number in range(FETCH_ITEMS_MAX):
            await bench.put_for(also_there, f"{number}")
        await bench.put_for(waiting, "first")
        assert "first" in bodies(await hold_all(bench, other))
        await bench.split(0)
        await bench.split(1)
        await bench.put_for(key_between(2, 4), "kept")
        await bench.split(2)
        await bench.put_for(waiting, "second")
        kept = await hold_all(bench, bench.log)
        assert bodies(kept) == ["kept"]
        handle = decode(kept[0].receipt_handle, bench.queue)
        for _ in range(2):
            bench.clock.advance(PAUSE_S)
            changes = [(handle, HALF_A_DAY_S // 2)]
            assert await bench.log.change_visibility(bench.queue, changes) == [None]
        await bench.log.sweep()
        # As a receive that reads no more of a long shard at a time.
        monkeypatch.setattr(receiving, "FETCH_ROUNDS_MAX", 1)
        return bodies(await bench.receive())

    assert bench.run(story()) == []


def test_a_group_goes_on_though_another_one_came_when_it_got_free(bench: QueueBench) -> None:
    """So as many groups have something in shards before as had when it was looked at last."""
    moved_on, staying = key_between(0, 8), key_between(8, 16)
    new = next(key for key in KEYS if key != staying and hash_key_of(key) >> 124 >= 8)

    async def story() -> list[str]:
        await bench.put_for(moved_on, "first")
        await bench.split(0)
        await bench.put_for(moved_on, "second")
        await bench.put_for(staying, "held")
        held = await hold_all(bench, bench.log)
        assert sorted(bodies(held)) == ["first", "held"]
        await bench.put_for(new, "new")
        assert await bench.delete([one for one in held if one.message.body == "first"]) == ["first"]
        return bodies(await hold_all(bench, bench.log))

    assert sorted(bench.run(story())) == ["new", "second"]

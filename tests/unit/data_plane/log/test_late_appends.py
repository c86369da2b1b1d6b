"""Appends that stood still until what took their slot was done and collected (docs/storage.md).

They count for nothing: their senders were told so, and tried again long ago.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from data_plane.log import bounds, reading
from data_plane.log.desk import access_of
from data_plane.log.engine import Log
from data_plane.ports import Key
from tests.unit.data_plane.log.conftest import Bench, bodies

LATER_S = bounds.COLLECT_AFTER_US // 1_000_000 + 1


async def stored_late(bench: Bench, slot: Mapping[str, Any], key: Key) -> None:
    """Store, where a slot was collected, what somebody else meant to put there before it."""
    late = {**slot, "t": slot["t"] - 1}
    assert (await bench.cell.put(key, late)).applied


async def slot_at(bench: Bench, log: Log, place: int) -> tuple[Key, dict[str, Any]]:
    """One of the partition's slots, of which the first is a record."""
    (partition,) = log._desk.partitions.values()
    *_, found = await bench.cell.query(partition.slots, limit=place + 1)
    return found.key, dict(found.attributes)


async def collected_and_stored_late(bench: Bench, slot: Mapping[str, Any], key: Key) -> None:
    """What is long done is collected, and something comes where it was."""
    await bench.log.sweep()
    assert await bench.cell.get(key) is None
    await stored_late(bench, slot, key)


async def done_and_collected(bench: Bench) -> None:
    """All that was sent is deleted and collected, but what comes last."""
    assert len(await bench.drain()) == 64
    await bench.send("z:last")
    bench.clock.advance(bench.queue.delay_s)
    assert bodies(await bench.receive(visibility_s=43_200)) == ["last"]
    bench.clock.advance(LATER_S)
    await bench.log.sweep()


@pytest.mark.parametrize("knows", ["nothing", "the first slot", "both slots"])
def test_who_was_away_for_long_delivers_none(bench: Bench, knows: str) -> None:
    bench.queue = replace(bench.queue, delay_s=5)
    away = bench.front_end()

    async def story() -> None:
        for text, known in (("", "nothing"), ("a:0", "the first slot"), ("b:1", "both slots")):
            if text:
                await bench.send(text)
            if knows == known:
                assert await bench.receive(log=away) == []
        key, slot = await slot_at(bench, away, 2)
        for start in range(2, 64, 2):
            await bench.send(f"a:{start}", f"b:{start + 1}")
        bench.clock.advance(5)
        await done_and_collected(bench)
        assert await bench.cell.get(key) is None
        await stored_late(bench, slot, key)
        assert await bench.receive(log=away) == []
        assert await bench.receive(log=bench.front_end()) == []

    bench.run(story())


def test_nobody_delivers_one_beside_a_message_that_is_held(bench: Bench) -> None:
    """The first page that a new front end reads begins before what is known to be done."""

    async def story() -> None:
        await bench.send("held:0")
        await bench.receive(visibility_s=43_200)
        for start in range(40):
            await bench.send(*(f"{start}:{start}-{number}" for number in range(10)))
        key, slot = await slot_at(bench, bench.log, 9)
        assert len(await bench.drain()) == 400
        bench.clock.advance(LATER_S)
        await collected_and_stored_late(bench, slot, key)
        assert await bench.receive(log=bench.front_end()) == []

    bench.run(story())


def test_who_reads_slowly_delivers_none(bench: Bench) -> None:
    slow = bench.front_end()
    at = access_of(slow._desk, bench.queue, 0, 0)

    async def story() -> None:
        for number in range(400):
            await bench.send(f"{number}:{number}")
        key, slot = await slot_at(bench, bench.log, 350)
        await reading.fetch(at)
        assert len(await bench.drain()) == 400
        for seconds in (250, 250, LATER_S - 500):
            assert await reading.fetch(at)
            bench.clock.advance(seconds)
        await collected_and_stored_late(bench, slot, key)
        assert [await bench.receive(log=slow) for _ in range(3)] == [[], [], []]

    bench.run(story())


def test_a_page_that_is_long_under_way_has_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = bench.cell.query

    async def held_up(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        key, slot = await slot_at(bench, bench.log, 100)
        assert len(await bench.drain()) == 200
        bench.clock.advance(LATER_S)
        await collected_and_stored_late(bench, slot, key)
        return await query(*args, **kwargs)

    async def story() -> None:
        for number in range(200):
            await bench.send(f"{number}:{number}")
        monkeypatch.setattr(bench.cell, "query", held_up)
        away = bench.front_end()
        assert [await bench.receive(log=away) for _ in range(3)] == [[], [], []]

    bench.run(story())

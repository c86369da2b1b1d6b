"""Appends that stood still until what took their slot was done and collected (docs/storage.md).

They count for nothing: their senders were told so, and tried again long ago.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from data_plane.log import bounds
from data_plane.log.engine import Log
from data_plane.ports import Key
from tests.unit.data_plane.log.conftest import Bench, bodies

LATER_S = bounds.COLLECT_AFTER_US // 1_000_000 + 1


async def stored_late(bench: Bench, slot: Mapping[str, Any], key: Key) -> None:
    """Store, where a slot was collected, what somebody else meant to put there before it."""
    late = {**slot, "t": slot["t"] - 1}
    assert (await bench.cell.put(key, late)).applied


async def second_slot(bench: Bench, log: Log) -> tuple[Key, dict[str, Any]]:
    (partition,) = log._desk.partitions.values()
    *_, second = await bench.cell.query(partition.slots, limit=3)
    return second.key, dict(second.attributes)


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
        key, slot = await second_slot(bench, away)
        for start in range(2, 64, 2):
            await bench.send(f"a:{start}", f"b:{start + 1}")
        bench.clock.advance(5)
        await done_and_collected(bench)
        assert await bench.cell.get(key) is None
        await stored_late(bench, slot, key)
        assert await bench.receive(log=away) == []
        assert await bench.receive(log=bench.front_end()) == []

    bench.run(story())

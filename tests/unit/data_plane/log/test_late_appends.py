"""Appends that stood still until what took their slot was done and collected (docs/storage.md).

They count for nothing: their senders were told so, and tried again long ago.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.deadline import left_us
from data_plane.log import bounds
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, DeadlinePassedError, Key, Written
from tests.unit.data_plane.log.conftest import Bench, bodies

AGE_S = bounds.APPEND_AGE_US_MAX / 1_000_000
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


class SlowCell(MemoryCell):
    """Begins puts of slots when so much time has gone by, as adapters do: not after a deadline."""

    slow_s = 0.0

    async def put(self, key: Key, *rest: Any, **more: Any) -> Written:
        if key.partition.startswith("G|") and self.slow_s:
            self.clock.advance(self.slow_s)
            left = left_us(self.clock.now_us())
            if left is not None and left <= 0:
                raise DeadlinePassedError("it is too late")
        return await super().put(key, *rest, **more)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.clock)
        self.clock = bench.clock


def test_none_is_begun_that_would_come_too_late(bench: Bench) -> None:
    bench.cell = cell = SlowCell(bench)
    bench.log = bench.front_end()

    async def story() -> None:
        await bench.send("g:first")
        cell.slow_s = AGE_S - 1
        await bench.send("g:in time")
        cell.slow_s = AGE_S + 1
        with pytest.raises(CellUnavailableError):
            await bench.send("g:late")
        cell.slow_s = 0
        assert await bench.drain() == ["first", "in time"]
        await bench.send("g:late")
        assert await bench.drain() == ["late"]

    bench.queue = replace(bench.queue, retention_s=1_209_600)
    bench.run(story())

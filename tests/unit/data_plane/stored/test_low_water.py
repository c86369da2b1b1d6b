"""A low-water mark is believed by the eras that decided it alone, however late it is written."""

import pytest

from data_plane.bag.lane import Lane
from data_plane.bag.upkeep import write_low_water
from data_plane.core.conditions import apply, holds
from data_plane.core.eras import ONE_TIME, Eras
from data_plane.memory.cell import MemoryCell
from data_plane.ports import ALWAYS, Condition, Key, Tallies, Update, Written, no_tallies
from data_plane.stored import keys
from data_plane.stored.low_water import LowWaterMark, may_follow, new_mark, read_mark
from tests.unit.data_plane.bag.conftest import Bench as StandardBench
from tests.unit.data_plane.log.conftest import Bench as FifoBench

FIRST, SECOND = Eras(version=1), Eras(version=2)
LOW, HIGH = keys.be64(5), keys.be64(9)
VERSIONS = (ONE_TIME, FIRST, SECOND)


class OvertakenCell(MemoryCell):
    """One in which others write a mark of the first eras just before this front end writes its own.

    It has none yet: the clock was ahead, and nobody knew.
    """

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        if key.partition.startswith("H|"):
            first = new_mark({"v": 1, "w": keys.be64(0)}, FIRST)
            await super().update(key, first, may_follow(keys.be64(0), 0))
        return await super().update(key, change, condition, tallies)


def test_a_mark_of_a_standard_queue_that_is_late() -> None:
    standard = StandardBench()

    async def story() -> None:
        cell = OvertakenCell(standard.clock)
        lane = Lane(standard.queue, b"writer")
        lane.opened, lane.passed, lane.settled = True, HIGH, HIGH
        await write_low_water(cell, lane)
        stored = await cell.get(lane.low_water_key)
        assert read_mark(stored, ONE_TIME).place == HIGH
        assert read_mark(stored, FIRST) == LowWaterMark(doubted=0)

    standard.run(story())


def test_a_mark_of_a_fifo_queue_that_is_late() -> None:
    fifo = FifoBench()

    async def story() -> None:
        fifo.cell = OvertakenCell(fifo.clock)
        fifo.log = fifo.front_end()
        await fifo.send("g:m", "g:n")
        await fifo.drain()
        await fifo.log.sweep()
        stored = await fifo.cell.get(keys.low_water(fifo.queue.uid, 0, 0))
        assert read_mark(stored, ONE_TIME).place > keys.be64(0)
        assert read_mark(stored, FIRST) == LowWaterMark(doubted=0)

    fifo.run(story())


@pytest.mark.parametrize("late", VERSIONS)
@pytest.mark.parametrize("there", VERSIONS)
def test_a_mark_says_who_decided_it(there: Eras, late: Eras) -> None:
    """Whatever was there before: so who has other eras doubts it, and may replace it."""
    before = apply(new_mark({"v": 1, "w": LOW, "a": 1}, there), None)
    assert holds(may_follow(HIGH, None), before)
    mark = apply(new_mark({"v": 1, "w": HIGH}, late), before)
    assert mark["a"] == 1
    for eras in VERSIONS:
        believed = LowWaterMark(HIGH) if eras is late else LowWaterMark(doubted=late.version)
        assert read_mark(mark, eras) == believed
        assert holds(may_follow(LOW, believed.doubted), mark) == (eras is not late)

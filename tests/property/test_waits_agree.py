"""Trees of calls that overlap have the same outcome under both drivers.

Those without lanes also take the same time. When entries of a lane meet is for each driver to say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from data_plane.ports import Clock, Offload, Waits
from data_plane.runtime.blocking import BlockingDriver, BlockingWaits
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.runtime.virtual_loop import START_US, VirtualLoop, run
from tests.unit.repeatable import HandClock

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Call:
    """A call that blocks; a negative number is raised."""

    number: int


@dataclass(frozen=True)
class Sleep:
    seconds: int


@dataclass(frozen=True)
class Entry:
    """An entry of a lane, whose flush takes so long; a negative number is raised to its owner."""

    lane: int
    number: int
    seconds: int


@dataclass(frozen=True)
class AllOf:
    parts: tuple["Tree", ...]


@dataclass(frozen=True)
class InTurn:
    """One after the other, until one fails."""

    parts: tuple["Tree", ...]


Tree = Call | Sleep | Entry | AllOf | InTurn

calls = st.builds(Call, st.integers(-2, 9))
sleeps = st.builds(Sleep, st.integers(0, 3))
entries = st.builds(Entry, st.integers(0, 1), st.integers(-2, 9), st.integers(0, 2))


def trees(leaves: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    def branches(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        several = st.lists(parts, max_size=4).map(tuple)
        return st.builds(AllOf, several) | st.builds(InTurn, several)

    return st.recursive(leaves, branches, max_leaves=20)


@dataclass
class Stage:
    """What a tree is played on."""

    waits: Waits
    clock: Clock
    offload: Offload

    async def play(self, tree: Tree) -> Any:
        match tree:
            case Call(number):
                return await self.offload(lambda: told(number))
            case Sleep(seconds):
                return await self.waits.sleep_until(self.clock.now_us() + seconds * SECOND_US)
            case Entry(lane, number, seconds):
                return await self.waits.coalesce(lane, number, self.flush(seconds))
            case AllOf(parts):
                outcomes = await self.waits.all_of([self.play(part) for part in parts])
                return [comparable(outcome) for outcome in outcomes]
            case InTurn(parts):
                return [await self.play(part) for part in parts]

    def flush(self, seconds: int) -> Callable[[list[object]], Awaitable[list[object | Exception]]]:
        async def flush(numbers: list[object]) -> list[object | Exception]:
            await self.waits.sleep_until(self.clock.now_us() + seconds * SECOND_US)
            return await self.waits.all_of([self.offload(partial(told, n)) for n in numbers])

        return flush


def told(number: object) -> object:
    assert isinstance(number, int)
    if number < 0:
        raise ValueError(number)
    return number * 10


def comparable(outcome: object) -> object:
    return f"failed: {outcome}" if isinstance(outcome, Exception) else outcome


async def ended(stage: Stage, tree: Tree) -> tuple[object, int]:
    """The outcome, and how long it took."""
    started_us = stage.clock.now_us()
    try:
        outcome = await stage.play(tree)
    except ValueError as error:
        outcome = comparable(error)
    return outcome, stage.clock.now_us() - started_us


def on_an_event_loop(tree: Tree) -> tuple[object, int]:
    loop = VirtualLoop()

    async def offload(call: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return call()

    return run(ended(Stage(EventLoopWaits(loop), loop, offload), tree), loop)


@contextmanager
def a_stage() -> Iterator[tuple[Stage, BlockingDriver]]:
    clock = HandClock()
    clock.time_us = START_US
    driver = BlockingDriver(clock, clock.advance, threads_max=2)
    yield Stage(BlockingWaits(driver), clock, driver.offload), driver
    driver.close()


@given(trees(calls | sleeps))
@example(AllOf((InTurn((Sleep(1), Call(1))), InTurn((Call(-1), Sleep(2))), Sleep(1))))
def test_the_same_outcome_in_the_same_time(tree: Tree) -> None:
    with a_stage() as (stage, driver):
        assert driver.run(ended(stage, tree)) == on_an_event_loop(tree)


@given(st.lists(trees(calls | sleeps | entries), max_size=3))
def test_the_same_outcomes_with_lanes(trees: list[Tree]) -> None:
    """Several trees in a row, on one driver: what survives a run has no part in the next."""
    with a_stage() as (stage, driver):
        for tree in trees:
            outcome, _ = driver.run(ended(stage, tree))
            assert outcome == on_an_event_loop(tree)[0]

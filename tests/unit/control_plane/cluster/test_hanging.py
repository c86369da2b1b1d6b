"""A store that never answers in one task of the manager: that is told, and others go on."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from control_plane.cluster import acting
from control_plane.cluster.running import AGAIN_US, EXECUTIONS_MAX, HANGS_US, TIMEOUTS_S, Running
from control_plane.places.cached import CachedMap
from control_plane.places.items import FAILED, CellSeen, Heartbeat
from data_plane.ports import Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.keys import segments
from tests.unit.control_plane.cluster.scene import OPTIONS, Scene
from tests.unit.control_plane.cluster.test_untold import GROUP, make_queue
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run
from tests.unit.repeatable import HandClock, SeededEntropy

OTHER, THIRD = "g3.06", "g3.07"
STEP_S = 0.25
SAFE_S = OPTIONS.safe_us / 1_000_000
TAKEN_OUT_S_MAX = 3.0
"""2 s until a cell counts as down, and the next looks at the map and at what is due."""


class LoopClock(HandClock):
    """Goes with the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def now_us(self) -> int:
        return self.time_us + round(self._loop.time() * 1_000_000)


class Rig:
    """A server's manager in virtual time. GROUP and OTHER have a queue; d may be copied to."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.scene = scene = Scene("abcde", LoopClock(self.loop))
        for group, cells in ((GROUP, "abc"), (OTHER, "abc"), (THIRD, "ace")):
            scene.place(group, cells)
        for group in (GROUP, OTHER):
            queue = make_queue(scene, group, group)
            key = Key(segments(queue.uid, 0, 0), b"1" * 18)
            scene.run(scene.cells["a"].put(key, {"v": 1}))
        scene.run(scene.places.add_joining(GROUP, "d", epoch=1))
        since_us = scene.clock.now_us() - 60_000_000
        self.seen = {name: CellSeen(answers=True, since_us=since_us) for name in scene.cells}
        self.known = CachedMap(scene.places.read_all, scene.clock)
        cluster = replace(
            scene.cluster,
            beat=self._beat,
            known=self.known,
            waits=EventLoopWaits(scene.clock),
        )
        self.running = Running(cluster, SeededEntropy())
        self.has_answered = asyncio.Event()

    def _beat(self) -> Heartbeat:
        return Heartbeat("own", self.scene.clock.now_us(), self.seen)

    def fail(self, cell: str) -> None:
        self.scene.cells[cell].down = True
        self.seen[cell] = CellSeen(answers=False, since_us=self.scene.clock.now_us())

    async def until(self, is_met: Callable[[], bool], within_s: float) -> None:
        until_s = self.loop.time() + within_s
        while not is_met():
            assert self.loop.time() < until_s, self.running.told()
            await self.passes(STEP_S)

    async def passes(self, seconds: float) -> None:
        until_s = self.loop.time() + seconds
        while self.loop.time() < until_s:
            await self.known.refresh()
            await self.running.step()
            assert len(self.running._under_way) <= EXECUTIONS_MAX
            await asyncio.sleep(STEP_S)  # what a server does between two steps

    def is_out(self, group: str, cell: str) -> bool:
        members = self.known.placements[group].placement.members
        return all(member.cell != cell for member in members)

    def play(self, story: Coroutine[Any, Any, None]) -> None:
        async def closed() -> None:
            try:
                await story
            finally:
                self.has_answered.set()
                await self.running.close()

        run(closed(), self.loop)

    def never_answers(self, call: Callable[..., Awaitable[Any]], *, is_deaf: bool) -> Any:
        """The same call, which does not answer until it may; deaf to being cancelled, too."""

        async def hang(*args: Any, **named: Any) -> Any:
            while not self.has_answered.is_set():
                try:
                    await self.has_answered.wait()
                except asyncio.CancelledError:
                    if not is_deaf:
                        raise
            return await call(*args, **named)

        return hang


@pytest.mark.parametrize("is_deaf", [False, True])
def test_cells_fail_over_beside_a_copy_that_hangs(*, is_deaf: bool) -> None:
    rig = Rig()
    for cell in (rig.scene.cells["d"], rig.scene.cells["e"]):
        cell.put = rig.never_answers(cell.put, is_deaf=is_deaf)  # type: ignore[method-assign]

    async def story() -> None:
        # The copy hangs. No other execution waits for it, however many there are.
        await rig.passes(15 + HANGS_US / 1_000_000)
        told = rig.running.told()
        assert told.state.startswith("hangs since ")
        assert told.state.endswith(f": complete d in {GROUP}")
        assert told.gauges["manager_hanging_seconds"] >= HANGS_US / 1_000_000
        rig.fail("b")
        await rig.until(lambda: rig.is_out(OTHER, "b") and rig.is_out(GROUP, "b"), TAKEN_OUT_S_MAX)
        # By now the copies of another group hang, too, in another execution.
        await rig.passes(30)
        assert len(rig.running._under_way) > 1
        await rig.scene.places.set_state("c", FAILED)
        await rig.until(lambda: rig.is_out(THIRD, "c"), TAKEN_OUT_S_MAX)
        # In the end the copy is given up, which is told; once it is answered all is well.
        await rig.passes(3 * TIMEOUTS_S["Do"])
        told = rig.running.told()
        cancelled = f"complete d in {GROUP}: cancelled, for it did not answer in 90 s"
        assert any(cancelled in line for line in told.activities)
        assert told.gauges["manager_timeouts_total"] >= 1
        rig.has_answered.set()
        await rig.until(lambda: not rig.running.told().state.startswith("hangs"), 30)

    rig.play(story())


def test_cells_fail_over_one_after_the_other_beside_copies_that_take_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    moving = [f"g3.{number:02}" for number in range(8, 14)]
    for group in moving:
        rig.scene.place(group, "ae", factor=2)
        rig.scene.run(rig.scene.places.add_joining(group, "d", epoch=1))

    async def goes_on(*_args: Any, **_named: Any) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {"uid": "0" * 16}

    monkeypatch.setattr(acting, "copy_on", goes_on)

    async def story() -> None:
        await rig.passes(15)
        assert len(rig.running._under_way) == 1
        planned = [{"act": act} for act in ("take_out", "complete", "reconcile")]
        release = {"act": "release", "group": OTHER}
        planned += [{**release, "cell": "b"}, {**release, "cell": "a"}]  # the first one has to tell
        beside = asyncio.current_task()
        short = [{"act": "take_out"}, {**release, "cell": "b"}]
        assert rig.running._without_copies(beside, planned) == short
        assert rig.running._without_copies(rig.running._under_way[0], planned) == planned
        rig.fail("b")
        await rig.until(lambda: rig.is_out(OTHER, "b"), TAKEN_OUT_S_MAX)
        rig.fail("c")
        # Groups lose members of two cells within SAFE only where somebody says so.
        await rig.passes(SAFE_S - 1)
        assert not rig.is_out(THIRD, "c")
        await rig.until(lambda: rig.is_out(THIRD, "c"), 1 + AGAIN_US / 1_000_000 + STEP_S)
        assert rig.running._ended < 2 * SAFE_S  # not over and over meanwhile
        assert not any(rig.known.placements[group].placement.members[-1].full for group in moving)

    rig.play(story())


def test_a_cell_fails_over_while_an_observation_hangs() -> None:
    rig = Rig()
    places = rig.running._cluster.places
    heartbeats = places.heartbeats
    hung: list[str] = []

    async def first_hangs() -> Any:
        if not hung:
            hung.append("observe")
            await rig.has_answered.wait()
        return await heartbeats()

    places.heartbeats = first_hangs  # type: ignore[method-assign]

    async def story() -> None:
        await rig.passes(1)
        assert hung
        rig.fail("b")
        await rig.until(lambda: rig.is_out(OTHER, "b"), TAKEN_OUT_S_MAX)
        await rig.passes(TIMEOUTS_S["Observe"] + 1)
        assert any("observe: cancelled" in line for line in rig.running.told().activities)

    rig.play(story())


def test_an_action_under_way_is_not_done_beside_itself() -> None:
    rig = Rig()
    d = rig.scene.cells["d"]
    calls = []
    put = rig.never_answers(d.put, is_deaf=False)

    async def counted(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return await put(*args, **named)

    d.put = counted  # type: ignore[method-assign]

    async def story() -> None:
        await rig.passes(85)
        assert len(rig.running._under_way) >= 1
        assert len(calls) == 1
        rig.has_answered.set()
        await rig.until(lambda: len(rig.known.placements[GROUP].placement.members) == 3, 30)

    rig.play(story())

"""When an execution begins beside a server, and what is told of it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from control_plane.cluster.executing import Finished
from control_plane.cluster.running import Running
from control_plane.places.cached import CachedMap
from control_plane.places.items import DRAINING, FAILED, REMOVED, CellSeen, Heartbeat
from tests.unit.control_plane.cluster.scene import Scene
from tests.unit.repeatable import SeededEntropy

GROUP = "g3.05"


class Executions:
    """Ends executions when it is told to."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[Finished]] = []

    async def execute(self) -> Finished:
        ends: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self.begun.append(ends)
        return await ends


class Rig:
    """A server's part of it, in virtual time."""

    def __init__(self) -> None:
        self.scene = scene = Scene("abcd")
        scene.place(GROUP, "abc")
        self.seen = {name: CellSeen(answers=True, since_us=0) for name in scene.cells}
        self.known = CachedMap(scene.places.read_all, scene.clock)
        cluster = replace(scene.cluster, beat=self._beat, known=self.known)
        self.running = Running(cluster, SeededEntropy())
        self.executions = Executions()
        self.running._executor = lambda _perform: self.executions  # type: ignore[assignment, method-assign, return-value]

    def _beat(self) -> Heartbeat:
        return Heartbeat("own", self.scene.clock.now_us(), self.seen)

    async def begins(self, after_s: float = 0) -> bool:
        """Whether an execution begins by now."""
        self.scene.clock.advance(after_s)
        await self.known.refresh()
        before = len(self.executions.begun)
        await self.running.step()
        await asyncio.sleep(0)  # what was begun is a task of its own
        return len(self.executions.begun) > before

    async def end(self, *results: Mapping[str, Any], **changed: Any) -> None:
        """The execution that has begun last ends."""
        finished = replace(Finished(results), **changed)
        self.executions.begun[-1].set_result(finished)
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # for what waited for it, and for who notes its end

    def fail(self, cell: str) -> None:
        self.seen[cell] = CellSeen(answers=False, since_us=self.scene.clock.now_us())


def in_loop(test: Callable[[Rig], Any]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test(Rig()))

    run.__name__ = test.__name__
    return run


@in_loop
async def test_an_execution_begins_with_the_server_and_then_every_half_minute(rig: Rig) -> None:
    assert await rig.begins()
    assert not await rig.begins(after_s=60)  # it goes on
    await rig.end()
    assert await rig.begins()
    await rig.end()
    assert not await rig.begins(after_s=29)
    assert await rig.begins(after_s=1)
    await rig.running.close()


async def begun_and_ended(rig: Rig) -> None:
    assert await rig.begins()
    await rig.end()
    assert not await rig.begins()


@in_loop
async def test_a_cell_that_fails_and_could_not_be_taken_out_yet_is_tried_again(rig: Rig) -> None:
    await begun_and_ended(rig)
    rig.fail("a")
    assert await rig.begins(after_s=2)
    await rig.end()  # it was too soon after another cell, say
    assert not await rig.begins(after_s=2)
    assert await rig.begins(after_s=1)
    await rig.end()
    assert await rig.begins(after_s=5)
    await rig.end()
    places = rig.scene.places
    await places.drop_member(GROUP, "a", epoch=rig.known.placements[GROUP].placement.epoch)
    assert await rig.begins()  # the placement is another one
    await rig.end()
    assert not await rig.begins(after_s=5)
    await rig.running.close()


@in_loop
async def test_a_cell_that_fails_for_two_seconds_begins_one_at_once(rig: Rig) -> None:
    await begun_and_ended(rig)
    rig.fail("a")
    assert not await rig.begins(after_s=1.9)
    assert await rig.begins(after_s=0.1)
    # While that one copies, another cell that fails does not wait; a third has to.
    rig.fail("b")
    assert await rig.begins(after_s=2)
    rig.fail("c")
    assert not await rig.begins(after_s=2)
    await rig.running.close()


@in_loop
async def test_a_cell_that_is_called_failed_begins_one_at_once_and_while_another_copies(
    rig: Rig,
) -> None:
    await begun_and_ended(rig)
    await rig.scene.places.set_state("b", DRAINING)
    assert await rig.begins()
    await rig.scene.places.set_state("a", FAILED)
    assert await rig.begins()
    await rig.running.close()


@in_loop
async def test_what_operators_and_acts_change_begins_one(rig: Rig) -> None:
    await begun_and_ended(rig)
    await rig.scene.places.set_state("b", DRAINING)
    await begun_and_ended(rig)
    await rig.scene.places.add_joining(GROUP, "d", epoch=1)
    await begun_and_ended(rig)
    assert not await rig.begins(after_s=9.9)
    assert await rig.begins(after_s=0.1)  # everything may be copied to it
    await rig.running.close()


@in_loop
async def test_a_cell_that_answers_again_begins_one_when_it_is_steady(rig: Rig) -> None:
    rig.fail("a")
    assert await rig.begins(after_s=2)
    await rig.end()
    rig.seen["a"] = CellSeen(answers=True, since_us=rig.scene.clock.now_us())
    assert not await rig.begins(after_s=9)
    assert await rig.begins(after_s=1)
    await rig.running.close()


@in_loop
async def test_after_a_failure_one_begins_soon_and_not_at_once(rig: Rig) -> None:
    assert await rig.begins()
    await rig.end(error="TaskFailed", cause="a store is away")
    assert "TaskFailed: a store is away" in rig.running.told().activities[0]
    assert rig.running.told().state.startswith("failed at 20")
    assert rig.running.told().state.endswith("Z: TaskFailed: a store is away")
    assert not await rig.begins(after_s=4)
    assert await rig.begins(after_s=1)
    await rig.end()
    assert rig.running.told().state == "ok"
    assert rig.running.told().gauges["manager_executions_failed_total"] == 1
    await rig.running.close()


@in_loop
async def test_an_execution_that_breaks_is_told_and_another_one_begins(rig: Rig) -> None:
    assert await rig.begins()
    rig.executions.begun[-1].set_exception(KeyError("a mistake"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert rig.running.told().state.endswith(": KeyError: the log says more")
    assert not await rig.begins(after_s=4)
    assert await rig.begins(after_s=1)
    await rig.running.close()


@in_loop
async def test_what_was_done_is_told_the_latest_first(rig: Rig) -> None:
    admit = {"act": "admit", "group": "g3.01", "epoch": 1, "cell": "d"}
    taken = {"act": "take_out", "cell": "a", "groups": {"g3.01": 1, "g3.02": 1}}
    assert await rig.begins()
    await rig.end({"task": taken, "outcome": "done"})
    assert await rig.begins(after_s=30)
    await rig.end(
        {"task": admit, "outcome": "done"},
        {"task": {**admit, "group": "g3.02"}, "outcome": "done"},
        {"task": {**admit, "group": "g3.03"}, "outcome": "late"},
    )
    texts = [line.partition("Z ")[2] for line in rig.running.told().activities]
    assert texts == [
        "admit d in g3.03: late",
        "admit d in 2 groups: done",
        "take out a (2 groups): done",
    ]
    await rig.running.close()


@in_loop
async def test_tasks_are_answered_as_the_state_machine_wants_them(rig: Rig) -> None:
    action = {"act": "admit", "group": GROUP, "epoch": 1, "cell": "d"}
    answer = await rig.running._perform(None, {"task": action})
    told = {"task": action, "outcome": "done", "after": {}, "rounds": 1, "more": False}
    assert answer == told
    with pytest.raises(LookupError):
        await rig.running._perform(None, {"task": "sweep_bodies"})


@in_loop
async def test_a_group_without_queues_waits_for_no_copy_once_cells_were_looked_at(
    rig: Rig,
) -> None:
    # The service had four cells for a while: the group has had four copies.
    rig.scene.place("g4.00", "abc", factor=4)
    await rig.scene.places.set_state("d", REMOVED)
    await rig.known.refresh()
    await rig.running._perform(None, {"task": "observe"})
    assert rig.running.told().waits == ()
    assert rig.running.told().state == "ok"

"""The cluster manager beside a server: when an execution of the state machine begins, and why.

At once when something has changed that a plan may depend on: a cell fails or is steady again, a
placement or a cell's state is another one, a member that joins may be copied to. Else after a
while, for what nobody has thought of. An execution costs a tenth of a second of CPU time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.interpreter import Event, Finished, Interpreter, InterpreterError
from control_plane.cluster.observation import Options
from control_plane.cluster.tasks import perform
from control_plane.places.cached import CachedMap
from control_plane.places.items import FAILED, Heartbeat
from control_plane.registry import Registry
from control_plane.together import Together
from data_plane.ports import Clock, Waits

IDLE_US: Final = 30_000_000
"""Between two executions while nothing changes."""

TASK_US_MAX: Final = 60_000_000
"""For so long a task goes on copying before it answers; then it is called again."""

ROUNDS_MAX: Final = 600
AGAIN_US: Final = 5_000_000
"""After the interpreter has ended, and while a cell that fails is a member of groups."""

_TOLD_MAX: Final = 20
_INPUT: Final = {"tasks": [], "cells": True}

LOG: Final = logging.getLogger(__name__)

Signs = frozenset[tuple[object, ...]]
"""What a plan may depend on."""


class Running:
    """Starts executions, does their tasks, and remembers what came of them.

    The cluster has a map and heartbeats of this process.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._interpreter = Interpreter(self._perform)
        self._under_way: dict[asyncio.Task[None], Signs] = {}
        self._seen: Signs = frozenset()
        self._begun_us = 0
        self._begins_again_us = 0
        self._doing: list[str] = []
        self._told: deque[str] = deque(maxlen=_TOLD_MAX)

    async def step(self) -> None:
        """Begin an execution if one is due; does not wait for its end."""
        beat, known = self._cluster.beat(), self._cluster.known
        now_us = self._cluster.clock.now_us()
        if beat is None or known is None or now_us < self._begins_again_us:
            return
        signs = self._signs(beat, known, now_us)
        # What has gone (a failure, say) is no reason; that it has gone for good comes as a sign.
        has_changed = bool(signs - self._seen)
        if self._under_way:
            # One is copying, maybe for long; but a cell that fails does not wait for that.
            begun = next(reversed(self._under_way.values()))
            has_changed = bool(_failing(signs) - _failing(begun)) and len(self._under_way) == 1
        elif now_us - self._begun_us >= IDLE_US:
            has_changed = True
        if not has_changed:
            return
        self._seen, self._begun_us = signs, now_us
        execution = asyncio.create_task(self._execute(), name="cluster manager")
        self._under_way[execution] = signs
        execution.add_done_callback(self._under_way.pop)

    def lines(self) -> tuple[str, ...]:
        """What the manager does at present, and what it did last, the latest first."""
        return (*(f"at present: {text}" for text in self._doing), *reversed(self._told))

    async def close(self) -> None:
        """End what is under way: it may be cut off anywhere."""
        for execution in list(self._under_way):
            execution.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._interpreter.close()

    def _signs(self, beat: Heartbeat, known: CachedMap, now_us: int) -> Signs:
        options = self._cluster.options
        signs: set[tuple[object, ...]] = set()
        for name, cell in known.cells.items():
            signs.add(("cell", name, cell.state))
            if cell.state == FAILED:
                signs.add(("fails", name))
        for name, seen in beat.cells.items():
            for_us = now_us - seen.since_us
            if not seen.answers and for_us >= options.down_after_us:
                signs.add(("fails", name))
                if _is_member(name, known):
                    # What forbade to take it out (another was, a moment ago) does not last.
                    signs.add(("still fails", name, for_us // AGAIN_US))
            if seen.answers and for_us >= options.back_after_us:
                signs.add(("steady", name, seen.full))
        for group, held in known.placements.items():
            at = held.placement
            waits = not all(member.full for member in at.members)
            is_ripe = waits and now_us - at.since_us >= options.grace_us
            signs.add(("group", group, at.epoch, is_ripe))
        return frozenset(signs)

    async def _execute(self) -> None:
        try:
            finished = await self._interpreter.execute(_INPUT)
        except InterpreterError as error:
            LOG.error("%s", error)  # noqa: TRY400 - it says all there is
            self._begins_again_us = self._cluster.clock.now_us() + AGAIN_US
            self._seen = frozenset()
            return
        self._note(finished)

    def _note(self, finished: Finished) -> None:
        for text in _summary(finished.results):
            self._tell(text)
        if not finished.succeeded:
            self._tell(f"failed: {finished.error}: {finished.cause}")
            # What it was to do is still to be done; soon, but not at once.
            self._begins_again_us = self._cluster.clock.now_us() + AGAIN_US
            self._seen = frozenset()

    def _tell(self, text: str) -> None:
        LOG.warning("%s", text)
        time = datetime.fromtimestamp(self._cluster.clock.now_us() // 1_000_000, UTC)
        self._told.append(f"{time:%Y-%m-%dT%H:%M:%SZ} {text}")

    async def _perform(self, event: Event) -> Mapping[str, Any]:
        """Do a task of the state machine; its result is the event of the next round."""
        task = event["task"]
        text = _described(task) if isinstance(task, Mapping) else ""
        if text:
            self._doing.append(text)
        try:
            until_us = self._cluster.clock.now_us() + TASK_US_MAX
            result = await perform(event, self._cluster, until_us)
        finally:
            if text:
                self._doing.remove(text)
        if result is None:
            raise LookupError(f"a server does {task!r} by itself")
        rounds = int(event.get("rounds", 0)) + 1
        more = bool(result["more"]) and rounds < ROUNDS_MAX
        answer = {"task": task, "outcome": "done", "after": {}, "rounds": rounds}
        return {**answer, **result, "more": more}


def beside(several: Together, registry: Registry, clock: Clock, waits: Waits) -> Running:
    """The manager of a server of several cells, whose steps the server takes."""
    cluster = Cluster(
        places=several.places,
        placing=several.placing,
        registry=registry,
        cells=several.plain,
        clock=clock,
        waits=waits,
        options=Options(grace_us=several.grace_us),
        beat=several.heart.beat,
        known=several.known,
        registry_partitions=several.registry_partitions,
    )
    running = Running(cluster)
    several.manager = running.lines
    return running


def _is_member(cell: str, known: CachedMap) -> bool:
    placements = (held.placement for held in known.placements.values())
    return any(member.cell == cell for placement in placements for member in placement.members)


def _failing(signs: Signs) -> Signs:
    return frozenset(sign for sign in signs if sign[0] == "fails")


def _summary(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What came of an execution: a line for what was done to one cell in many groups."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        task, outcome = result["task"], str(result["outcome"])
        if result.get("mended"):
            outcome = f"{outcome}, {result['mended']} copies were behind"
        if "group" in task:
            which = str(task["act"]), str(task["cell"]), outcome
            alike.setdefault(which, []).append(str(task["group"]))
        else:
            yield f"{_described(task)}: {outcome}"
    for (act, cell, outcome), groups in alike.items():
        where = groups[0] if len(groups) == 1 else f"{len(groups)} groups"
        yield f"{act} {cell} in {where}: {outcome}"


def _described(task: Mapping[str, Any]) -> str:
    """An action in words: what, which cell or queue, in which group or groups."""
    act = str(task["act"]).replace("_", " ")
    if isinstance(task.get("groups"), Mapping):
        return f"{act} {task['cell']} ({len(task['groups'])} groups)"
    if "group" in task:
        return f"{act} {task['cell']} in {task['group']}"
    if "front_ends" in task:
        return f"{act} copies after {len(task['front_ends'])} front ends ended"
    named = task.get("cell") or task.get("name")
    return f"{act} {named} {task.get('to', '')}".rstrip()

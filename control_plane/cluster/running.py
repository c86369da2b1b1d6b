"""The cluster manager beside a server: when an execution begins, and why.

At once when something has changed that a plan may depend on: a cell fails or is steady again, a
placement or a cell's state is another one, a member that joins may be copied to. Else after a
while, for what nobody has thought of. An execution that finds nothing to do takes milliseconds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.executing import (
    DO,
    OBSERVE,
    PLAN,
    VERIFY,
    Event,
    Executor,
    Finished,
    Perform,
    Steps,
)
from control_plane.cluster.observation import Options, Removal, observation_of
from control_plane.cluster.observing import seen_here
from control_plane.cluster.tasks import perform
from control_plane.cluster.waiting import waits_for
from control_plane.places.cached import CachedMap
from control_plane.places.items import FAILED, Heartbeat
from control_plane.places.report import ToldManager
from control_plane.registry import Registry
from control_plane.together import Together
from data_plane.ports import Clock, Entropy, Waits

IDLE_US: Final = 30_000_000
"""Between two executions while nothing changes."""

TASK_US_MAX: Final = 10_000_000
"""For so long an action goes on copying before it answers; then it is called again."""

ROUNDS_MAX: Final = 3600
AGAIN_US: Final = 5_000_000
"""After an execution has failed, and while a cell that fails is a member of groups."""

TIMEOUTS_S: Final = {OBSERVE: 20.0, PLAN: 20.0, DO: 90.0, VERIFY: 20.0}
"""A step that takes longer is cancelled. Copying answers after TASK_US_MAX, and no cell takes what
was copied more than a minute ago."""

HANGS_US: Final = 20_000_000
"""A step that takes longer hangs: it is told, and no other execution waits for it."""

EXECUTIONS_MAX: Final = 4
"""At a time. If most of them hang, the oldest of those ends for another one."""

UNDER_WAY: Final = "under way"
"""The outcome of an action that another execution of this process is doing."""

_LONG: Final = frozenset({"complete", "reconcile"})
"""Actions that may take hours; so may a release of a first member."""

_CLOSE_S_MAX: Final = 2.0
_TOLD_MAX: Final = 20
_US_PER_S: Final = 1_000_000

LOG: Final = logging.getLogger(__name__)

Signs = frozenset[tuple[object, ...]]
"""What a plan may depend on."""


class _Doing(msgspec.Struct, frozen=True):
    """A step that has begun and not ended; `event` is what it was asked."""

    execution: asyncio.Task[Any] | None
    event: Event
    since_us: int


class Running:
    """Starts executions, does their tasks, and remembers what came of them.

    The cluster has a map and heartbeats of this process.
    """

    def __init__(self, cluster: Cluster, entropy: Entropy) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._steps = Steps.read().within(TIMEOUTS_S)
        self._under_way: list[asyncio.Task[None]] = []
        self._seen: Signs = frozenset()
        self._begun_us = 0
        self._begins_again_us = 0
        self._removal: Removal | None = None
        self._empty: Collection[str] = ()
        self._doing: dict[asyncio.Task[Any] | None, _Doing] = {}
        self._told: deque[str] = deque(maxlen=_TOLD_MAX)
        self._failed = ""
        self._ended = self._failures = self._timeouts = 0

    async def step(self) -> None:
        """Begin an execution if one is due; does not wait for its end."""
        beat, known = self._cluster.beat(), self._cluster.known
        now_us = self._cluster.clock.now_us()
        if beat is None or known is None or now_us < self._begins_again_us:
            return
        signs = self._signs(beat, known, now_us)
        hanging = {doing.execution for doing in self._hanging()}
        working = [one for one in self._under_way if one not in hanging]
        # What has gone (a failure, say) is no reason; that it has gone for good comes as a sign.
        has_changed = bool(signs - self._seen)
        if working:
            # One is copying, maybe for hours; but a cell that fails does not wait for that.
            has_changed = bool(_failing(signs) - self._seen) and len(working) == 1
        elif now_us - self._begun_us >= IDLE_US:
            has_changed = True
        if not has_changed:
            return
        if len(self._under_way) >= EXECUTIONS_MAX:
            next(one for one in self._under_way if one in hanging).cancel()
        self._seen, self._begun_us = signs, now_us
        execution = asyncio.create_task(self._execute(), name="cluster manager")
        self._under_way.append(execution)
        execution.add_done_callback(self._under_way.remove)

    def told(self) -> ToldManager:
        """How the manager is, what it waits for, what it does and what it did, the latest first."""
        now_us = self._cluster.clock.now_us()
        waits = self._waits(now_us)
        hanging = sorted(self._hanging(), key=lambda doing: doing.since_us)
        state = "ok"
        if hanging:
            state = f"hangs since {_time(hanging[0].since_us)}: {_described(hanging[0].event)}"
        elif self._failed:
            state = self._failed
        elif waits:
            state = "waits"
        acts = [doing for doing in self._doing.values() if isinstance(doing.event["task"], Mapping)]
        activities = (
            *(f"at present: {_described(doing.event)}" for doing in acts),
            *reversed(self._told),
        )
        gauges = {
            "manager_executions_total": self._ended,
            "manager_executions_failed_total": self._failures,
            "manager_timeouts_total": self._timeouts,
            "manager_hanging_seconds": max(
                ((now_us - doing.since_us) / _US_PER_S for doing in hanging), default=0.0
            ),
            "manager_waits": float(len(waits)),
        }
        return ToldManager(state, tuple(waits), activities, gauges)

    async def close(self) -> None:
        """End what is under way: it may be cut off anywhere."""
        ending = [*self._under_way, *(call for call in self._doing if call is not None)]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=_CLOSE_S_MAX)

    def _hanging(self) -> list[_Doing]:
        least_us = self._cluster.clock.now_us() - HANGS_US
        return [doing for doing in self._doing.values() if doing.since_us <= least_us]

    def _waits(self, now_us: int) -> list[str]:
        seen = seen_here(self._cluster, self._removal, self._empty)
        return [] if seen is None else waits_for(seen, self._cluster.options, now_us)

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
        perform_it = partial(self._perform, asyncio.current_task())
        try:
            finished = await self._executor(perform_it).execute()
        except Exception as error:
            LOG.exception("an execution of the cluster manager broke")
            finished = Finished(error=type(error).__name__, cause="the log says more")
        self._note(finished)

    def _executor(self, perform_it: Perform) -> Executor:
        return Executor(perform_it, self._steps, self._entropy, self._timed_out)

    def _note(self, finished: Finished) -> None:
        self._ended += 1
        for text in _summary(finished.results):
            self._tell(text)
        if finished.succeeded:
            self._failed = ""
            return
        self._failures += 1
        why = f"{finished.error}: {finished.cause}"
        self._failed = f"failed at {_time(self._cluster.clock.now_us())}: {why}"
        self._tell(f"failed: {why}")
        self._begin_again()

    def _begin_again(self) -> None:
        """What was to be done is still to be done: soon, but not at once."""
        self._begins_again_us = self._cluster.clock.now_us() + AGAIN_US
        self._seen = frozenset()

    def _timed_out(self, event: Event, timeout_s: float) -> None:
        self._timeouts += 1
        self._tell(f"{_described(event)}: cancelled, for it did not answer in {timeout_s:g} s")

    def _tell(self, text: str) -> None:
        LOG.warning("%s", text)
        self._told.append(f"{_time(self._cluster.clock.now_us())} {text}")

    async def _perform(self, execution: asyncio.Task[Any] | None, event: Event) -> Event:
        """Do a task of the state machine; its result is the event of the next round."""
        task = event["task"]
        if isinstance(task, Mapping) and self._is_done_elsewhere(execution, task):
            return {"task": task, "outcome": UNDER_WAY, "more": False}
        now_us, call = self._cluster.clock.now_us(), asyncio.current_task()
        self._doing[call] = _Doing(execution, event, now_us)
        try:
            result = await perform(event, self._cluster, now_us + TASK_US_MAX)
        finally:
            del self._doing[call]
        if result is None:
            raise LookupError(f"a server does {task!r} by itself")
        if task == "observe":
            observed = observation_of(result["observed"])
            self._removal = observed.removal
            self._empty = [group.name for group in observed.groups if group.empty]
        elif task == "plan":
            result = {**result, "tasks": self._without_copies(execution, result["tasks"])}
        rounds = int(event.get("rounds", 0)) + 1
        more = bool(result["more"]) and rounds < ROUNDS_MAX
        answer = {"task": task, "outcome": "done", "after": {}, "rounds": rounds}
        return {**answer, **result, "more": more}

    def _without_copies(
        self, execution: asyncio.Task[Any] | None, tasks: Sequence[object]
    ) -> Sequence[object]:
        """What an execution does beside another one that works: it is to end before a cell fails.

        What is to be copied, or compared, waits for that one, or comes after it.
        """
        hanging = {doing.execution for doing in self._hanging()}
        if execution is next((one for one in self._under_way if one not in hanging), execution):
            return tasks
        return [one for one in tasks if not (isinstance(one, Mapping) and self._is_long(one))]

    def _is_long(self, task: Mapping[str, Any]) -> bool:
        if task["act"] != "release":
            return task["act"] in _LONG
        # The first member, if it is that, tells the others what it knows before it leaves.
        known = self._cluster.known
        held = None if known is None else known.placements.get(task["group"])
        return held is not None and held.placement.members[0].cell == task["cell"]

    def _is_done_elsewhere(
        self, execution: asyncio.Task[Any] | None, task: Mapping[str, Any]
    ) -> bool:
        """Whether another execution does the same, and its time is not over."""
        return any(
            doing.execution is not execution
            and doing.event["task"] == task
            and not (call is not None and call.cancelling())
            for call, doing in self._doing.items()
        )


def beside(
    several: Together, registry: Registry, clock: Clock, waits: Waits, entropy: Entropy
) -> Running:
    """The manager of a server of several cells, whose steps the server takes."""
    cluster = Cluster(
        places=several.places,
        placing=several.placing,
        registry=registry,
        cells=several.plain,
        clock=clock,
        waits=waits,
        options=Options(grace_us=several.grace_us),
        ask=several.watch.ask,
        beat=several.heart.beat,
        known=several.known,
        registry_partitions=several.registry_partitions,
    )
    running = Running(cluster, entropy)
    several.manager = running.told
    return running


def _is_member(cell: str, known: CachedMap) -> bool:
    placements = (held.placement for held in known.placements.values())
    return any(member.cell == cell for placement in placements for member in placement.members)


def _failing(signs: Signs) -> Signs:
    return frozenset(sign for sign in signs if sign[0] in {"fails", "still fails"})


def _summary(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What came of an execution: a line for what was done to one cell in many groups."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        task, outcome = result["task"], str(result["outcome"])
        if outcome == UNDER_WAY:
            continue
        if "error" in result:
            outcome = f"{outcome}: {result['error']}"
        if result.get("mended"):
            outcome = f"{outcome}, {result['mended']} copies were behind"
        if "group" in task:
            which = str(task["act"]), str(task["cell"]), outcome
            alike.setdefault(which, []).append(str(task["group"]))
        else:
            yield f"{_described(result)}: {outcome}"
    for (act, cell, outcome), groups in alike.items():
        where = groups[0] if len(groups) == 1 else f"{len(groups)} groups"
        yield f"{act} {cell} in {where}: {outcome}"


def _described(event: Event) -> str:
    """A step in words; of an action what, which cell or queue, in which group or groups."""
    task = event["task"]
    if not isinstance(task, Mapping):
        return str(task)
    act = str(task["act"]).replace("_", " ")
    if isinstance(task.get("groups"), Mapping):
        return f"{act} {task['cell']} ({len(task['groups'])} groups)"
    if "group" in task:
        return f"{act} {task['cell']} in {task['group']}"
    if "front_ends" in task:
        return f"{act} copies after {len(task['front_ends'])} front ends ended"
    named = task.get("cell") or task.get("name")
    return f"{act} {named} {task.get('to', '')}".rstrip()


def _time(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us // _US_PER_S, UTC):%Y-%m-%dT%H:%M:%SZ}"

"""The tasks of the cluster manager's state machine: what runs beside requests, where no server is.

A task works until little time is left in its invocation. Its result says what it did and, as
`more`, whether to call again at once with this result as the event; so a task goes on where it
stopped without storing that. Tasks may run twice at once and be cut off anywhere. What they raise
tells the state machine by the name of its class whether to try again (cluster/state_machine).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.cluster import tasks
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observation import Options
from control_plane.message_moves_running import OWNED_US, OWNER_GUARD_US
from control_plane.places.cached import MAP_AGE_US_MAX
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from control_plane.serverless.closing import Closing
from control_plane.serverless.looking import LOOK, look
from control_plane.serverless.measuring import GROUP_MEASURED, MEASURE, MEASURED, measure
from control_plane.serverless.opening import Opened
from control_plane.serverless.several import FRESH_US
from control_plane.service import RunningService, ServicePorts
from data_plane.core.deadline import deadline
from data_plane.ports import CellUnavailableError

ROUNDS_MAX: Final = 90
"""Of 15 minutes each, that is a day. What is left then is for the next execution to do."""

STEPS_APART_US: Final = 1_000_000
"""Between two looks at what a move task's rate allows."""

TAKEOVER_US: Final = OWNED_US + OWNER_GUARD_US + STEPS_APART_US
"""So long a task waits for move tasks of an owner who may have been cut off."""

RESERVE_US: Final = 5_000_000
"""No step begins with less time left, but the first."""

_MAP_US: Final = MAP_AGE_US_MAX - FRESH_US + RESERVE_US
"""For so long a map may serve that was fresh when a task began."""

MARGIN_US: Final = 500_000
"""By so much the work ends before the invocation does, so that a failure can be told."""


class UnknownTaskError(ValueError):
    """There is no task of this name: the state machine and the function do not match."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a task works with. No step begins after `until_us`."""

    ground: ServicePorts
    service: RunningService
    until_us: int

    def is_late(self) -> bool:
        """Whether the time is over for another step."""
        return self.ground.clock.now_us() >= self.until_us


Event = Mapping[str, Any]
Result = dict[str, Any]
Task = Callable[[Bench, Event], Awaitable[Result]]


async def perform(
    event: Event,
    ground: ServicePorts,
    service: RunningService,
    remaining_us: int,
    cluster: Cluster | None = None,
) -> Result:
    """Do the task that the event names within `remaining_us`; the state machine's next event.

    `cluster` is that of a deployment with several cells. Raises UnknownTaskError,
    CellUnavailableError and those derived from it.
    """
    name = event.get("task", "")
    rounds = int(event.get("rounds", 0)) + 1
    ends_us = ground.clock.now_us() + remaining_us - MARGIN_US
    cluster = cluster or _of_one_cell(ground, service)
    closing = Closing(service.engine, ground.cells, ground.bodies, ground.clock)
    with deadline(ends_us):
        try:
            bench = Bench(ground, service, ends_us - RESERVE_US)
            if name == LOOK:
                return {"task": LOOK, **await look(event, cluster, service)}
            if name == MEASURE:
                return {"task": MEASURE, **await measure(event, service, ground.clock)}
            result = await tasks.perform(event, cluster, bench.until_us)
            if result is None:
                result = await _task(name)(bench, event)
        finally:
            await closing.close()
    more = bool(result["more"]) and rounds < ROUNDS_MAX
    return {"task": name, "outcome": "done", "after": {}, "rounds": rounds, **result, "more": more}


async def perform_on(opened: Opened, event: Event, remaining_us: int) -> Result:
    """As `perform`, in a sandbox.

    With several cells it works by a fresh map, for as long as that may serve, and goes on by
    another one while there is time: a state machine counts invocations, whatever they do.
    """
    result = await _perform_on(opened, event, remaining_us)
    for measured in result.get("measured", ()):
        opened.log.act(MEASURED, **measured)
    for measured in result.get("groups_measured", ()):
        opened.log.act(GROUP_MEASURED, **measured)
    return result


async def _perform_on(opened: Opened, event: Event, remaining_us: int) -> Result:
    ground, service, several = opened.ground, opened.service, opened.several
    if several is None:
        return await perform(event, ground, service, remaining_us)
    cluster = Cluster(
        places=several.places,
        placing=several.placing,
        registry=service.registry,
        cells=several.cells,
        clock=ground.clock,
        waits=ground.waits,
        options=Options(grace_us=opened.settings.grace_s * 1_000_000),
    )
    result: Result | None = None
    ends_us = ground.clock.now_us() + remaining_us
    while result is None or (result["more"] and ends_us - ground.clock.now_us() >= _MAP_US):
        try:
            await several.advance()
            await several.freshen()
            left_us = ends_us - ground.clock.now_us()
            stepped = await perform(event, ground, service, min(left_us, _MAP_US), cluster)
        except CellUnavailableError:
            if result is None:
                raise
            break  # What is done is done: the next call goes on from there, or says what is wrong.
        await several.ship()
        result = stepped
        event = {**result, "rounds": event.get("rounds", 0)}
    return result


def _of_one_cell(ground: ServicePorts, service: RunningService) -> Cluster:
    """What has no groups: there is nothing to be planned but splits."""
    return Cluster(
        places=Places(ground.control, ground.clock, ground.entropy),
        placing=GroupPlacing(ground.control, lambda: len(ground.cells)),
        registry=service.registry,
        cells=ground.cells,
        clock=ground.clock,
        waits=ground.waits,
        options=Options(),
    )


def _task(name: object) -> Task:
    task = TASKS.get(str(name))
    if task is None:
        raise UnknownTaskError(f"{name!r} is none of the tasks {', '.join(TASKS)}")
    return task


async def _sweep_dropped(bench: Bench, _event: Event) -> Result:
    """Remove what deleted queues and purges left behind, unless somebody else does."""
    sweep, removed = bench.service.sweep, 0
    while True:
        await bench.ground.waits.sleep_until(sweep.next_us)
        removed += await sweep.step()
        if not sweep.is_cut_off or sweep.next_us > bench.until_us + RESERVE_US // 2:
            return {"removed": removed, "more": False}
        if bench.is_late():
            return {"removed": removed, "more": True}


async def _sweep_bodies(bench: Bench, event: Event) -> Result:
    """Walk over the bodies of all cells once, and remove those that no segment names.

    `after` has the cells that are still to be walked over, each with the last name that was met.
    """
    ground = bench.ground
    left: dict[str, str] = dict(event.get("after") or dict.fromkeys(ground.bodies, ""))
    removed = 0
    for name in list(left):
        while name in left:
            walked = await ground.bodies[name].walk_on(
                ground.segments_of(name), ground.waits, ground.clock.now_us(), left[name]
            )
            removed += walked.orphans
            if walked.after:
                left[name] = walked.after
            else:
                del left[name]
            if left and bench.is_late():
                return {"removed": removed, "after": left, "more": True}
    return {"removed": removed, "more": False}


async def _keep_streams(bench: Bench, event: Event) -> Result:
    """Look after every stream once; `after` has the last one that was, in hexadecimal digits.

    And what one before failed of: that is raised when all were tried.
    """
    after = event.get("after") or {}
    upkeep = bench.service.streams.upkeep
    walked = await upkeep.walk(bytes.fromhex(after.get("stream", "")), bench.is_late)
    failed = after.get("failed") or ("" if walked.failure is None else repr(walked.failure))
    if walked.left is not None:
        return {"after": {"stream": walked.left.hex(), "failed": failed}, "more": True}
    if failed:
        raise walked.failure or CellUnavailableError(failed)
    return {"more": False}


async def _move_messages(bench: Bench, _event: Event) -> Result:
    """Run message move tasks, at their rates, as long as there are any that nobody else runs."""
    clock, runner = bench.ground.clock, bench.service.move_runner
    began_us = own_us = clock.now_us()
    steps = 0
    while True:
        own = others = 0
        while True:
            stepped = await runner.step()
            own, others, steps = own + stepped.own, others + stepped.others, steps + 1
            if stepped.all_met:
                break
        now_us = clock.now_us()
        own_us = now_us if own else own_us
        # Others run theirs; but an owner that was cut off is followed by who waits for it.
        is_done = not own and (not others or now_us >= max(began_us, own_us) + TAKEOVER_US)
        if is_done or bench.is_late():
            return {"steps": steps, "running": own, "of_others": others, "more": not is_done}
        await bench.ground.waits.sleep_until(now_us + STEPS_APART_US)


TASKS: Final[Mapping[str, Task]] = {
    "move_messages": _move_messages,
    "sweep_dropped": _sweep_dropped,
    "sweep_bodies": _sweep_bodies,
    "keep_streams": _keep_streams,
}

"""The tasks of the state machine that are about cells: observe, plan, act, verify.

Wherever they run: in a function, or in a server that is asked by its interpreter.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from control_plane.cluster.acting import Result, act
from control_plane.cluster.actions import action_of
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observation import observation_of, to_json
from control_plane.cluster.observing import observe
from control_plane.cluster.planning import in_own_order, plan
from control_plane.cluster.verifying import unmet

Event = Mapping[str, Any]


async def perform(event: Event, cluster: Cluster, until_us: int) -> Result | None:
    """Do the task that the event names, no step of it after `until_us`; None if it is another's.

    The task of an event is a name, or what is to be done about cells as the plan has it. Raises
    CellUnavailableError, and msgspec.ValidationError for what no plan has made.
    """
    task = event.get("task")
    if isinstance(task, Mapping):
        return await act(cluster, action_of(task), event.get("after") or {}, until_us)
    perform_it = _TASKS.get(str(task))
    return None if perform_it is None else await perform_it(event, cluster)


async def _observe(_event: Event, cluster: Cluster) -> Result:
    return {"observed": to_json(await observe(cluster)), "more": False}


async def _plan(event: Event, cluster: Cluster) -> Result:
    """What is to be done: first about cells, then what the execution was started for."""
    seen = observation_of(event["observed"])
    beat, now_us = cluster.beat(), cluster.clock.now_us()
    # Executions of a state machine, of which one begins each minute, are told apart by their time.
    own = beat.front_end if beat is not None else str(now_us)
    actions = in_own_order(plan(seen, cluster.options, now_us), own)
    return {"tasks": [*map(to_json, actions), *event.get("tasks", ())], "more": False}


async def _verify(event: Event, cluster: Cluster) -> Result:
    missing = unmet(event["results"], await cluster.places.read_all())
    return {"met": not missing, "unmet": missing, "more": False}


_TASKS: Final[Mapping[str, Callable[[Event, Cluster], Awaitable[Result]]]] = {
    "observe": _observe,
    "plan": _plan,
    "verify": _verify,
}

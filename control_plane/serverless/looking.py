"""A look at whether the cluster manager has anything to do, before it is started.

It plans as the manager would, and does nothing. So an idle deployment pays for a look instead of an
execution, and what is due begins as soon as ever.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observing import observe
from control_plane.cluster.planning import plan
from control_plane.service import RunningService

LOOK: Final = "look"
"""The task's name."""


async def look(
    event: Mapping[str, Any], cluster: Cluster, service: RunningService
) -> dict[str, Any]:
    """Whether anything is `due`, and the `input` of an execution that does just that.

    The event's `input` is that of an execution which does everything it is asked for: `tasks`, and
    `cells`. Raises CellUnavailableError.
    """
    asked = event["input"]
    tasks = [name for name in asked.get("tasks", ()) if await _is_due(name, service)]
    cells = bool(asked.get("cells")) and await _has_plan(cluster)
    given = {"tasks": tasks, "cells": cells}
    return {"due": bool(tasks) or cells, "input": given, "more": False}


async def _has_plan(cluster: Cluster) -> bool:
    seen = await observe(cluster)
    return bool(plan(seen, cluster.options, cluster.clock.now_us()))


async def _is_due(task: str, service: RunningService) -> bool:
    """What nobody can tell without doing it is due."""
    is_due = _DUE.get(task)
    return is_due is None or await is_due(service)


async def _has_moves(service: RunningService) -> bool:
    return await service.move_runner.has_work()


async def _has_dropped(service: RunningService) -> bool:
    return await service.sweep.has_work()


async def _has_streams(service: RunningService) -> bool:
    return await service.streams.registry.has_any()


_DUE: Final[Mapping[str, Callable[[RunningService], Awaitable[bool]]]] = {
    "move_messages": _has_moves,
    "sweep_dropped": _has_dropped,
    "keep_streams": _has_streams,
}

"""Depth and age of queues, and lags of consumer groups, for who asked for metrics of them.

Servers have these numbers in `/metrics`. Functions are asked for them by a schedule, write a line
of the log for each, and CloudWatch reads them out of it (infra/queue_metrics.py, group_metrics.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from control_plane.service import RunningService
from control_plane.stream_operations.group_lag import measured_group
from data_plane.core.errors import RefusedError
from data_plane.ports import CellUnavailableError, Clock

MEASURE: Final = "measure_queues"
"""The task's name."""

MEASURED: Final = "queue measured"
"""The event in the log."""

GROUP_MEASURED: Final = "group measured"
"""That of a consumer group."""

EVERY_US: Final = 300_000_000
"""How often the schedule asks."""

SHARDS_MAX: Final = 500
"""That are looked at each time, but for the rest of the last group: each costs some reads."""

_Asked = Sequence[Mapping[str, str]]


async def measure(
    event: Mapping[str, Any], service: RunningService, clock: Clock
) -> dict[str, Any]:
    """What is waiting in the event's `queues`, each with `account`, `region` and `queue`.

    And how far its `groups` are behind (`group` in place of `queue`): as many as SHARDS_MAX allows.
    The others are there the next times, for the group that comes first is another one each time.
    What is not there, or cannot be counted now, is left out.
    """
    queues = await _queues(event.get("queues", ()), service, clock)
    groups = await _groups(event.get("groups", ()), service, clock)
    return {"measured": queues, "groups_measured": groups, "more": False}


async def _queues(asked_for: _Asked, service: RunningService, clock: Clock) -> list[dict[str, Any]]:
    measured = []
    for asked in asked_for:
        try:
            found = await service.registry.find(asked["account"], asked["region"], asked["queue"])
            if found is None:
                continue
            counts = await service.engine.counts(found)
        except CellUnavailableError:
            continue
        sent_ms = counts.oldest_sent_ms
        age_ms = clock.now_us() // 1000 - sent_ms if sent_ms else 0
        measured.append(
            {
                "account": asked["account"],
                "queue": asked["queue"],
                "visible": counts.visible,
                "age_s": max(0, age_ms // 1000),
            }
        )
    return measured


async def _groups(asked_for: _Asked, service: RunningService, clock: Clock) -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = []
    groups = service.streams.groups
    first = clock.now_us() // EVERY_US % len(asked_for) if asked_for else 0
    shards = 0
    for asked in (*asked_for[first:], *asked_for[:first]):
        if shards >= SHARDS_MAX:
            break
        try:
            group = await groups.registry.read(asked["account"], asked["region"], asked["group"])
            found = await measured_group(groups, group)
        except (CellUnavailableError, RefusedError):
            continue
        shards += found.shards
        measured.append(
            {
                "account": asked["account"],
                "group": asked["group"],
                "records": found.lag.records,
                "behind_ms": found.lag.behind_ms,
            }
        )
    return measured

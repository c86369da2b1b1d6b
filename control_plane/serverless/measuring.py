"""Depth and age of queues, for who asked for metrics of them: a line of the log for each.

Servers have these numbers in `/metrics`. Functions are asked for them by a schedule, and CloudWatch
reads them out of the log (infra/queue_metrics.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from control_plane.service import RunningService
from data_plane.ports import CellUnavailableError, Clock

MEASURE: Final = "measure_queues"
"""The task's name."""

MEASURED: Final = "queue measured"
"""The event in the log."""


async def measure(
    event: Mapping[str, Any], service: RunningService, clock: Clock
) -> dict[str, Any]:
    """What is waiting in the event's `queues`, each with `account`, `region` and `queue`.

    A queue that is not there, or cannot be counted now, is left out.
    """
    measured = []
    for asked in event["queues"]:
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
    return {"measured": measured, "more": False}

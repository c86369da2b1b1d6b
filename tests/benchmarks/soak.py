"""Memory over time under a steady load of everything: it rises at first, and then it is level.

`--seconds 3600` is an hour. Anonymous memory counts: pages of the store's file come and go as the
system likes.
"""

import threading
import time
from pathlib import Path
from typing import Final

from tests.benchmarks import generator
from tests.benchmarks.latency import median
from tests.benchmarks.load import Group, Load
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import anonymous_bytes
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.secured import create_queue
from tests.benchmarks.server_process import ServerProcess
from tests.benchmarks.throughput import row_of

POINTS: Final = 60
RISE_MB_MAX: Final = 8.0
"""Between the third and the fourth quarter: what rises for ever rises there, too."""

_MB: Final = 1_048_576
_QUEUES: Final[dict[str, dict[str, str]]] = {"soak": {}, "soak.fifo": {"FifoQueue": "true"}}
_MESSAGE_GROUPS: Final = 50
_RUN_S: Final = 300.0
"""The generator keeps the time of each call of a run."""


def measure_soak(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Send, receive and delete at a steady rate; report memory over time."""
    options = ["--log-level", log_level]
    with ServerProcess(folder / "soak-data", folder / "soak-log", options) as server:
        groups = []
        for name, attributes in _QUEUES.items():
            url = create_queue(server, None, name, attributes)
            message_groups = _MESSAGE_GROUPS if attributes else 0
            groups.append(
                Group("cycle", url, 8, rate_hz=150, count=1, message_groups=message_groups)
            )
        megabytes: list[float] = []
        stopped = threading.Event()

        def look() -> None:
            while not stopped.wait(plan.soak_seconds / POINTS):
                megabytes.append(anonymous_bytes(server.pid) / _MB)

        looking = threading.Thread(target=look, daemon=True)
        megabytes.append(anonymous_bytes(server.pid) / _MB)
        looking.start()
        outcomes = []
        until_s = time.monotonic() + plan.soak_seconds
        while (left_s := until_s - time.monotonic()) > 0:
            load = Load(server.port, tuple(groups), min(_RUN_S, left_s), 0, server.pid)
            outcomes.append(generator.run(load))
        stopped.set()
        looking.join()
    for group, number in zip(groups, range(len(groups)), strict=True):
        tallies = [outcome.tallies[number] for outcome in outcomes]
        report.say(
            f"{group.queue_url.rpartition('/')[2]}: {sum(t.messages for t in tallies):,} messages"
        )
    report.add(row_of("soak", groups[0], outcomes))
    for at, each in enumerate(megabytes):
        report.say(
            f"{at * plan.soak_seconds / POINTS:>8.0f} s {each:>8.1f} MB {'#' * int(each / 4)}"
        )
    quarter = max(1, len(megabytes) // 4)
    third = median(megabytes[-2 * quarter : -quarter])
    fourth = median(megabytes[-quarter:])
    report.state(Fact("anonymous memory in the last quarter", fourth, "MB"))
    report.state(Fact("its rise from the quarter before", fourth - third, "MB", RISE_MB_MAX))

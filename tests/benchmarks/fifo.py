"""FIFO queues: what they do by connections, groups and partitions, and what a send costs.

Many short runs instead of few long ones: what counts is how the numbers grow, not each of them. A
run has a queue of its own: what was in flight when another one ended would block groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.benchmarks.fifo_blocked import measure_blocked
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report, Row
from tests.benchmarks.server_process import FIFO, FIFO_HIGH_THROUGHPUT, Line, ServerProcess
from tests.benchmarks.throughput import row_of, run_load
from tests.benchmarks.wire import BATCH

MODES: Final = {1: FIFO, 8: FIFO_HIGH_THROUGHPUT}
"""Attributes of a queue by the number of its partitions."""

COST_RATIO_MAX: Final = 1.5
"""Of sends to a queue of one partition."""

COST_GROUPS: Final = 100
_WARM_UP_SHARE: Final = 0.4
_TITLE_WIDTH: Final = 45
_COLUMNS: Final = f"{'growth':>8}{'to 1 p.':>9}{'us/msg':>8}{'p50 ms':>8}{'p99 ms':>8}{'others':>8}"


def measure_fifo(server: ServerProcess, plan: Plan, chosen: Sequence[str], report: Report) -> None:
    """Measure those of the scenarios that are chosen."""
    bench = FifoBench(server, plan, report)
    if "fifo_send" in chosen:
        bench.growth("fifo_send", "send", 1)
        bench.growth("fifo_send", "send_batch", BATCH)
    if "fifo_cycle" in chosen:
        bench.growth("fifo_cycle", "cycle", 1)
        bench.growth("fifo_cycle", "cycle", BATCH)
    if "fifo_cost" in chosen:
        bench.cost()
    if "fifo_blocked" in chosen:
        measure_blocked(server, plan, report)


class FifoBench:
    """Runs scenarios against one server."""

    def __init__(self, server: ServerProcess, plan: Plan, report: Report) -> None:
        self._server = server
        self._plan = plan
        self._report = report
        self._queues = 0

    def _queue(self, attributes: Mapping[str, str]) -> str:
        self._queues += 1
        suffix = ".fifo" if attributes else ""
        with Line(self._server.port) as line:
            return line.create_queue(f"queue-{self._queues}{suffix}", attributes)

    def _run(self, group: Group, attributes: Mapping[str, str]) -> Outcome:
        plan = self._plan
        seconds = plan.fifo_cycle_seconds if group.work == "cycle" else plan.fifo_seconds
        group = replace(group, queue_url=self._queue(attributes))
        return run_load(self._server, [group], seconds, seconds * _WARM_UP_SHARE)

    def growth(self, scenario: str, work: str, each: int) -> None:
        """Messages a second of a work for all connections, partitions and groups of the plan."""
        plan = self._plan
        sizes = plan.fifo_cycle_connections if work == "cycle" else plan.fifo_connections
        groups = plan.fifo_groups
        self._report.say(f"\n{_heading(f'{scenario}, {each} at a time', groups)}")
        for connections in sizes:
            one_partition_hz = 0.0
            for partitions, attributes in MODES.items():
                rows = []
                for message_groups in groups:
                    group = Group(work, "", connections, count=each, message_groups=message_groups)
                    title = f"{scenario} {each}, {partitions} p., {message_groups} groups"
                    rows.append(row_of(title, group, [self._run(group, attributes)]))
                one_partition_hz = one_partition_hz or rows[-1].messages_hz
                self._report.add_series(rows, _line(partitions, rows, one_partition_hz))

    def cost(self) -> None:
        """CPU time of work on FIFO queues and of the same on standard ones, in turns."""
        for name, connections in self._plan.fifo_cost:
            rows = self._in_turns(name, connections)
            for row in rows.values():
                self._report.add(row)
            standard_us = rows.pop("standard").server_us
            for kind, row in rows.items():
                fact = f"CPU of a FIFO {name} to a standard one, {connections} conn., {kind}"
                limited = kind == _kind(1) and name != "cycle"
                limit = COST_RATIO_MAX if limited else None
                self._report.state(Fact(fact, row.server_us / standard_us, "times", limit))

    def _in_turns(self, name: str, connections: int) -> dict[str, Row]:
        """Rows by the kind of the queue."""
        kinds: dict[str, Mapping[str, str]] = {"standard": {}} | {
            _kind(number): mode for number, mode in MODES.items()
        }
        groups = {
            kind: Group(name, "", connections, message_groups=COST_GROUPS if attributes else 0)
            for kind, attributes in kinds.items()
        }
        outcomes: dict[str, list[Outcome]] = {kind: [] for kind in kinds}
        for _ in range(self._plan.fifo_cost_turns):
            for kind, attributes in kinds.items():
                outcomes[kind].append(self._run(groups[kind], attributes))
        return {kind: row_of(f"{name}, {kind}", groups[kind], outcomes[kind]) for kind in kinds}


def _kind(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def _heading(title: str, groups: Sequence[int]) -> str:
    counts = "".join(f"{count:>8,}" for count in groups)
    return (
        f"{title:<{_TITLE_WIDTH}}messages/s by number of groups\n"
        f"{'':<{_TITLE_WIDTH}}{counts}{_COLUMNS}"
    )


def _line(partitions: int, rows: Sequence[Row], one_partition_hz: float) -> str:
    """Render rates by the number of groups; what follows them is that of most groups.

    `growth` is the rate with most groups to that with fewest, then to that of one partition.
    """
    last = rows[-1]
    rates = "".join(f"{row.messages_hz:>8,.0f}" for row in rows)
    title = f"  {last.connections} connections, {_kind(partitions)}"
    return (
        f"{title:<{_TITLE_WIDTH}}{rates}"
        f"{_ratio(last.messages_hz, rows[0].messages_hz):>8}"
        f"{_ratio(last.messages_hz, one_partition_hz):>9}"
        f"{last.server_us:>8.0f}{last.latency.p50_ms:>8.2f}{last.latency.p99_ms:>8.2f}"
        f"{last.other_cores:>8.1f}"
    )


def _ratio(rate_hz: float, to_hz: float) -> str:
    return f"{rate_hz / to_hz:.2f}x" if to_hz else "-"

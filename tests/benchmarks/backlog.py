"""What a long backlog costs: a receive, memory, a restart.

A receive leases what it returns, so a queue of 1,000 messages changes while it is measured. Both
queues are therefore measured in the same rounds: some receives, whose times and CPU time count,
then what was received is deleted and as much sent again. The two take turns, so that noise hits
both.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.latency import Latency, median
from tests.benchmarks.load import Group
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import anonymous_bytes, cpu_s, folder_bytes
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import START_S_MAX, Line, ServerError, ServerProcess
from tests.benchmarks.throughput import fill, row_of
from tests.benchmarks.wire import (
    BATCH,
    DeleteTemplate,
    receipt_handles,
    receive_request,
    send_batch_requests,
)

RATIO_MAX: Final = 1.3
MEMORY_MB_MAX: Final = 150
RESTART_S_MAX: Final = 3
VISIBILITY_S: Final = 600
RECEIVES: Final = 40
"""Receives in a round: they take less than half of a queue of 1,000."""

_MB: Final = 1_000_000
_US_PER_S: Final = 1e6
_RETRY_S: Final = 0.005


@dataclass(slots=True)
class Receives:
    """Times and CPU time of receives of one queue."""

    times_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def add(self, other: "Receives") -> None:
        """Add those of another round."""
        self.times_s += other.times_s
        self.cpu_us += other.cpu_us


def receive_round(
    server: ServerProcess, line: Line, queue_url: str, message_groups: int = 0
) -> Receives:
    """Receive some batches, then delete them and send as many again.

    Raises:
        ServerError: a receive came back without messages.
    """
    receive = receive_request(server.port, queue_url, count=BATCH, visibility_s=VISIBILITY_S)
    deletes = DeleteTemplate(server.port, queue_url)
    measured = Receives()
    batches = []
    cpu_before_s = cpu_s(server.pid)
    for _ in range(RECEIVES):
        began_s = time.perf_counter()
        response = line.exchange(receive)
        measured.times_s.append(time.perf_counter() - began_s)
        batches.append(receipt_handles(response))
    used_s = cpu_s(server.pid) - cpu_before_s
    if not all(batches):
        raise ServerError("a receive came back empty from a queue that is not")
    measured.cpu_us.append(used_s / RECEIVES * _US_PER_S)
    for handles in batches:
        line.exchange(deletes.delete_batch(handles))
    for again in send_batch_requests(server.port, queue_url, message_groups)[:RECEIVES]:
        line.exchange(again)
    return measured


def measure_backlog(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Measure an empty server, then one with a short and a long backlog; then restart it."""
    with Line(server.port) as line:
        short = line.create_queue("short-backlog")
        long = line.create_queue("long-backlog")
        for each in (short, long):
            line.call("SendMessage", {"QueueUrl": each, "MessageBody": "first"})
        empty_bytes = anonymous_bytes(server.pid)
        fill(server, short, plan.small_backlog)
        receive_round(server, line, short)
        alone = Receives()
        for _ in range(plan.backlog_rounds):
            alone.add(receive_round(server, line, short))
    began_s = time.perf_counter()
    filling = fill(server, long, plan.backlog)
    took_s = time.perf_counter() - began_s
    report.add(row_of(f"fill with {plan.backlog:,}", Group("send_batch", long, 32), [filling]))
    report.state(Fact(f"sending {plan.backlog:,} messages", took_s, "s"))
    full_bytes = anonymous_bytes(server.pid)
    _compare_receives(server, plan, report, alone, (short, long))
    used_bytes = anonymous_bytes(server.pid)
    for name, now_bytes in (("after sending", full_bytes), ("after receiving", used_bytes)):
        grown_mb = (now_bytes - empty_bytes) / _MB
        report.state(
            Fact(f"RssAnon beyond an empty server's, {name}", grown_mb, "MB", MEMORY_MB_MAX)
        )
    report.state(Fact("RssAnon of an empty server", empty_bytes / _MB, "MB"))
    report.state(Fact("disk space", folder_bytes(server.data) / _MB, "MB"))
    _restart(server, long, report)
    grown_mb = (anonymous_bytes(server.pid) - empty_bytes) / _MB
    name = "RssAnon beyond an empty server's, restarted"
    report.state(Fact(name, grown_mb, "MB", MEMORY_MB_MAX))


def _compare_receives(
    server: ServerProcess, plan: Plan, report: Report, alone: Receives, queues: tuple[str, str]
) -> None:
    short, long = Receives(), Receives()
    with Line(server.port) as line:
        for queue_url in queues:
            receive_round(server, line, queue_url)
        for _ in range(plan.backlog_rounds):
            short.add(receive_round(server, line, queues[0]))
            long.add(receive_round(server, line, queues[1]))
    beside = f"{plan.small_backlog:,} beside {plan.backlog:,}"
    named = ((f"{plan.small_backlog:,}", alone), (beside, short), (f"{plan.backlog:,}", long))
    for name, each in named:
        latency = Latency.of(each.times_s)
        report.state(Fact(f"receive(10) at {name}: p50", latency.p50_ms, "ms"))
        report.state(Fact(f"receive(10) at {name}: p99", latency.p99_ms, "ms"))
        report.state(Fact(f"receive(10) at {name}: CPU of the server", median(each.cpu_us), "us"))
    for name, other in ((f"{plan.small_backlog:,} before", alone), (beside, short)):
        times = median(long.times_s) / median(other.times_s)
        cpu = median(long.cpu_us) / median(other.cpu_us)
        report.state(Fact(f"p50 at {plan.backlog:,} to that at {name}", times, "times", RATIO_MAX))
        report.state(Fact(f"CPU at {plan.backlog:,} to that at {name}", cpu, "times", RATIO_MAX))


def _restart(server: ServerProcess, queue_url: str, report: Report) -> None:
    stopped_s = server.stop()
    report.state(Fact("stopping on SIGTERM", stopped_s, "s"))
    restarted_s = _until_first_receive(server, queue_url)
    name = "from the start to the first message received"
    report.state(Fact(f"{name}, after SIGTERM", restarted_s, "s", RESTART_S_MAX))
    server.kill()
    restarted_s = _until_first_receive(server, queue_url)
    report.state(Fact(f"{name}, after kill -9", restarted_s, "s", RESTART_S_MAX))


def _until_first_receive(server: ServerProcess, queue_url: str) -> float:
    receive = receive_request(server.port, queue_url, count=BATCH, visibility_s=VISIBILITY_S)
    began_s = time.perf_counter()
    server.start()
    with Line(server.port) as line:
        while not receipt_handles(line.exchange(receive)):
            if time.perf_counter() > began_s + START_S_MAX:
                raise ServerError("the server that started has no message")
            time.sleep(_RETRY_S)  # between two looks at a server that starts
    return time.perf_counter() - began_s

"""What a receive costs behind many messages of a group that is in flight, hence blocked.

Messages of other groups are received from that queue, and from one that holds nothing else, in
turns. Then both queues are looked at when nothing can be received.
"""

import time
from typing import Final

from tests.benchmarks.backlog import VISIBILITY_S, Receives, receive_round
from tests.benchmarks.latency import Latency, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import anonymous_bytes, cpu_s
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import FIFO, Line, ServerError, ServerProcess
from tests.benchmarks.throughput import fill
from tests.benchmarks.wire import (
    BATCH,
    DeleteTemplate,
    receipt_handles,
    receive_request,
    send_batch_requests,
)

RATIO_MAX: Final = 1.3
OTHER_GROUPS: Final = 1_000
"""One of them is the blocked one: of what is sent, a thousandth stays."""

BATCHES: Final = 50
LOOKS: Final = 40
RECEIVES_MAX: Final = 200
"""Who has not got past the blocked group by then never will."""

_MB: Final = 1_000_000
_US_PER_S: Final = 1e6


def measure_blocked(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Fill a queue with messages of one group, hold the first, and receive from behind."""
    count = plan.fifo_blocked
    with Line(server.port) as line:
        free, blocked = (line.create_queue(f"{name}.fifo", FIFO) for name in ("free", "blocked"))
    before_bytes = anonymous_bytes(server.pid)
    fill(server, blocked, count, message_groups=1)
    with Line(server.port) as line:
        hold = receive_request(server.port, blocked, count=1, visibility_s=VISIBILITY_S)
        if not receipt_handles(line.exchange(hold)):
            raise ServerError("there is no message to hold")
        passed_s = _get_past(server, line, blocked)
        report.state(Fact(f"first receive behind {count:,} of a blocked group", passed_s, "s"))
        grown_mb = (anonymous_bytes(server.pid) - before_bytes) / _MB
        report.state(Fact(f"RssAnon for {count:,} of a blocked group", grown_mb, "MB"))
        _get_past(server, line, free)
        receives = {free: Receives(), blocked: Receives()}
        for _ in range(plan.fifo_blocked_rounds):
            for queue_url, measured in receives.items():
                measured.add(receive_round(server, line, queue_url, OTHER_GROUPS))
        _compare(f"receive(10) behind {count:,} blocked", receives[blocked], receives[free], report)
        looks = {queue_url: Receives() for queue_url in receives}
        for queue_url in receives:
            _drain(server, line, queue_url)
        for _ in range(plan.fifo_blocked_rounds):
            for queue_url, measured in looks.items():
                measured.add(_look(server, line, queue_url))
        _compare(f"empty receive, {count:,} blocked", looks[blocked], looks[free], report)


def _get_past(server: ServerProcess, line: Line, queue_url: str) -> float:
    """Send messages of other groups; how long it takes until some of them are received."""
    sends = send_batch_requests(server.port, queue_url, OTHER_GROUPS)
    for each in sends[:BATCHES]:
        line.exchange(each)
    receive = receive_request(server.port, queue_url, count=BATCH, visibility_s=VISIBILITY_S)
    began_s = time.perf_counter()
    for _ in range(RECEIVES_MAX):
        handles = receipt_handles(line.exchange(receive))
        if handles:
            took_s = time.perf_counter() - began_s
            line.exchange(DeleteTemplate(server.port, queue_url).delete_batch(handles))
            return took_s
    raise ServerError("a group that is blocked holds up the others")


def _drain(server: ServerProcess, line: Line, queue_url: str) -> None:
    receive = receive_request(server.port, queue_url, count=BATCH, visibility_s=VISIBILITY_S)
    while receipt_handles(line.exchange(receive)):
        pass


def _look(server: ServerProcess, line: Line, queue_url: str) -> Receives:
    """Receives that find nothing to hand out."""
    receive = receive_request(server.port, queue_url, count=BATCH)
    measured = Receives()
    cpu_before_s = cpu_s(server.pid)
    for _ in range(LOOKS):
        began_s = time.perf_counter()
        if receipt_handles(line.exchange(receive)):
            raise ServerError("a message was received from a queue that has none to give")
        measured.times_s.append(time.perf_counter() - began_s)
    measured.cpu_us.append((cpu_s(server.pid) - cpu_before_s) / LOOKS * _US_PER_S)
    return measured


def _compare(name: str, behind: Receives, alone: Receives, report: Report) -> None:
    report.state(Fact(f"{name}: p50", Latency.of(behind.times_s).p50_ms, "ms"))
    report.state(Fact(f"{name}: CPU of the server", median(behind.cpu_us), "us"))
    times = median(behind.times_s) / median(alone.times_s)
    report.state(Fact(f"{name}: p50 to that without", times, "times", RATIO_MAX))
    cpu = median(behind.cpu_us) / median(alone.cpu_us)
    report.state(Fact(f"{name}: CPU to that without", cpu, "times", RATIO_MAX))

"""Fair queues: a quiet message behind a loud tenant's backlog, and waits beside loud tenants."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Final

from tests.benchmarks.fair_dwell import CASES, MODES, dwell_of
from tests.benchmarks.latency import Latency, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.wire import BATCH, message_bodies, request

RECEIVES_MAX: Final = 1
BESIDE_BEST_MAX: Final = 2.0
"""The target of waits: to those with a queue of their own for the loud tenants."""

_CONNECTIONS: Final = 8
_RECEIVES: Final = 200
_MS_PER_S: Final = 1_000
_VISIBILITY_S: Final = 600


def measure_fair(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Measure both."""
    _measure_backlog(server, plan.fair_backlog, report)
    _measure_dwell(plan, report)


def _measure_backlog(server: ServerProcess, backlog: int, report: Report) -> None:
    with Line(server.port) as line:
        queue_url = line.create_queue("fair")
    began_s = time.perf_counter()
    calls = max(1, backlog // BATCH // _CONNECTIONS)
    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(partial(_fill, server.port, queue_url), repeat(calls, _CONNECTIONS)))
    name = f"sending {calls * BATCH * _CONNECTIONS:,} messages of a loud tenant"
    report.state(Fact(name, time.perf_counter() - began_s, "s"))
    with Line(server.port) as line:
        _send_quiet(line, queue_url)
        _state_wait(line, queue_url, report, "behind them")
        times_s = []
        for _ in range(_RECEIVES):
            began_s = time.perf_counter()
            _receive(line, queue_url)
            times_s.append(time.perf_counter() - began_s)
        p50_ms = median(times_s) * _MS_PER_S
        report.state(Fact("receive(10) of the loud tenant's: p50", p50_ms, "ms"))
        _send_quiet(line, queue_url)
    server.kill()
    server.start()
    with Line(server.port) as line:
        _state_wait(line, queue_url, report, "after kill -9")


def _fill(port: int, queue_url: str, calls: int) -> None:
    entries = [
        {"Id": str(at), "MessageBody": body, "MessageGroupId": "loud"}
        for at, body in enumerate(message_bodies(0))
    ]
    batch = request(port, "SendMessageBatch", {"QueueUrl": queue_url, "Entries": entries})
    with Line(port) as line:
        for _ in range(calls):
            line.exchange(batch)


def _send_quiet(line: Line, queue_url: str) -> None:
    message = {"QueueUrl": queue_url, "MessageBody": "quiet", "MessageGroupId": "quiet"}
    line.call("SendMessage", message)


def _receive(line: Line, queue_url: str) -> list[str]:
    params = {
        "QueueUrl": queue_url,
        "MaxNumberOfMessages": BATCH,
        "VisibilityTimeout": _VISIBILITY_S,
    }
    answer = line.call("ReceiveMessage", params)
    return [message["Body"] for message in answer["Messages"]]


def _state_wait(line: Line, queue_url: str, report: Report, where: str) -> None:
    began_s, receives = time.perf_counter(), 1
    while "quiet" not in _receive(line, queue_url):
        receives += 1
    took_ms = (time.perf_counter() - began_s) * _MS_PER_S
    report.state(Fact(f"a quiet message {where}: receives", receives, "", RECEIVES_MAX))
    report.state(Fact(f"a quiet message {where}: time", took_ms, "ms"))


def _measure_dwell(plan: Plan, report: Report) -> None:
    for case in CASES[: plan.fair_cases]:
        best_ms = 0.0
        report.say(f"\n{case.name}: waits of the other tenants, two front ends, virtual time")
        for mode in ("own queue", *(mode for mode in MODES if mode != "own queue")):
            dwell = dwell_of(case, mode)
            latency = Latency.of(dwell.others_s)
            limit = best_ms * BESIDE_BEST_MAX if mode == "groups" else None
            best_ms = best_ms or latency.p99_ms
            report.state(Fact(f"{mode}: p50", latency.p50_ms, "ms"))
            report.state(Fact(f"{mode}: p99", latency.p99_ms, "ms", limit))
            busy = dwell.busy_s / case.consumers / case.seconds
            report.state(Fact(f"{mode}: consumers' time in use", busy * 100, "%"))
            noisy = ", ".join(sorted(dwell.noisy)) or "nobody"
            report.say(f"    noisy by SQS's thresholds at some time: {noisy}")

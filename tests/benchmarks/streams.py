"""What streams take and give: puts, beside the least server of the same parts, and reads."""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.benchmarks import bare
from tests.benchmarks.latency import median
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.peers.contestants import OURS
from tests.benchmarks.peers.logs import LOGS, puts, running
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import cpu_s
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.stream_wire import (
    get_request,
    iterator_after_request,
    put_requests,
    record_count,
    shard_iterator,
)
from tests.benchmarks.throughput import row_of, run_load
from tests.benchmarks.wire import BODY_BYTES, response_body

RECORDS_MAX: Final = 500
SMALL_BYTES: Final = 100
"""Size of the records that make a stream long."""

RATIO_MAX: Final = 1.3
_FILLERS: Final = 4
_FILL_S_MAX: Final = 3_600.0
_MB: Final = 1_000_000
_US_PER_S: Final = 1e6


def measure_streams(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report puts of records of 1 KB, also beside the bare server, reads, and reads far behind."""
    options = ["--log-level", log_level]
    with ServerProcess(folder / "stream-data", folder / "stream-log", options) as server:
        best = _puts(server, plan, report)
        read_hz = _reads(server, plan, report)
        _far_reads(server, plan, report)
    report.state(Fact("records read to records put, a second", read_hz / best.rate(), "times"))
    _beside_bare(folder, log_level, plan, report)
    _beside_logs(folder, plan, report)


def _puts(server: ServerProcess, plan: Plan, report: Report) -> Outcome:
    """Rows by records a call and connections; the outcome that was the fastest."""
    best: Outcome | None = None
    for records in plan.stream_records:
        for connections in plan.stream_connections:
            with Line(server.port) as line:
                name = line.create_stream(f"put-{records}-{connections}", plan.stream_shards)
            group = Group("put", name, connections, count=records)
            outcomes = [
                run_load(server, [group], plan.seconds, plan.warm_up_s) for _ in range(plan.runs)
            ]
            report.add(row_of(f"put {records} x 1 KB", group, outcomes))
            fastest = max(outcomes, key=Outcome.rate)
            if best is None or fastest.rate() > best.rate():
                best = fastest
    assert best is not None
    report.state(Fact("MB of records put a second, best", best.rate() * BODY_BYTES / _MB, "MB/s"))
    return best


def _reads(server: ServerProcess, plan: Plan, report: Report) -> float:
    """Rows by connections; the best rate, in records a second."""
    with Line(server.port) as line:
        name = line.create_stream("read", plan.stream_shards)
    _fill(server, name, plan.stream_read_records, BODY_BYTES)
    best_hz = 0.0
    for connections in plan.stream_connections:
        group = Group("read", name, connections, count=RECORDS_MAX, shards=plan.stream_shards)
        outcomes = [
            run_load(server, [group], plan.seconds, plan.warm_up_s / 5) for _ in range(plan.runs)
        ]
        report.add(row_of(f"get {RECORDS_MAX} x 1 KB", group, outcomes))
        best_hz = max(best_hz, *(outcome.rate() for outcome in outcomes))
    report.state(Fact("MB of records read a second, best", best_hz * BODY_BYTES / _MB, "MB/s"))
    return best_hz


def _fill(server: ServerProcess, stream: str, records: int, size_bytes: int) -> None:
    group = Group(
        "put",
        stream,
        max(1, min(_FILLERS, records // RECORDS_MAX)),
        count=RECORDS_MAX,
        messages_max=records,
        record_bytes=size_bytes,
    )
    run_load(server, [group], _FILL_S_MAX)


def _far_reads(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Reads of the end of a short and of a long stream, in turns."""
    ends = {}
    for name, records in (("short", RECORDS_MAX * 2), ("long", plan.stream_backlog)):
        with Line(server.port) as line:
            stream = line.create_stream(f"{name}-stream", 1)
        began_s = time.perf_counter()
        _fill(server, stream, records, SMALL_BYTES)
        took_s = time.perf_counter() - began_s
        report.state(Fact(f"putting {records:,} records of {SMALL_BYTES} B", took_s, "s"))
        ends[name] = _end(server, stream)
    times_s: dict[str, list[float]] = {name: [] for name in ends}
    cpu_us: dict[str, list[float]] = {name: [] for name in ends}
    with Line(server.port) as line:
        for _ in range(plan.backlog_rounds):
            for name, iterator in ends.items():
                _read_some(line, server, iterator, times_s[name], cpu_us[name])
    times = median(times_s["long"]) / median(times_s["short"])
    cpu = median(cpu_us["long"]) / median(cpu_us["short"])
    beside = f"GetRecords behind {plan.stream_backlog:,} records to that behind {RECORDS_MAX:,}"
    report.state(Fact(f"{beside}: p50", times, "times", RATIO_MAX))
    report.state(Fact(f"{beside}: CPU", cpu, "times", RATIO_MAX))


_READS: Final = 20


def _read_some(
    line: Line, server: ServerProcess, iterator: bytes, times_s: list[float], cpu_us: list[float]
) -> None:
    before_s = cpu_s(server.pid)
    for _ in range(_READS):
        began_s = time.perf_counter()
        received = line.exchange(get_request(server.port, iterator, RECORDS_MAX))
        times_s.append(time.perf_counter() - began_s)
        assert record_count(received) == RECORDS_MAX - 1
    cpu_us.append((cpu_s(server.pid) - before_s) / _READS * _US_PER_S)


def _end(server: ServerProcess, stream: str) -> bytes:
    """Put records behind all others; an iterator behind the first of them."""
    with Line(server.port) as line:
        put = put_requests(server.port, stream, RECORDS_MAX, SMALL_BYTES)[0]
        number = json.loads(response_body(line.exchange(put)))["Records"][0]["SequenceNumber"]
        behind = line.exchange(iterator_after_request(server.port, stream, 0, number))
    return shard_iterator(behind)


def _beside_bare(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Puts as fast as they go, and those to the bare server, in turns."""
    with ExitStack() as started:
        both = bare.both(folder / "put", log_level, started)
        with Line(both[0].server.port) as line:
            name = line.create_stream("beside", plan.stream_shards)
        group = Group("put", name, plan.stream_connections[-1], count=RECORDS_MAX)
        groups = {each.name: group for each in both}
        rates_hz = bare.in_turns(f"put {RECORDS_MAX}", both, groups, plan, report)
    ours_hz, bare_hz = rates_hz[OURS], rates_hz[bare.BARE]
    report.state(Fact("records put, to those of the bare server", ours_hz / bare_hz, "times"))


def _beside_logs(folder: Path, plan: Plan, report: Report) -> None:
    """Puts to other logs that are installed."""
    for log in LOGS:
        with running(log, folder / log.name) as peer:
            if peer is None:
                report.say(f"{log.name}: not installed (package {log.package})")
                continue
            report.say(f"{log.name}: acknowledges after {log.keeps}")
            for records in plan.stream_records:
                for connections in plan.stream_connections:
                    report.add(puts(log, peer, records, connections, plan))

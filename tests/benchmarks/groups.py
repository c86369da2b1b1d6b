"""Consumer groups: how soon shards are read again, how fast members join, and rivals beside."""

import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from tests.benchmarks.group_member import Member, call
from tests.benchmarks.latency import median
from tests.benchmarks.peers.group_readers import measure_readers
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import ROOT, Line, ServerError, ServerProcess
from tests.benchmarks.stream_queues import measure_stream_queues

SESSION_S: Final = 2
"""The shortest that there is: what is promised is that, and a second."""

MEMBERS: Final = 8
SHARDS: Final = 16
JOIN_S_MAX: Final = 10.0
SECOND: Final = 1.0
_WRITE_EVERY_S: Final = 0.05
_SETTLE_S_MAX: Final = 300.0
_LOOK_S: Final = 0.02
_JOINING_SESSION_S: Final = 60
_JOINING_WAIT_S: Final = 2
_JOINING_S_MAX: Final = 30.0


def measure_groups(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report hand-overs, joins, queues over streams, and four groups beside other logs."""
    options = ["--log-level", log_level]
    with ServerProcess(folder / "group-data", folder / "group-log", options) as server:
        _hand_overs(server, plan, report)
        _joins(server, plan, report)
        measure_stream_queues(server, plan, report)
    measure_readers(folder, log_level, plan, report)


def create(server: ServerProcess, name: str, shards: int, session_s: int) -> str:
    """A stream, and a group of its name that reads it from its beginning: the stream's ARN."""
    with Line(server.port) as line:
        line.create_stream(name, shards)
        summary = call(line, server.port, "DescribeStreamSummary", {"StreamName": name})
        arn = str(summary["StreamDescriptionSummary"]["StreamARN"])
        asked = {
            "GroupName": name,
            "StreamARNs": [arn],
            "StartingPosition": {"Type": "TRIM_HORIZON"},
            "SessionTimeoutSeconds": session_s,
        }
        call(line, server.port, "TidegateCreateGroup", asked)
    return arn


@dataclass(slots=True)
class Worker:
    """A member in a process of its own, and when it read which shard."""

    process: "subprocess.Popen[str]"
    reads: list[tuple[float, str]] = field(default_factory=list)

    def listen(self) -> None:
        """Note what it tells, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told_s, shard, _ = line.split()
            self.reads.append((float(told_s), shard))

    def since(self, time_s: float) -> dict[str, list[float]]:
        """By shard, when it read it after this time."""
        found: dict[str, list[float]] = {}
        for read_s, shard in list(self.reads):
            if read_s >= time_s:
                found.setdefault(shard, []).append(read_s)
        return found


def last_read(reads: Sequence[Sequence[tuple[float, str]]]) -> list[set[str]]:
    """Of what each worker read, when and of which shard: the shards that it was the last to read.

    However long ago: on a busy machine a worker may rest.
    """
    last: dict[str, tuple[float, int]] = {}
    for number, of_one in enumerate(reads):
        for read_s, shard in list(of_one):
            last[shard] = max(last.get(shard, (read_s, number)), (read_s, number))
    return [
        {shard for shard, (_, by) in last.items() if by == number} for number in range(len(reads))
    ]


class Crew:
    """Workers of one group, and a writer that fills all shards all the time."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self._server, self._name = server, name
        self.workers: list[Worker] = []

    def fill_up(self) -> None:
        """Start as many workers as are missing, and wait until all shards are shared out."""
        while len(self.workers) < MEMBERS:
            command = [sys.executable, "-m", "tests.benchmarks.group_member"]
            process = subprocess.Popen(
                [*command, str(self._server.port), self._name],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            worker = Worker(process)
            threading.Thread(target=worker.listen, daemon=True).start()
            self.workers.append(worker)
        self._settle()

    def _settle(self) -> None:
        """Return when every worker reads as many shards as another one."""
        each = SHARDS // MEMBERS
        until_s = time.perf_counter() + _SETTLE_S_MAX
        while time.perf_counter() < until_s:
            shards = last_read([worker.reads for worker in self.workers])
            if all(len(own) == each for own in shards):
                return
            time.sleep(_LOOK_S)  # between two looks at members that come
        raise ServerError(f"the group did not settle: {shards}")

    def end_one(self, number: signal.Signals) -> tuple[float, float]:
        """End a worker: when all its shards are read again, and the longest pause of the others.

        Both in seconds, the former from the signal on.
        """
        lost, *_ = last_read([worker.reads for worker in self.workers])
        worker = self.workers.pop(0)
        before_s = time.perf_counter() - SECOND
        began_s = time.perf_counter()
        worker.process.send_signal(number)
        until_s = began_s + _SETTLE_S_MAX
        again: dict[str, float] = {}
        while time.perf_counter() < until_s and again.keys() != lost:
            time.sleep(_LOOK_S)  # between two looks at members that go on
            for other in self.workers:
                for shard, times_s in other.since(began_s).items():
                    if shard in lost:
                        again[shard] = min(again.get(shard, times_s[0]), times_s[0])
        worker.process.wait()
        if again.keys() != lost:
            raise ServerError(f"nobody reads {lost - again.keys()}")
        ended_s = max(again.values())
        pauses = [
            later - earlier
            for other in self.workers
            for shard, times_s in other.since(before_s).items()
            if shard not in lost
            for earlier, later in pairwise(times_s)
            if earlier <= ended_s
        ]
        return ended_s - began_s, max(pauses, default=math.nan)

    def end(self) -> None:
        """End all."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.wait()


@contextmanager
def _written(server: ServerProcess, stream: str) -> Iterator[None]:
    """Records come to each shard all the time."""
    stop = threading.Event()
    width = 2**128 // SHARDS
    records = [
        {"Data": "eA==", "PartitionKey": "k", "ExplicitHashKey": str(number * width)}
        for number in range(SHARDS)
    ]

    def write() -> None:
        with Line(server.port) as line:
            while not stop.wait(_WRITE_EVERY_S):
                call(line, server.port, "PutRecords", {"StreamName": stream, "Records": records})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def _hand_overs(server: ServerProcess, plan: Plan, report: Report) -> None:
    create(server, "crew", SHARDS, SESSION_S)
    crew = Crew(server, "crew")
    killed: list[tuple[float, float]] = []
    left: list[tuple[float, float]] = []
    with _written(server, "crew"):
        try:
            for _ in range(plan.runs):
                for number, found in ((signal.SIGKILL, killed), (signal.SIGTERM, left)):
                    crew.fill_up()
                    found.append(crew.end_one(number))
        finally:
            crew.end()
    of_group = f"group of {MEMBERS}, {SHARDS} shards"
    for what, found, again_s_max in (
        (f"kill -9 of a member, session {SESSION_S} s", killed, SESSION_S + SECOND),
        ("a member leaves", left, SECOND),
    ):
        again_s = median([again for again, _ in found])
        pause_s = median([pause for _, pause in found])
        name = f"{of_group}: {what}: shards read again"
        report.state(Fact(name, again_s, "s", again_s_max))
        report.state(Fact("    the longest pause of the others' shards", pause_s, "s", SECOND))


def _joins(server: ServerProcess, plan: Plan, report: Report) -> None:
    """Many members at once: until all have joined, and until each has its shard."""
    count = plan.group_members
    create(server, "crowd", count, _JOINING_SESSION_S)
    began_s = time.perf_counter()
    joined_s: dict[int, float] = {}
    again: list[str] = []
    shares: dict[int, set[str]] = {}
    stop = threading.Event()

    def member(number: int) -> None:
        one = Member(server.port, "crowd", id=f"member-{number}")
        with Line(server.port) as line:
            while not stop.is_set():
                try:
                    one.beat(line, _JOINING_WAIT_S)
                except ServerError as error:
                    again.append(str(error))
                    if "Member" in str(error):
                        one.begin_anew()
                    continue
                joined_s.setdefault(number, time.perf_counter() - began_s)
                shares[number] = set(one.owned)

    settled_s = math.nan
    with ThreadPoolExecutor(count) as pool:
        done = [pool.submit(member, number) for number in range(count)]
        while time.perf_counter() < began_s + _JOINING_S_MAX:
            own = list(shares.values())
            if all(len(one) == 1 for one in own) and len(set(chain(*own))) == count:
                settled_s = time.perf_counter() - began_s
                break
            time.sleep(_LOOK_S)  # between two looks at members that come
        stop.set()
    for one in done:
        one.result()
    if again:
        report.say(f"    {len(again)} heartbeats were refused, and repeated; the last: {again[-1]}")
    all_s = max(joined_s.values()) if len(joined_s) == count else math.nan
    report.state(Fact(f"{count} members join", all_s, "s", JOIN_S_MAX))
    report.state(Fact("    until each has the one shard that is its", settled_s, "s"))

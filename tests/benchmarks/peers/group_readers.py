"""Several groups read a stream while it is written: Tidegate beside other logs, in one run.

One connection writes batches as fast as they are acknowledged; each group is one process, which
says how far it is. A group that reads as fast as is written is done when the writer is.
"""

import http.client
import multiprocessing
import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.benchmarks.group_member import call
from tests.benchmarks.latency import median
from tests.benchmarks.peers.contestants import OURS
from tests.benchmarks.peers.log_wires import READ_BYTES, LogWire
from tests.benchmarks.peers.logs import LOGS, running
from tests.benchmarks.peers.reader_wires import GroupReader, RabbitReader, RedisReader
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.stream_wire import next_iterator, put_requests, record_count
from tests.benchmarks.wire import BODY_BYTES, STREAMS, ResponseError, request

SHARDS: Final = 4
BEHIND_MAX: Final = 1.1
"""The slowest group may take so much of the time of writing: the last page is read behind it."""

WRITES_MAX: Final = 10.0
"""More writes of the store for _PER records and a group: those of commits and heartbeats."""

_COMMIT_EVERY_S: Final = 1.0
_PAUSE_S: Final = 0.002
_READ_S_MAX: Final = 300.0
_END_S_MAX: Final = 30.0
_SESSION_S: Final = 300
_PER: Final = 1_000
_PAGE_MAX: Final = 1_000
_READERS: Final[dict[str, "NewReader"]] = {
    "Redis Streams": RedisReader,
    "RabbitMQ streams": RabbitReader,
}
_WRITES: Final = re.compile(r'^tidegate_cell_writes_total\{cell="[^"]*"\} (\S+)$', re.MULTILINE)

NewReader = Callable[[int, str], GroupReader]
Write = Callable[[int, float], int]
"""Writes to the server on a port for so many seconds: how many records."""


class OurReader:
    """The only member of a group; it commits once a second."""

    def __init__(self, port: int, group: str) -> None:
        self._port, self._group = port, group
        self._line = Line(port)
        told = self._call("TidegateGroupHeartbeat", {"GroupName": group, "MemberEpoch": 0})
        self._member = told["MemberId"]
        self._shards = told["Assignment"]
        self._iterators: list[bytes] = []
        for one in self._shards:
            asked = {"StreamARN": one["StreamARN"], "ShardId": one["ShardId"], **one["Position"]}
            answer = self._call("GetShardIterator", asked)
            self._iterators.append(answer["ShardIterator"].encode())
        self._done: dict[int, str] = {}
        self._committed_s = time.perf_counter()

    def read(self) -> int:
        """A page of each shard."""
        count = 0
        for at, iterator in enumerate(self._iterators):
            asked = {"ShardIterator": iterator.decode(), "Limit": _PAGE_MAX}
            page = self._line.exchange(request(self._port, "GetRecords", asked, service=STREAMS))
            following = next_iterator(page)
            assert following is not None, "the shard is open"
            self._iterators[at] = following
            records = record_count(page)
            if records:
                number = page.rindex(b'"SequenceNumber"') + len(b'"SequenceNumber"')
                self._done[at] = page[number:].split(b'"', 2)[1].decode()
            count += records
        if time.perf_counter() - self._committed_s >= _COMMIT_EVERY_S:
            self.finish()
        if not count:
            time.sleep(_PAUSE_S)  # between two looks at shards that have nothing new
        return count

    def finish(self) -> None:
        """Commit what is read."""
        self._committed_s = time.perf_counter()
        entries = [
            {
                **{name: self._shards[at][name] for name in ("StreamARN", "ShardId")},
                "AssignmentEpoch": self._shards[at]["AssignmentEpoch"],
                "SequenceNumber": number,
            }
            for at, number in self._done.items()
        ]
        if entries:
            named = {"GroupName": self._group, "MemberId": self._member, "Entries": entries}
            answer = self._call("TidegateCommitOffsets", named)
            assert answer["Failed"] == []
        self._done = {}

    def _call(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        return call(self._line, self._port, operation, params)


class Told(NamedTuple):
    """What a reader tells when it is done: records, and when it had the last one."""

    records: int
    last_s: float


@dataclass(frozen=True, slots=True)
class Followed:
    """A run: records a second that were written, and that the slowest group read; all together."""

    written_hz: float
    read_hz: float
    behind: float
    records: int


def _reader(new: NewReader, port: int, group: str, expected: Any, end: Connection) -> None:
    """Read until so many records came as were written at last, which is told late."""
    reader = new(port, group)
    end.send(None)
    count, last_s, until_s = 0, time.perf_counter(), 0.0
    while not 0 <= expected.value <= count:
        more = reader.read()
        if more:
            count, last_s = count + more, time.perf_counter()
        if expected.value >= 0:
            until_s = until_s or time.perf_counter() + _READ_S_MAX
            if time.perf_counter() > until_s:
                break
    reader.finish()
    end.send(Told(count, last_s))


def follow(new: NewReader, port: int, groups: list[str], write: Write, seconds: float) -> Followed:
    """Let groups read what is written meanwhile."""
    process = multiprocessing.get_context("fork")
    expected = process.Value("q", -1)
    ends = []
    readers = []
    for group in groups:
        ours, theirs = process.Pipe()
        reader = process.Process(target=_reader, args=(new, port, group, expected, theirs))
        reader.start()
        readers.append(reader)
        ends.append(ours)
    try:
        for end in ends:
            end.recv()
        began_s = time.perf_counter()
        written = write(port, seconds)
        took_s = time.perf_counter() - began_s
        expected.value = written
        told: list[Told] = [end.recv() for end in ends]
    finally:
        for reader in readers:
            reader.join(_END_S_MAX)
            reader.kill()
    slowest = min(one.records / (one.last_s - began_s) for one in told)
    rate_hz = written / took_s
    if any(one.records != written for one in told):
        counts = [one.records for one in told]
        raise ResponseError(f"{written} records were written, and {counts} read")
    return Followed(rate_hz, slowest, rate_hz / slowest, written)


def measure_readers(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report groups that follow a writer, of each log that is installed."""
    report.say(f"\n{plan.group_readers} groups follow a writer of {plan.group_batch} x 1 KB a call")
    options = ["--log-level", log_level]
    with ServerProcess(folder / "read-data", folder / "read-log", options) as server:
        _ours(server, plan, report)
    for log in LOGS:
        if log.name not in _READERS or log.wire is None:
            continue
        wire, new = log.wire, _READERS[log.name]
        with running(log, folder / f"readers-{log.name}") as peer:
            if peer is None:
                report.say(f"{log.name}: not installed (package {log.package})")
                continue
            report.say(f"{log.name}: acknowledges after {log.keeps}")
            found = _of_peer(wire, new, peer.server.port, plan)
            _state(log.name, found, report, limit=None)


def _state(name: str, found: list[Followed], report: Report, limit: float | None) -> None:
    written_hz = median([one.written_hz for one in found])
    read_hz = median([one.read_hz for one in found])
    behind = median([one.behind for one in found])
    report.state(Fact(f"{name}: records written", written_hz, "a second"))
    report.state(Fact(f"{name}: records that the slowest group read", read_hz, "a second"))
    what = "the time until it had all, to that of writing"
    report.state(Fact(f"    {what}", behind, "times", limit))


def _ours(server: ServerProcess, plan: Plan, report: Report) -> None:
    found, writes = [], []
    for run in range(plan.runs):
        name = f"followed-{run}"
        with Line(server.port) as line:
            line.create_stream(name, SHARDS)
        groups = [f"{name}-{number}" for number in range(plan.group_readers)]
        requests = put_requests(server.port, name, plan.group_batch, BODY_BYTES)

        def write(port: int, seconds: float) -> int:
            count = 0
            until_s = time.perf_counter() + seconds
            with Line(port) as line:
                while time.perf_counter() < until_s:
                    line.exchange(requests[count % len(requests)])  # noqa: B023 - called at once
                    count += 1
            return count * plan.group_batch

        alone = _writes(server)
        written = write(server.port, plan.seconds)
        alone = (_writes(server) - alone) / written
        _create_groups(server, name, groups)
        beside = _writes(server)
        found.append(follow(OurReader, server.port, groups, write, plan.seconds))
        beside = (_writes(server) - beside) / found[-1].records
        writes.append((beside - alone) / plan.group_readers)
    _state(OURS, found, report, BEHIND_MAX)
    name = f"    writes of the store that a group adds to {_PER:,} records"
    report.state(Fact(name, median(writes) * _PER, "writes", WRITES_MAX))


def _create_groups(server: ServerProcess, stream: str, groups: list[str]) -> None:
    with Line(server.port) as line:
        summary = call(line, server.port, "DescribeStreamSummary", {"StreamName": stream})
        arn = summary["StreamDescriptionSummary"]["StreamARN"]
        for group in groups:
            asked = {"GroupName": group, "StreamARNs": [arn], "SessionTimeoutSeconds": _SESSION_S}
            call(line, server.port, "TidegateCreateGroup", asked)


def _writes(server: ServerProcess) -> float:
    """Items that the server's cell has written."""
    time.sleep(1.1)  # for metrics of now: a page is kept for a second
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", "/metrics")
        found = _WRITES.search(connection.getresponse().read().decode())
    assert found is not None
    return float(found[1])


def _of_peer(
    wire: Callable[[int], LogWire], new: NewReader, port: int, plan: Plan
) -> list[Followed]:
    found = []
    opened = wire(port)
    batch = opened.batch(plan.group_batch)

    def write(_: int, seconds: float) -> int:
        count = 0
        until_s = time.perf_counter() + seconds
        while time.perf_counter() < until_s:
            opened.socket.sendall(batch)
            missing = plan.group_batch
            while missing > 0:
                received = opened.socket.recv(READ_BYTES)
                if not received:
                    raise ResponseError("the peer closed the connection")
                missing -= opened.acknowledged(received)
            count += plan.group_batch
        return count

    with closing(opened.socket):
        for run in range(plan.runs):
            groups = [f"run-{run}-{number}" for number in range(plan.group_readers)]
            found.append(follow(new, port, groups, write, plan.seconds))
    return found

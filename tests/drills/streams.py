"""A stream on three cells, of which one fails under load, while its shards are split and merged.

Clients are boto3's. What was acknowledged is read, once, in order, where it was told to be.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from tests.drills import several_cells
from tests.drills.caller import RefusedError
from tests.drills.consumers import new_client
from tests.drills.drill import Findings, Plan
from tests.drills.several_cells import Fault, OnDisks
from tests.drills.stream_book import StreamBook
from tests.drills.subject import SERVER_FAILURES
from tests.simulation.streams.reading import Reading

STREAM: Final = "drill"
_DRILL: Final = "streams"
_SHARDS: Final = (2, 3, 4)
_PRODUCERS: Final = 2
_KEYS: Final = 5
_RECORDS_MAX: Final = 8
_PAUSE_S: Final = 0.02
_RESHARD_S: Final = 2.0
_MORE: Final = (50, 300)
_FACT_S_MAX: Final = 300.0
_ONLY_COPY: Final = "has the only whole copy"
_FAILURES: Final = (ClientError, HTTPClientError, NoConnectionError)


@dataclass
class OnStreams(OnDisks):
    """A server of cells whose clients put records, and read them."""

    stream: StreamBook = field(default_factory=lambda: StreamBook(STREAM))
    turns: list[int] = field(default_factory=list)

    def victim(self, random: Random) -> int:
        """Each cell before one fails again: so the one that decides does within three losses."""
        self.turns = self.turns or random.sample(range(several_cells.CELLS), several_cells.CELLS)
        return self.turns.pop()

    @property
    def books(self) -> tuple[StreamBook, ...]:  # type: ignore[override]
        """That of the stream."""
        return (self.stream,)

    def insist(self, operation: str, **params: object) -> dict[str, Any]:
        """As Service; again while a cell has what is still being copied to others."""
        until_s = time.monotonic() + _FACT_S_MAX
        while True:
            try:
                return super().insist(operation, **params)
            except RefusedError as error:
                if _ONLY_COPY not in error.text or time.monotonic() > until_s:
                    raise
            time.sleep(_RESHARD_S)  # between two looks at what the manager does

    def await_progress(self, random: Random) -> None:
        """Return when some more records were put, and read by who reads all the time."""
        more = random.randint(*_MORE)
        for what in ("sends", "reads"):
            enough = self.stream.tally[what] + more
            if not self.stream.wait_for(what, enough, _FACT_S_MAX) and not self.is_violated:
                self.stream.accuse("answer", f"no {what} in {_FACT_S_MAX:.0f} s")


def streams(plan: Plan) -> Findings:
    """Let one cell after the other fail, in ways that the seed chooses."""
    findings = Findings(_DRILL, facts=[f"{several_cells.CELLS} cells"])
    began_s = time.monotonic()
    known = several_cells.FAULTS
    faults = {name: fault for name, fault in known.items() if name in (plan.causes or known)}
    with several_cells.on_disks(plan, _DRILL, with_disks=False, made=OnStreams) as service:
        assert isinstance(service, OnStreams)
        try:
            _rounds(plan, service, faults, findings)
        except SERVER_FAILURES as error:
            service.stream.accuse("answer", f"{type(error).__name__}: {error}")
        findings.add(service.books)
    findings.facts.append(f"{service.stream.tally['reshardings']} changes of shards")
    findings.seconds = time.monotonic() - began_s
    return findings


def _rounds(
    plan: Plan,
    service: OnStreams,
    faults: dict[str, Fault],
    findings: Findings,
) -> None:
    random = Random(f"{_DRILL} {plan.seed}")
    until_s = time.monotonic() + plan.seconds
    service.server.start()
    kinesis = new_client(service.server.port, "kinesis")
    _insist(lambda: kinesis.create_stream(StreamName=STREAM, ShardCount=_SHARDS[0]))
    clients = _Clients(service, plan.seed)
    clients.start()
    try:
        while findings.rounds < plan.rounds and time.monotonic() < until_s:
            name = random.choice(list(faults))
            findings.rounds += 1
            service.await_whole()
            service.await_progress(random)
            faults[name](service, random)
            service.await_progress(random)
            _check(service, kinesis)
            plan.progress(f"{_DRILL}: round {findings.rounds}, {name}")
            if service.is_violated and not plan.keep_going:
                return
        service.await_whole()
        clients.stop()
        _check(service, kinesis)
        _check_reader(service, clients.reading)
    finally:
        clients.stop()


def _check(service: OnStreams, kinesis: Any) -> None:
    """Who reads now has all that was acknowledged before."""
    known = service.stream.known()
    reading = Reading("checker", STREAM, 0)
    while not _read_on(kinesis, reading):
        pass
    service.stream.check(reading, known)


def _check_reader(service: OnStreams, reading: Reading) -> None:
    """Who has read all the time has all of it, too."""
    kinesis = new_client(service.server.port, "kinesis")
    while not _read_on(kinesis, reading):
        pass
    service.stream.check(reading, service.stream.known())


def _read_on(kinesis: Any, reading: Reading) -> bool:
    """A page of each shard that may be read; whether nothing is behind them."""
    if not reading.parents:
        listed = _insist(lambda: kinesis.list_shards(StreamName=STREAM))
        reading.begin(listed["Shards"])
    is_at_end = True
    for shard, iterator in list(reading.waiting.items()):
        output = _insist(partial(_page, kinesis, shard, iterator))
        for record in output["Records"]:
            record["Data"] = record["Data"].decode()
        reading.take(shard, output)
        is_at_end = is_at_end and not output["Records"] and "NextShardIterator" in output
    return is_at_end


def _page(kinesis: Any, shard: int, iterator: str | None) -> Any:
    if iterator is None:
        found = kinesis.get_shard_iterator(
            StreamName=STREAM,
            ShardId=f"shardId-{shard:012}",
            ShardIteratorType="TRIM_HORIZON",
        )
        iterator = found["ShardIterator"]
    return kinesis.get_records(ShardIterator=iterator)


def _insist(call: Callable[[], Any]) -> Any:
    """Call again where the server does not answer, for minutes; what is refused is raised."""
    until_s = time.monotonic() + _FACT_S_MAX
    while True:
        try:
            return call()
        except _FAILURES as error:
            if time.monotonic() > until_s or _is_refusal(error):
                raise
        time.sleep(_PAUSE_S)  # between two tries


def _is_refusal(error: Exception) -> bool:
    return (
        isinstance(error, ClientError)
        and error.response["ResponseMetadata"]["HTTPStatusCode"] < 500
    )


class _Clients:
    """Producers, a reader that reads all the time, and an operator, each in a thread."""

    def __init__(self, service: OnStreams, seed: int) -> None:
        self.reading = Reading("reader", STREAM, 0)
        self._book = service.stream
        self._port = service.server.port
        self._seed = seed
        self._stopping = threading.Event()
        works: list[Callable[[], None]] = [self._read, self._reshard]
        works += [partial(self._produce, number) for number in range(_PRODUCERS)]
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return when all have ended."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(_FACT_S_MAX)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whoever waits for this thread is to see it
            self._book.accuse("answer", f"{type(error).__name__}: {error}")

    def _produce(self, number: int) -> None:
        random, kinesis = Random(f"{self._seed} {number}"), new_client(self._port, "kinesis")
        while not self._stopping.is_set():
            key = f"p{number}-{random.randrange(_KEYS)}"
            records = self._book.put_asked(key, random.randint(1, _RECORDS_MAX))
            entries = [{"Data": record.encode(), "PartitionKey": key} for record in records]
            try:
                output = kinesis.put_records(StreamName=STREAM, Records=entries)
            except _FAILURES as error:
                if _is_refusal(error):
                    raise
                continue
            self._book.put_answered(records, output["Records"])
            self._stopping.wait(_PAUSE_S)  # that is the load

    def _read(self) -> None:
        kinesis = new_client(self._port, "kinesis")
        while not self._stopping.is_set():
            before = len(self.reading.seen)
            _read_on(kinesis, self.reading)
            self._book.note("reads", len(self.reading.seen) - before)
            self._stopping.wait(_PAUSE_S)  # as an application does

    def _reshard(self) -> None:
        random, kinesis = Random(f"{self._seed} shards"), new_client(self._port, "kinesis")
        while not self._stopping.wait(_RESHARD_S):  # that is the load
            try:
                kinesis.update_shard_count(
                    StreamName=STREAM,
                    TargetShardCount=random.choice(_SHARDS),
                    ScalingType="UNIFORM_SCALING",
                )
            except _FAILURES as error:
                if _is_refusal(error):
                    raise
                continue
            self._book.note("reshardings")

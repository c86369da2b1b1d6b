"""Commands that need not import their program first, which is most of what a start costs.

What a fork could hide those tests show in which the system starts a server or a command: the
tutorials, `test_server_process.py`, `tests/clients`, and the drills and rehearsals of a night.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Any, Final

from tests.integration import fork_server

_ROOT: Final = Path(__file__).parents[2]
_ANSWER_BYTES: Final = 64
_COUNT_BEFORE: Final = ("LANG", "LC_", "LD_", "MALLOC_", "PYTHON")
"""Variables that count before a program runs begin so."""


class ForkServer:
    """Starts processes of a program in place of this one, with which it ends.

    `environment` is added to this process's.
    """

    def __init__(
        self,
        program: str = fork_server.TIDEGATE,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._turn = threading.Lock()
        self._variables = {**os.environ, **environment}
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", fork_server.__name__, str(theirs.fileno()), program],
                cwd=_ROOT,
                env=self._variables,
                pass_fds=[theirs.fileno()],
            )

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Whether a process of this environment is as one that the system starts."""
        changed = {*environment.items()} ^ {*self._variables.items()}
        return not any(name.startswith(_COUNT_BEFORE) for name, _ in changed)

    def ask(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        """Have a process started, as `fork_server` says; its id."""
        with self._turn:
            socket.send_fds(self._door, [json.dumps(request).encode()], files)
            answer = self._door.recv(_ANSWER_BYTES)
        assert answer, "what starts processes has ended"
        return int(answer)

    def close(self) -> None:
        self._door.close()
        self._process.wait()


class Starts:
    """Who starts processes: the system, if nobody else."""

    by: ForkServer | None = None


def starter(environment: Mapping[str, str]) -> ForkServer | None:
    """Who starts a process of this environment in place of the system."""
    server = Starts.by
    return server if server is not None and server.can_start(environment) else None


class Forked:
    """The program with these arguments: what tests ask of a subprocess.Popen, and no more.

    It writes to files that are open here; without one for its output, that is a pipe.
    """

    def __init__(  # noqa: PLR0913 - what a process has
        self,
        server: ForkServer,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdout: int | None,
        stderr: int,
        folder: Path = _ROOT,
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self._ended, ending = os.pipe()
        theirs = stdout
        if theirs is None:
            reading, theirs = os.pipe()
            self.stdout = os.fdopen(reading)
        request = {"arguments": arguments, "variables": {**environment}, "folder": str(folder)}
        try:
            self.pid = server.ask(request, (0, theirs, stderr, ending))
        finally:
            os.close(ending)
            if stdout is None:
                os.close(theirs)

    def poll(self) -> int | None:
        """The exit code, if it has ended; negative: the signal that ended it."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def terminate(self) -> None:
        """Tell it to stop, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        if poll.poll(None if timeout_s is None else timeout_s * 1000):
            told = os.read(self._ended, fork_server.STATUS_BYTES)
            assert told, "what starts processes has ended"
            os.close(self._ended)
            self.returncode = int.from_bytes(told, signed=True)
        return self.returncode


def run(
    server: ForkServer,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    folder: Path = _ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with what it wrote. Raises subprocess.TimeoutExpired."""
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        files = {"stdout": output.fileno(), "stderr": errors.fileno()}
        process = Forked(server, arguments, environment, folder=folder, **files)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            raise
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())

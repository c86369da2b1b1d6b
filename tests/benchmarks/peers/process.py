"""A peer in a process of its own."""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.benchmarks.server_process import STOP_S_MAX, await_listener
from tests.rehearsal.processes import Program

DRAIN_S_MAX: Final = 15.0
"""How long a peer may take, after a run, to finish what it has begun."""


@dataclass(slots=True)
class PeerProcess:
    """Runs a program; it is ended with all that it started."""

    program: Program
    log: Path
    process: subprocess.Popen[bytes] | None = None
    drain_s: float = DRAIN_S_MAX

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.program.port

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return self.process.pid if self.process else 0

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.program.command,
                cwd=self.program.folder,
                env={**os.environ, **self.program.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            await_listener(self.process, self.port, self.log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        assert self.process is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            # It may be gone already, which then is what was wanted.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S_MAX)
                break
        self.process = None

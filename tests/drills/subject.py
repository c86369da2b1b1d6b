"""A server under drill: its process, its queue, and the books about it."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.benchmarks.server_process import LAG_S, ServerError, ServerProcess
from tests.drills.caller import Caller, LostConnectionError, RefusedError
from tests.drills.content import MIXED, Sizes
from tests.drills.drill import Plan
from tests.drills.ledger import Ledger

QUEUE: Final = "drill"
SERVER_FAILURES: Final = (ServerError, RefusedError, LostConnectionError)
"""What a drill's own calls raise when the server does not start or does not answer as it should."""


@dataclass
class Subject:
    """Serves the folder `data`, which may lie on a file system that comes and goes.

    `fault` names a planted fault (tests/drills/planted). `parked` are messages with a long lease,
    and their receipt handles.
    """

    name: str
    data: Path
    log: Path
    fault: str = ""
    sizes: Sizes = MIXED
    ledger: Ledger = field(init=False)
    server: ServerProcess = field(init=False)
    parked: dict[int, str] = field(default_factory=dict)
    _queue_exists: bool = False

    @classmethod
    def of(cls, plan: Plan, drill: str, name: str, folder: Path, sizes: Sizes = MIXED) -> "Subject":
        """A server of a drill, with its data in a folder."""
        return cls(name, folder / name, plan.folder / f"{drill}-{name}.log", plan.fault, sizes)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.name, self.sizes)
        wrapper = (sys.executable, "-m", "tests.drills.planted", self.fault) if self.fault else ()
        options = ("--log-level", "error", "--lag", LAG_S)
        self.server = ServerProcess(self.data, self.log, options, wrapper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.halt()

    def halt(self) -> None:
        """End the server, if it has not ended yet."""
        if self.server.process is not None:
            self.server.process.kill()
            self.server.process.wait()
            self.server.process = None

    def process_state(self) -> str:
        """Whether the server's process runs, in words."""
        process = self.server.process
        code = process.poll() if process is not None else None
        return "runs" if process is not None and code is None else f"ended with {code}"

    @property
    def queue_url(self) -> str:
        """URL of the queue that all work is about."""
        return self.server.queue_url(QUEUE)

    def start(self) -> None:
        """Start the server; make the queue if that has not been done. Raises ServerError."""
        self.server.start()
        if not self._queue_exists:
            with Caller(self.server.port) as caller:
                caller.insist("CreateQueue", QueueName=QUEUE)
            self._queue_exists = True


def for_each(subjects: Sequence[Subject], work: Callable[[Subject], None]) -> None:
    """Do something about all servers, side by side. Raises what one of them raises."""
    with ThreadPoolExecutor(len(subjects)) as pool:
        list(pool.map(work, subjects))

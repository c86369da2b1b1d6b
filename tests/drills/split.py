"""A hot FIFO queue whose partitions are split under load, while the server is killed or not."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from string import ascii_lowercase
from typing import Final

from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import FifoBook
from tests.drills.caller import Caller
from tests.drills.consumers import VISIBILITY_S, Workers
from tests.drills.drill import Findings, Plan
from tests.drills.subject import SERVER_FAILURES

_DRILL: Final = "split"
_CELLS: Final = 3
_GROUPS: Final = ascii_lowercase[:8]
_PAUSE_S: Final = 0.05
_ATTRIBUTES: Final = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
_SPLITS: Final = (1, 2)
"""So many of them a round waits for."""

_SPLIT_S_MAX: Final = 60.0
_LOOK_S: Final = 0.1
_MORE: Final = 40
_MORE_S_MAX: Final = 30.0
_DRAIN_S_MAX: Final = 4 * VISIBILITY_S


def split(plan: Plan) -> Findings:
    """Split a new queue once or twice in each round."""
    findings = Findings(_DRILL, facts=[f"{_CELLS} cells"])
    random = Random(f"{_DRILL} {plan.seed}")
    began_s = time.monotonic()
    splits = kills = 0
    with _server(plan) as server:
        while findings.rounds < plan.rounds and time.monotonic() < began_s + plan.seconds:
            book = FifoBook(f"drill-{findings.rounds}.fifo", _GROUPS)
            findings.rounds += 1
            wanted, is_killed = random.choice(_SPLITS), random.random() < 1 / 2
            try:
                _round(server, book, wanted, is_killed=is_killed)
            except SERVER_FAILURES as error:
                book.accuse("answer", f"{type(error).__name__}: {error}")
            splits, kills = splits + wanted, kills + is_killed
            findings.add([book])
            if book.violations and not plan.keep_going:
                break
    findings.facts.append(f"{splits} splits, the server killed in {kills} of them")
    findings.seconds = time.monotonic() - began_s
    return findings


@contextmanager
def _server(plan: Plan) -> Iterator[ServerProcess]:
    """A server whose manager splits what has little to do."""
    folder = plan.folder / _DRILL
    folder.mkdir()
    options = ("--log-level", "warning", "--cells", str(_CELLS))
    fault = (plan.fault,) if plan.fault else ()
    wrapper = (sys.executable, "-m", "tests.drills.hurried", str(folder), *fault)
    log = plan.folder / f"{_DRILL}.log"
    server = ServerProcess(folder / "data", log, options, wrapper)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(folder)


def _round(server: ServerProcess, book: FifoBook, wanted: int, *, is_killed: bool) -> None:
    with Caller(server.port) as caller:
        caller.call("CreateQueue", QueueName=book.name, Attributes=_ATTRIBUTES)
    workers = Workers([server], [book], _PAUSE_S)
    try:
        if is_killed:
            # What the manager remembers ends with the server; what it did does not.
            _await_splits(server, book, 1)
            server.kill()
            server.start()
            wanted -= 1
        _await_splits(server, book, wanted)
        for what in ("sends", "deletes"):
            if not book.wait_for(what, book.tally[what] + _MORE, _MORE_S_MAX):
                book.accuse("answer", f"no {what} in {_MORE_S_MAX:.0f} s after a split")
        workers.drain(_DRAIN_S_MAX)
        book.end()
    finally:
        workers.stop()


def _await_splits(server: ServerProcess, book: FifoBook, wanted: int) -> None:
    """Return when the manager tells of so many splits of the queue since the server's start."""
    until_s = time.monotonic() + _SPLIT_S_MAX
    while time.monotonic() < until_s and not book.violations:
        with Caller(server.port) as caller:
            told = caller.call("TidegateListCells").get("ManagerActivities", [])
        if sum(f"split {book.name}" in line and "done" in line for line in told) >= wanted:
            return
        time.sleep(_LOOK_S)  # between two looks at what the manager does
    book.accuse("answer", f"fewer than {wanted} splits in {_SPLIT_S_MAX:.0f} s")

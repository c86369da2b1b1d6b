"""A FIFO queue whose partitions are split under load, while the server is killed or not.

The manager is asked for each split by what heartbeats tell: how much the machine gets done has no
say in that.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from string import ascii_lowercase
from typing import Final

from control_plane.core.fifo_generations import HIGH_THROUGHPUT_PARTITIONS
from control_plane.places.items import FifoAppends
from tests.benchmarks.server_process import FIFO_HIGH_THROUGHPUT, ServerProcess
from tests.benchmarks.wire import ACCOUNT
from tests.drills.books import FifoBook
from tests.drills.caller import Caller
from tests.drills.consumers import REGION, Workers
from tests.drills.drill import Findings, Plan
from tests.drills.hurried import HURRIED, LOADS
from tests.drills.subject import SERVER_FAILURES

_DRILL: Final = "split"
_CELLS: Final = 3
_GROUPS: Final = ascii_lowercase[:8]
_PAUSE_S: Final = 0.05
_SPLITS: Final = (1, 2)
"""So many of them a round asks for."""

_FACT_S_MAX: Final = 120.0
_LOOK_S: Final = 0.1
_MORE: Final = 40


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
    """A server that is told which queues are hot: none so far."""
    folder = plan.folder / _DRILL
    folder.mkdir()
    (folder / LOADS).write_text("[]")
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
        caller.insist("CreateQueue", QueueName=book.name, Attributes=FIFO_HIGH_THROUGHPUT)
    workers = Workers([server], [book], _PAUSE_S)
    try:
        _await_progress(book)
        if is_killed:
            # What the manager remembers ends with the server; what it did does not.
            _await_splits(server, book, 1, before=0)
            server.kill()
            server.start()
        _await_splits(server, book, wanted, before=int(is_killed))
        _await_progress(book)
        workers.drain()
        book.end()
    finally:
        workers.stop()


def _await_progress(book: FifoBook) -> None:
    """Return when clients have done some more: from then on a stock of messages is there."""
    for what in ("sends", "deletes"):
        enough = book.tally[what] + _MORE
        if not book.wait_for(what, enough, _FACT_S_MAX) and not book.violations:
            book.accuse("answer", f"no {what} in {_FACT_S_MAX:.0f} s")


def _await_splits(server: ServerProcess, book: FifoBook, wanted: int, *, before: int) -> None:
    """Have the queue split so often in all; return when the manager tells of those.

    Of those `before` the server's start it does not.
    """
    _ask(server, book, wanted)
    until_s = time.monotonic() + _FACT_S_MAX
    while time.monotonic() < until_s and not book.violations:
        with Caller(server.port) as caller:
            told = caller.insist("TidegateListCells").get("ManagerActivities", [])
        if sum(f"split {book.name}" in line and "done" in line for line in told) >= wanted - before:
            return
        time.sleep(_LOOK_S)  # between two looks at what the manager does
    if not book.violations:
        book.accuse("answer", f"fewer than {wanted} splits in {_FACT_S_MAX:.0f} s")


def _ask(server: ServerProcess, book: FifoBook, splits: int) -> None:
    """Let heartbeats tell of so many sends that the queue has to be split so often, no more."""
    partitions = HIGH_THROUGHPUT_PARTITIONS * 2 ** (splits - 1)
    sends_per_s = HURRIED.split_appends_per_s * partitions
    loads = server.data.with_name(LOADS)
    written = loads.with_suffix(".new")
    written.write_text(json.dumps([FifoAppends(ACCOUNT, REGION, book.name, sends_per_s)]))
    written.replace(loads)

"""A server with several cells, one of which fails under load: it is lost, dead, full, or all stop.

What clients see of that is waits, and on standard queues a few messages twice.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import Book, FifoBook, StandardBook
from tests.drills.caller import Caller
from tests.drills.consumers import GROUPS, VISIBILITY_S, Workers
from tests.drills.disk import Disk, reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.full_disk import take_all_room
from tests.drills.subject import SERVER_FAILURES

CELLS: Final = 3
STANDARD, FIFO = "drill", "drill.fifo"
_DRILL: Final = "several-cells"
_DISK_BYTES: Final = 192 * 1024 * 1024
_PROGRESS_S_MAX: Final = 60.0
_WHOLE_S_MAX: Final = 180.0
_LOOK_S: Final = 0.25
_NOTED: Final = (20, 120)
"""How much is noted of each queue before a failure, while it lasts, and after it."""

_SAFE_S: Final = 60.0
"""The manager gives up one cell in that time; another one that is lost meanwhile is waited for."""
_SOON: Final = " within a minute of another cell"

_STOPPED_S: Final = (1.0, 6.0)
_DRAIN_S_MAX: Final = 4 * VISIBILITY_S


@dataclass
class Service:
    """The server, its cells' disks (none where folders have to do), and its clients' books."""

    server: ServerProcess
    disks: Sequence[Disk]
    standard: StandardBook = field(default_factory=lambda: StandardBook(STANDARD))
    fifo: FifoBook = field(default_factory=lambda: FifoBook(FIFO, GROUPS))
    lost_s: float = 0.0
    is_soon: bool = False
    """Whether the last cell was lost soon after another one."""

    def note_loss(self, now_s: float) -> None:
        """A cell is lost now."""
        self.is_soon, self.lost_s = now_s < self.lost_s + _SAFE_S, now_s
        for book in self.books:
            book.cell_lost(now_s)

    @property
    def books(self) -> tuple[Book, Book]:
        return self.standard, self.fifo

    @property
    def is_violated(self) -> bool:
        return any(book.violations for book in self.books)

    def call(self, operation: str, **params: object) -> dict[str, Any]:
        """Ask the server. Raises RefusedError, LostConnectionError."""
        with Caller(self.server.port) as caller:
            return caller.call(operation, **params)

    def await_progress(self, random: Random) -> None:
        """Return when clients of both queues have noted enough."""
        more = random.randint(*_NOTED)
        for book in self.books:
            for what in ("sends", "deletes"):
                enough = book.tally[what] + more
                if not book.wait_for(what, enough, _PROGRESS_S_MAX) and not book.violations:
                    book.accuse("answer", f"no {what} in {_PROGRESS_S_MAX:.0f} s")

    def await_whole(self) -> None:
        """Return when every group has all its members again, and all of them everything."""
        until_s = time.monotonic() + _WHOLE_S_MAX
        groups: list[dict[str, Any]] = []
        while time.monotonic() < until_s and not self.is_violated:
            groups = self.call("TidegateListCells")["PlacementGroups"]
            if all(_is_whole(group) for group in groups):
                return
            time.sleep(_LOOK_S)  # between two looks at what the manager does
        broken = [group for group in groups if not _is_whole(group)][:2]
        self.standard.accuse("answer", f"not whole after {_WHOLE_S_MAX:.0f} s: {broken}")


def _is_whole(group: dict[str, Any]) -> bool:
    members = group["Members"]
    wanted = min(group["ReplicationFactor"], CELLS)
    return len(members) == wanted and all(member["State"] == "full" for member in members)


def _name(number: int) -> str:
    return f"cell-{number + 1}"


Fault = Callable[[Service, Random], None]


def failed(service: Service, random: Random) -> None:
    """An operator fails a cell, and restores it."""
    cell = _name(random.randrange(CELLS))
    _cell_lost(service)
    service.call("TidegateFailCell", CellName=cell)
    service.await_progress(random)
    service.call("TidegateRestoreCell", CellName=cell)


def dead_disk(service: Service, random: Random) -> None:
    """A cell's disk is gone from one moment to the next; later it is mounted as it was then."""
    number = random.randrange(CELLS)
    disk = service.disks[number]
    _cell_lost(service)
    disk.cut(random.choice(("nothing", "journal", "everything")))
    service.await_progress(random)
    service.call("TidegateFailCell", CellName=_name(number))
    disk.unmount()
    disk.mount()
    service.call("TidegateRestoreCell", CellName=_name(number))


def full_disk(service: Service, random: Random) -> None:
    """A cell's disk is full, and has room again later."""
    foreign = random.choice(service.disks).mount_point / "foreign"
    _cell_lost(service)
    take_all_room(foreign)
    service.await_progress(random)
    foreign.unlink()


def killed(service: Service, random: Random) -> None:  # noqa: ARG001 - a Fault
    """End the process, which has all cells, with kill -9."""
    service.server.kill()
    service.server.start()


def stopped(service: Service, random: Random) -> None:
    """SIGSTOP, and the process goes on a while later."""
    os.kill(service.server.pid, signal.SIGSTOP)
    time.sleep(random.uniform(*_STOPPED_S))  # that is what is drilled
    os.kill(service.server.pid, signal.SIGCONT)


FAULTS: Final[dict[str, Fault]] = {"failed": failed, "killed": killed, "stopped": stopped}
ON_DISKS: Final[dict[str, Fault]] = {"dead disk": dead_disk, "full disk": full_disk}


def _cell_lost(service: Service) -> None:
    service.note_loss(time.time())


def several_cells(plan: Plan) -> Findings:
    """Let one cell after the other fail under load, in ways that the seed chooses."""
    findings = Findings(_DRILL, facts=[f"{CELLS} cells"])
    began_s = time.monotonic()
    faults = dict(FAULTS)
    reason = reason_to_skip(plan.folder)
    if reason:
        findings.facts.append(f"no failing disks: {reason}")
    else:
        faults |= ON_DISKS
    with _service(plan, with_disks=not reason) as service:
        waits: dict[str, list[float]] = {}
        try:
            _rounds(plan, service, faults, findings, waits)
        except SERVER_FAILURES as error:
            service.standard.accuse("answer", f"{type(error).__name__}: {error}")
        findings.add(service.books)
    again = {what: n for what, n in sorted(findings.tally.items()) if "lost" in what}
    findings.facts += [f"{what} {count:,}" for what, count in again.items()]
    findings.facts += [_longest(fault, took_s) for fault, took_s in waits.items()]
    findings.seconds = time.monotonic() - began_s
    return findings


def _longest(fault: str, took_s: list[float]) -> str:
    return f"{fault} {len(took_s)} times: a call waited {max(took_s):.1f} s at most"


@contextmanager
def _service(plan: Plan, *, with_disks: bool) -> Iterator[Service]:
    """A server that is not started yet."""
    with ExitStack() as stack:
        folders = [plan.folder / f"disk-{number}" for number in range(CELLS)]
        disks: list[Disk] = []
        for folder in folders:
            folder.mkdir()
            if with_disks:
                disks.append(stack.enter_context(Disk(folder, _DISK_BYTES)))
        paths = [disk.mount_point for disk in disks] or folders
        cells = ",".join(str(path / "cell") for path in paths)
        options = ("--log-level", "warning", "--cells", str(CELLS), "--cell-data", cells)
        log = plan.folder / f"{_DRILL}.log"
        server = ServerProcess(plan.folder / "data", log, options)
        try:
            yield Service(server, disks)
        finally:
            if server.process is not None:
                server.process.kill()
                server.process.wait()


def _rounds(
    plan: Plan,
    service: Service,
    faults: dict[str, Fault],
    findings: Findings,
    waits: dict[str, list[float]],
) -> None:
    random = Random(f"{_DRILL} {plan.seed}")
    until_s = time.monotonic() + plan.seconds
    service.server.start()
    attributes = {"FifoQueue": "true"}
    service.call("CreateQueue", QueueName=STANDARD)
    service.call("CreateQueue", QueueName=FIFO, Attributes=attributes)
    urls = (service.server.queue_url(STANDARD), service.server.queue_url(FIFO))
    workers = Workers(service.server.port, urls, (service.standard, service.fifo))
    try:
        while findings.rounds < plan.rounds and time.monotonic() < until_s:
            name = random.choice(list(faults))
            findings.rounds += 1
            longest = _round(service, faults[name], random)
            fault = name + (_SOON if service.is_soon else "")
            if longest:
                waits.setdefault(fault, []).append(max(longest.values()))
            shown = ", ".join(f"{what} {took_s:.1f} s" for what, took_s in longest.items())
            plan.progress(f"{_DRILL}: round {findings.rounds}, {fault}: {shown}")
            if service.is_violated and not plan.keep_going:
                return
        workers.drain(_DRAIN_S_MAX)
        for book in service.books:
            book.end()
    finally:
        workers.stop()


def _round(service: Service, fault: Fault, random: Random) -> dict[str, float]:
    """One failure, and everything well again; how long calls of each kind waited meanwhile."""
    service.await_whole()
    service.await_progress(random)
    for book in service.books:
        book.take_waits()
    if service.is_violated:
        return {}
    service.is_soon = False
    fault(service, random)
    service.await_progress(random)
    service.await_whole()
    return {what: took_s for book in service.books for what, took_s in book.take_waits().items()}

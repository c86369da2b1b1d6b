"""A server with several cells, one of which fails under load: it is lost, dead, full, or all stop.

What clients see of that is waits, and on standard queues a few messages twice.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.benchmarks.server_process import ServerProcess
from tests.drills.consumers import Workers
from tests.drills.disk import Disk, reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.full_disk import take_all_room
from tests.drills.service import FIFO, STANDARD, Service
from tests.drills.subject import SERVER_FAILURES

CELLS: Final = 3
_DRILL: Final = "several-cells"
_DISK_BYTES: Final = 1024 * 1024 * 1024
"""The file is sparse. Where a cell is lost every minute nothing is collected of what was deleted: a
disk of 192 MiB was full after ten minutes, and its cell rightly got no copies any more."""

_PAUSE_S: Final = 0.05
"""However fast a machine is, it must not fill the disks: it took six minutes without a pause."""

_SOON: Final = " within a minute of another cell"

_STOPPED_S: Final = (1.0, 6.0)


@dataclass
class OnDisks(Service):
    """A server whose cells have a disk each; none where folders have to do."""

    disks: Sequence[Disk] = ()

    def victim(self, random: Random) -> int:
        """The number of the cell that fails next."""
        return random.randrange(CELLS)


def _name(number: int) -> str:
    return f"cell-{number + 1}"


Fault = Callable[[OnDisks, Random], None]


def failed(service: OnDisks, random: Random) -> None:
    """An operator fails a cell, and restores it."""
    cell = _name(service.victim(random))
    service.note_loss()
    service.insist("TidegateFailCell", CellName=cell)
    service.await_progress(random)
    service.note_return()
    service.insist("TidegateRestoreCell", CellName=cell)


def dead_disk(service: OnDisks, random: Random) -> None:
    """A cell's disk is gone from one moment to the next; later it is mounted as it was then."""
    number = service.victim(random)
    disk = service.disks[number]
    service.note_loss()
    disk.cut(random.choice(("nothing", "journal", "everything")))
    service.await_progress(random)
    service.insist("TidegateFailCell", CellName=_name(number))
    disk.unmount()
    disk.mount()
    service.note_return()
    service.insist("TidegateRestoreCell", CellName=_name(number))


def full_disk(service: OnDisks, random: Random) -> None:
    """A cell's disk is full, and has room again later."""
    foreign = random.choice(service.disks).mount_point / "foreign"
    service.note_loss()
    take_all_room(foreign)
    service.await_progress(random)
    foreign.unlink()


def killed(service: OnDisks, random: Random) -> None:  # noqa: ARG001 - a Fault
    """End the process, which has all cells, with kill -9."""
    service.server.kill()
    service.server.start()


def stopped(service: OnDisks, random: Random) -> None:
    """SIGSTOP, and the process goes on a while later."""
    os.kill(service.server.pid, signal.SIGSTOP)
    time.sleep(random.uniform(*_STOPPED_S))  # that is what is drilled
    os.kill(service.server.pid, signal.SIGCONT)


FAULTS: Final[dict[str, Fault]] = {"failed": failed, "killed": killed, "stopped": stopped}
ON_DISKS: Final[dict[str, Fault]] = {"dead disk": dead_disk, "full disk": full_disk}


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
    with on_disks(plan, _DRILL, with_disks=not reason) as service:
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
def on_disks(
    plan: Plan, name: str, *, with_disks: bool, made: type[OnDisks] = OnDisks
) -> Iterator[OnDisks]:
    """A server that is not started yet, with a log of this name."""
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
        log = plan.folder / f"{name}.log"
        wrapper = (sys.executable, "-m", "tests.drills.planted", plan.fault) if plan.fault else ()
        server = ServerProcess(plan.folder / "data", log, options, wrapper)
        try:
            yield made([server], CELLS, disks=disks)
        finally:
            if server.process is not None:
                server.process.kill()
                server.process.wait()


def _rounds(
    plan: Plan,
    service: OnDisks,
    faults: dict[str, Fault],
    findings: Findings,
    waits: dict[str, list[float]],
) -> None:
    random = Random(f"{_DRILL} {plan.seed}")
    until_s = time.monotonic() + plan.seconds
    service.server.start()
    attributes = {"FifoQueue": "true"}
    service.insist("CreateQueue", QueueName=STANDARD)
    service.insist("CreateQueue", QueueName=FIFO, Attributes=attributes)
    workers = Workers([service.server], (service.standard, service.fifo), _PAUSE_S)
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
        workers.drain()
        for book in service.books:
            book.end()
    finally:
        workers.stop()


def _round(service: OnDisks, fault: Fault, random: Random) -> dict[str, float]:
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

"""How long nobody is served when a cell is lost: several queues under steady load, measured.

Everything is well before each loss, and checked as in the drills whose failures these are. What is
measured are the waits of clients that repeat their calls.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.drills import several_cells, several_tables
from tests.drills.books import FifoBook, StandardBook
from tests.drills.consumers import Workers
from tests.drills.disk import reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.engines import EngineError
from tests.drills.engines import reason_to_skip as reason_without_engines
from tests.drills.service import Service
from tests.drills.subject import SERVER_FAILURES
from tests.drills.unavailability import (
    BOUND_S,
    Call,
    distribution,
    longest_call_s,
    unavailable_s,
    verdict,
)

QUEUES: Final = 3
"""Standard ones, and as many FIFO ones."""

_GROUPS: Final = ("a", "b")
_PAUSE_S: Final = 0.3
_NOTED: Final = (10, 20)


@dataclass(slots=True)
class Times:
    """Of each loss and queue: how long it was unavailable, by when that was."""

    taking_over_s: dict[str, list[float]] = field(default_factory=dict)
    """Until the cell came back, by what had befallen it."""

    joining_s: list[float] = field(default_factory=list)
    """From then on until it had everything again."""

    call_s: float = 0.0
    """The longest that a single call waited."""

    loads: list[float] = field(default_factory=list)

    def figures(self) -> list[str]:
        """Lines for people."""
        every = [time_s for times_s in self.taking_over_s.values() for time_s in times_s]
        if not every:
            return []
        lines = [
            f"a queue unavailable after {fault}: {distribution(times_s)} ({len(times_s)} times)"
            for fault, times_s in self.taking_over_s.items()
        ]
        return [
            *lines,
            f"a queue unavailable after any of them: {distribution(every)} ({len(every)} times)",
            f"p99 of {BOUND_S:.0f} s at most: {verdict(every)}",
            f"while the cell is copied to again: {distribution(self.joining_s)}",
            f"the longest call waited {self.call_s:.1f} s",
            f"load {min(self.loads):.0f} to {max(self.loads):.0f} on {os.cpu_count()} cores",
        ]


class Deciding(several_cells.OnDisks):
    """A server of which cells fail that decide for some groups: that is what is taken over."""

    def victim(self, random: Random) -> int:
        """One that decides for any."""
        deciding = sorted({group["Members"][0]["CellName"] for group in self.groups()})
        return int(random.choice(deciding).rpartition("-")[2]) - 1


def lost_cell(plan: Plan) -> Findings:
    """Fail an embedded cell as an operator does, and cut off its disk, in turns."""
    findings = Findings("lost-cell", facts=[f"{several_cells.CELLS} cells, {2 * QUEUES} queues"])
    faults: dict[str, Callable[[Any, Random], None]] = {"failed": several_cells.failed}
    reason = reason_to_skip(plan.folder)
    if reason:
        findings.facts.append(f"no dead disks: {reason}")
    else:
        faults["dead disk"] = several_cells.dead_disk
    with several_cells.on_disks(plan, findings.drill, with_disks=not reason, made=Deciding) as one:
        _measure(plan, findings, one, faults, one.server.start)
    return findings


def lost_table(plan: Plan) -> Findings:
    """Kill a DynamoDB engine, and stop it, in turns; its queues are served by two servers."""
    reason = reason_without_engines()
    if reason:
        return Findings("lost-table", skipped=reason)
    facts = [f"{len(several_tables.TABLES)} engines, {2 * QUEUES} queues"]
    findings = Findings("lost-table", facts=facts)
    faults = {
        "killed": _of_any_table(several_tables.killed),
        "stopped": _of_any_table(several_tables.stopped),
    }
    with several_tables.on_tables(plan, findings.drill) as service:
        _measure(plan, findings, service, faults, lambda: None)
    return findings


def _of_any_table(fault: several_tables.Fault) -> several_tables.Fault:
    """The fault of an engine that may be lost; the first has the registry."""

    def befall(service: several_tables.OnTables, random: Random) -> None:
        service.victim = random.choice(several_tables.TABLES[1:])
        fault(service, random)

    return befall


def _measure(
    plan: Plan,
    findings: Findings,
    service: Service,
    faults: Mapping[str, Callable[[Any, Random], None]],
    start: Callable[[], None],
) -> None:
    """Lose a cell in each round, and note the times."""
    began_s, times = time.monotonic(), Times()
    try:
        start()
        _make_queues(service)
        _rounds(plan, findings, service, faults, times)
    except (*SERVER_FAILURES, EngineError) as error:
        service.standard.accuse("answer", f"{type(error).__name__}: {error}")
    findings.add(service.books)
    again = {what: n for what, n in sorted(findings.tally.items()) if "lost" in what}
    findings.facts += [f"{what} {count:,}" for what, count in again.items()]
    findings.facts.append(f"out of order {_count(findings, 'order')}")
    findings.figures = times.figures()
    findings.seconds = time.monotonic() - began_s


def _count(findings: Findings, kind: str) -> int:
    return sum(violation.kind == kind for violation in findings.violations)


def _make_queues(service: Service) -> None:
    numbers = range(QUEUES)
    standard = [StandardBook(f"lost-{number}") for number in numbers]
    fifo = [FifoBook(f"lost-{number}.fifo", _GROUPS) for number in numbers]
    for book in (*standard, *fifo):
        attributes = {"FifoQueue": "true"} if isinstance(book, FifoBook) else {}
        service.insist("CreateQueue", QueueName=book.name, Attributes=attributes)
    service.standard, service.fifo = standard[0], fifo[0]
    service.others = (*standard[1:], *fifo[1:])
    service.noted = _NOTED
    for book in service.books:
        book.calls = []


def _rounds(
    plan: Plan,
    findings: Findings,
    service: Service,
    faults: Mapping[str, Callable[[Any, Random], None]],
    times: Times,
) -> None:
    random = Random(f"{findings.drill} {plan.seed}")
    until_s = time.monotonic() + plan.seconds
    workers = Workers(service.servers, service.books, _PAUSE_S)
    names = sorted(faults)
    try:
        while findings.rounds < plan.rounds and time.monotonic() < until_s:
            name = names[findings.rounds % len(names)]
            findings.rounds += 1
            _lose(plan, service, name, faults[name], random, times)
            if service.is_violated and not plan.keep_going:
                return
        workers.drain()
        for book in service.books:
            book.end()
    finally:
        workers.stop()


def _lose(  # noqa: PLR0913, PLR0917 - one loss: where, which, and where its times go
    plan: Plan,
    service: Service,
    name: str,
    fault: Callable[[Any, Random], None],
    random: Random,
    times: Times,
) -> None:
    service.await_whole()
    service.await_progress(random)
    for book in service.books:
        book.calls = []
    if service.is_violated:
        return
    fault(service, random)
    service.await_progress(random)
    service.await_whole()
    whole_s = time.time()
    found = {book.name: _calls(book) for book in service.books}
    lost_s, returned_s = service.lost_s, service.returned_s
    over = {one: unavailable_s(calls, lost_s, returned_s) for one, calls in found.items()}
    times.taking_over_s.setdefault(name, []).extend(over.values())
    joining = [unavailable_s(calls, returned_s, whole_s) for calls in found.values()]
    times.joining_s += joining
    longest_s = max(longest_call_s(calls, lost_s, whole_s) for calls in found.values())
    times.call_s = max(times.call_s, longest_s)
    times.loads.append(os.getloadavg()[0])
    plan.progress(
        f"{name}{', soon after another one' if service.is_soon else ''}: unavailable for"
        f" {min(over.values()):.1f} to {max(over.values()):.1f} s, while it is copied to"
        f" {max(joining):.1f} s at most; whole after {whole_s - lost_s:.0f} s"
    )


def _calls(book: StandardBook | FifoBook) -> Sequence[Call]:
    with book.changed:
        return tuple(book.calls or ())

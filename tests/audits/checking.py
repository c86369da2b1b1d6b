"""Histories and alterations put before the audit: what it wrongly says, or leaves out."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from subprocess import PIPE
from tempfile import NamedTemporaryFile
from threading import Timer
from typing import Any, Final

from data_plane.ports import Item, Key
from tests.audits.alterations import ELSEWHERE, Expected, Forger, fill, queues
from tests.audits.histories import STEPS, Histories, steady
from tests.audits.service import ServiceInTime
from tests.integration.server_process import ROOT

SPARK: Final = ROOT / ".venvs/spark/bin/python"
ALTERATIONS_MAX: Final = 250
"""In one service, each in a queue of its own."""

HISTORIES_MAX: Final = 10
"""In one service, each with queues of its own."""

_SETTLED_S: Final = 100
"""Copies are compared as of a minute before the last exports."""

_AUDIT_S_MAX: Final = 600
_OF_KILLS: Final = frozenset({"writer_cut_off", "deletes_not_metered", "copy_behind"})
"""Notes that are true of a server that was killed: what it had counted of reads is lost, as are
deletes that it had not told other cells yet."""


@dataclass
class Case:
    """A service to be audited, and what the audit has to say of it."""

    folder: Path
    was_killed: bool = False
    expected: list[tuple[str, list[Expected]]] = field(default_factory=list)
    """What was altered, by what, and the findings that have to be there."""

    def report(self) -> dict[str, Any]:
        """Of the audit, which has been made."""
        (path,) = (self.folder / "out").rglob("report.json")
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    def problems(self) -> list[str]:
        """What the audit says that it should not, and leaves out."""
        findings = self.report()["findings"]
        altered = {its.queue for _, each in self.expected for its in each} | set(ELSEWHERE)
        allowed = _OF_KILLS if self.was_killed else frozenset[str]()
        wrong = [
            f"{self.folder.name}: a false alarm: {its}"
            for its in findings
            if its["kind"] not in allowed and not (self.expected and its["queue"] in altered)
        ]
        missed = [
            f"{self.folder.name}: {what} was not found: {its}"
            for what, each in self.expected
            for its in each
            if not its.is_in(findings)
        ]
        return wrong + missed


def steady_case(folder: Path, seconds: int) -> Case:
    """A message each half second for so long."""

    async def run() -> None:
        service = ServiceInTime(folder)
        await steady(service, seconds)
        await service.export()

    asyncio.run(run())
    return Case(folder)


def healthy_case(folder: Path, seed: int, cells: int = 1, histories: int = 1) -> Case:
    """Random histories in which nothing goes wrong; with several cells half as long."""

    async def run() -> bool:
        its = Histories(folder, seed, cells, histories)
        await its.run(STEPS if cells == 1 else STEPS // 2)
        await its.service.export()
        return its.kills > 0

    return Case(folder, asyncio.run(run()))


def altered_case(folder: Path, seed: int, alterations: int, cells: int = 1) -> Case:
    """So many alterations of what a service has stored, between two exports.

    With several cells each is of one copy, by turns.
    """
    names = queues(alterations)
    case = Case(folder, was_killed=True)

    async def run() -> None:
        service = ServiceInTime(folder, seed, cells)
        before: set[Key] = set()
        await fill(service, names, before, _SETTLED_S if cells > 1 else 0)
        at = count()

        def forged(items: list[Item]) -> list[Item]:
            cell = next(at)
            forger = Forger(dict(items), before, Random(f"{seed} {cell}"), has_copies=cells > 1)
            planted = forger.plant(names[cell::cells])
            case.expected += forger.expected
            return planted

        await service.export(forged)

    asyncio.run(run())
    return case


def audit_all(cases: Sequence[Case], told: Callable[[Case], None] = lambda _: None) -> None:
    """Audit them one after another, in one JVM; each is `told` when it is done."""
    command = [str(SPARK), "-m", "tests.spark.audits", *(str(case.folder) for case in cases)]
    limit_s = _AUDIT_S_MAX * (1 + len(cases))
    with (
        NamedTemporaryFile() as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=PIPE, stderr=errors, text=True) as ran,
        # What hangs ends, and so do the lines of it.
        ended_after(ran, limit_s),
    ):
        assert ran.stdout is not None
        left = list(cases)
        for _line in ran.stdout:
            told(left.pop(0))
        code = ran.wait()
        assert code == 0, Path(errors.name).read_text()[-4_000:]


@contextmanager
def ended_after(process: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    """Kill a process that takes longer than that."""
    timer = Timer(limit_s, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

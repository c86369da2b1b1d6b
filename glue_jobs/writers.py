"""Whose records a period's files have: those that cannot be their writer's are put aside.

A writer is known by its mark, by that of a server one of whose desks it is, or by the server that
took its place. Of a known one, records belong to the time in which it was at work, and to the
numbers that it gave: docs/usage.md, *The register*.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from glue_jobs.identities import Run, Window
from glue_jobs.records import Mark, minute_writer
from glue_jobs.screening import Screened

CLOCK_MINUTES: Final = 60
"""A clock that was set may say of a record so much more or less than of its writer's mark."""

NONE_FORGED: Final[Mapping[str, str]] = {}

_SANDBOX_MINUTES: Final = 24 * 60
"""A sandbox that is asked so long after its first request goes on as another writer."""


@dataclass(frozen=True, slots=True, order=True)
class Refused:
    """Records of a file that cannot be their writer's: the file's name, the runs, and why."""

    writer: str
    file: str
    why: str
    runs: tuple[Run, ...]


def unknown_writers(
    runs: Iterable[Run], marks: Mapping[str, Mark], registered: Collection[str] = ()
) -> list[str]:
    """Writers of records of which nothing says that they were there."""
    desks = {desk for mark in marks.values() for desk in mark.desks.split()}
    known = {*marks, *(mark.after for mark in marks.values()), *registered}
    unmarked = {
        (minute, run.writer)
        for run in runs
        if run.writer not in known
        for minute in (run.from_minute, run.to_minute)
    }
    minutes = {minute for minute, _ in unmarked}
    of_desks = {(minute, minute_writer(desk, minute)) for minute in minutes for desk in desks}
    return sorted({writer for _, writer in unmarked - of_desks})


def suspects(
    runs: Sequence[Run],
    window: Window,
    marks: Mapping[str, Mark],
    doubted: Collection[str],
) -> set[str]:
    """Writers of which an hour, whose runs these are, may have records that are none of theirs.

    Those who are `doubted` anyway are among them.
    """
    found = set()
    for run in runs:
        mark = marks.get(run.writer)
        if run.writer in doubted or (
            mark is not None
            and (
                (mark.closed and run.last > mark.records)
                or window.start < _at_work(mark)[0] - CLOCK_MINUTES
                or window.end - 1 > _at_work(mark)[1] + CLOCK_MINUTES
            )
        ):
            found.add(run.writer)
    return found


def refuse(
    files: Sequence[Screened],
    marks: Mapping[str, Mark],
    accepted: Collection[str] = (),
    forged: Mapping[str, str] = NONE_FORGED,
    unknown: Collection[str] | None = None,
) -> tuple[list[Screened], list[Refused]]:
    """The files without what cannot be their writers', and that; not of writers `accepted`.

    A file with nothing else is put aside as a whole. `forged` says of writers why none is theirs.
    `unknown` are `unknown_writers` of these and other files, None: of these.
    """
    if unknown is None:
        unknown = unknown_writers((run for file in files for run in file.runs), marks)
    left, refused = [], []
    for file in files:
        its = [
            Refused(writer, file.name, why, runs)
            for writer, runs in _by_writer(file.runs).items()
            if writer not in accepted
            and (why := forged.get(writer) or _wrong(writer, runs, marks, unknown))
        ]
        refused += its
        left.append(_without(file, its) if its else file)
    return left, sorted(refused)


def accepted_by(said: Mapping[str, Any]) -> list[str]:
    """Writers whose records a run counted in any case; runs of before did so with unknown ones."""
    of_before = [] if "refused" in said else said.get("unknown_writers", [])
    return [*said.get("accepted", ()), *of_before]


def _by_writer(runs: Iterable[Run]) -> dict[str, tuple[Run, ...]]:
    found: dict[str, tuple[Run, ...]] = {}
    for run in runs:
        found[run.writer] = (*found.get(run.writer, ()), run)
    return found


def _without(file: Screened, refused: Sequence[Refused]) -> Screened:
    writers = {one.writer for one in refused}
    runs = tuple(run for run in file.runs if run.writer not in writers)
    if not runs:
        return replace(file, runs=(), repeats=(), rows=0, reason=refused[0].why)
    repeats = tuple(one for one in file.repeats if one[0] not in writers)
    rows = sum(run.last - run.first + 1 for run in runs) + sum(
        last - first + 1 for _, first, last in repeats
    )
    without = tuple(sorted(writers.union(file.without)))
    return replace(file, runs=runs, repeats=repeats, rows=rows, without=without)


def _wrong(
    writer: str, runs: Sequence[Run], marks: Mapping[str, Mark], unknown: Collection[str]
) -> str:
    """Why records cannot be those of this writer, or ""."""
    if writer in unknown:
        return f"unknown: writer {writer} has records and no mark"
    mark = marks.get(writer)
    if mark is None:
        return ""
    highest = max(run.last for run in runs)
    if mark.closed and highest > mark.records:
        return f"writer {writer} ended with record {mark.records}, and here is {highest}"
    first, last = _at_work(mark)
    minutes = [minute for run in runs for minute in (run.from_minute, run.to_minute)]
    if min(minutes) < first - CLOCK_MINUTES or max(minutes) > last + CLOCK_MINUTES:
        return f"writer {writer} has records of a time in which it was not at work"
    return ""


def _at_work(mark: Mark) -> tuple[int, int]:
    """The first and the last minute of which a writer can have records, by its mark."""
    if mark.kind == "function":
        return mark.opened, max(mark.complete_to, mark.opened + _SANDBOX_MINUTES)
    return mark.opened, mark.complete_to

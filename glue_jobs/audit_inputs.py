"""What an audit reads beside exports: a usage place, and what is missing or damaged there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from glue_jobs import access
from glue_jobs.access import ACCESS
from glue_jobs.identities import LOST, NOT_METERED, Gap, Run, Window, copies, gaps
from glue_jobs.outputs import put_once
from glue_jobs.places import Place
from glue_jobs.plural import ranged
from glue_jobs.records import MALFORMED, MARKS, RECORDS, TAILS, Mark, read_mark
from glue_jobs.screening import Screened, screen
from glue_jobs.usage import conflicts, doubtful, once, read_records
from glue_jobs.verifier import DIGESTS

FOLDERS: Final = (RECORDS, access.FOLDER, MARKS, TAILS, MALFORMED, DIGESTS)
"""Of a usage place: docs/usage.md."""

_ALL_TIME: Final = Window(0, 1 << 40)
_ENDS: Final = {LOST: "writer_cut_off", NOT_METERED: "not_metered"}
_QUARANTINE: Final = "quarantine"


@dataclass(frozen=True, slots=True, order=True)
class Told:
    """Something that was found about what an audit is made from, as a finding."""

    kind: str
    count: int
    detail: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What was read of a usage place: records and access records, each once.

    `runs` are those of usage records; `aside` the names of objects that are not what they should
    be. `from_minute` is where a complete account of it begins, -1 where there is none: something is
    missing, or who wrote it is still at work, or is a function. Before `metered_from` usage was off
    at times. All of it was served before `ended_us`, -1: nobody knows.
    """

    records: DataFrame
    access: DataFrame
    runs: tuple[Run, ...] = ()
    told: tuple[Told, ...] = ()
    aside: tuple[str, ...] = ()
    from_minute: int = -1
    metered_from: int = 0
    ended_us: int = -1


def no_usage(session: SparkSession) -> Usage:
    """What there is where no usage place is given."""
    return Usage(read_records(session, []), access.read_access(session, []))


def read_usage(session: SparkSession, place: Place) -> Usage:
    """Read all of a usage place; what is wrong with it is told, and left out."""
    # Marks come after what they speak of, so they are read first.
    marks, bad_marks = _marks(place)
    used = [screen(place, found) for found in place.list(RECORDS)]
    accessed = [screen(place, found, ACCESS) for found in place.list(access.FOLDER)]
    bad = [its for its in (*used, *accessed) if its.reason]
    odd = [Told("not_read", 1, f"{its.name}: {its.odd}") for its in place.odd("")]
    runs, access_runs = _runs(used), _runs(accessed)
    records, differing = _once(session, place, used)
    missing = _gaps("usage_gap", runs, marks)
    told = [
        *(Told("not_read", 1, f"{its.name}: {its.reason}") for its in bad),
        *bad_marks,
        *odd,
        *missing,
        *_ends(runs, marks),
        *_gaps("access_gap", access_runs, [replace(its, records=its.access) for its in marks]),
        *(Told("record_differs", 1, f"record {number} of {name}") for name, number in differing),
        *_strays(place),
    ]
    is_whole = not (bad or bad_marks or odd or missing or differing) and _all_ended(marks, runs)
    return Usage(
        records,
        access.read_access(session, _urls(place, accessed)),
        runs,
        tuple(told),
        tuple(its.name for its in bad if not its.unread),
        max(_metered_from(marks), min(mark.opened for mark in marks)) if is_whole else -1,
        _metered_from(marks),
        _ended_us(marks, runs),
    )


def put_aside(usage: Usage, place: Place, out: Place) -> None:
    """Keep what is no object of records, by what its bytes hash to; a copy stays where it was."""
    for name in usage.aside:
        content = place.read(name)
        put_once(out, f"{_QUARANTINE}/{sha256(content).hexdigest()}", content)


def missing_numbers(runs: Iterable[Run], writer: str, last: int) -> list[tuple[int, int]]:
    """Ranges of a writer's numbers, up to the last, that no object has."""
    missing = []
    reached = 0
    for run in sorted(run for run in runs if run.writer == writer):
        if run.first > reached + 1:
            missing.append((reached + 1, min(run.first - 1, last)))
        reached = max(reached, run.last)
    if reached < last:
        missing.append((reached + 1, last))
    return [gap for gap in missing if gap[0] <= gap[1]]


def _runs(files: Iterable[Screened]) -> tuple[Run, ...]:
    return tuple(run for its in files if not its.reason for run in its.runs)


def _urls(place: Place, files: Iterable[Screened]) -> list[str]:
    return [f"{place.url}/{its.name}" for its in files if not its.reason]


def _once(
    session: SparkSession, place: Place, files: Sequence[Screened]
) -> tuple[DataFrame, list[tuple[str, int]]]:
    """Each record once, and the identities of those that differ."""
    records = read_records(session, _urls(place, files))
    within = [each for its in files for each in its.repeats]
    ranges = sorted({*copies(_runs(files)), *within})
    if not ranges:
        return records, []
    its = doubtful(records, ranges).cache()
    differing = [(row.writer, row.number) for row in conflicts(its).collect()]
    return once(records, ranges, its), differing


def _marks(place: Place) -> tuple[list[Mark], list[Told]]:
    marks, bad = [], []
    for found in place.list(MARKS):
        try:
            marks.append(read_mark(place.read(found.name)))
        except (ValueError, OSError) as error:
            bad.append(Told("not_read", 1, f"{found.name}: {error}"))
    return marks, bad


def _gaps(kind: str, runs: Iterable[Run], marks: Sequence[Mark]) -> list[Told]:
    """Numbers of front ends that no object has. Ledgers are compared with exports instead."""
    ledgers = {mark.writer for mark in marks if mark.kind == "ledger"}
    of_servers = {mark.writer: mark for mark in marks if mark.writer not in ledgers}
    its = [run for run in runs if run.writer not in ledgers]
    found = gaps(its, of_servers, {}, _ALL_TIME)
    return [Told(kind, gap.records, _said(gap)) for gap in found if gap.records]


def _ends(runs: Iterable[Run], marks: Sequence[Mark]) -> list[Told]:
    """Writers that were cut off: what they counted last nobody knows."""
    found = gaps(runs, {mark.writer: mark for mark in marks}, {}, _ALL_TIME)
    ends = [gap for gap in found if not gap.records and gap.to_minute >= 0]
    of_servers = [gap for gap in ends if not gap.is_of_sandbox]
    told = [Told(_ENDS[gap.state], 1, _said(gap)) for gap in of_servers]
    if sandboxes := len(ends) - len(of_servers):
        detail = "sandboxes of functions, of which the last minute may be known in part"
        told.append(Told("sandbox_ends", sandboxes, detail))
    return told


def _said(gap: Gap) -> str:
    if gap.state == NOT_METERED:
        return f"usage was off, minutes {gap.from_minute} to {gap.to_minute}"
    numbers = ranged(gap.first, gap.last, "record") if gap.last else "the last records"
    return f"{numbers} of {gap.writer}, minutes {gap.from_minute} to {gap.to_minute}"


def _metered_from(marks: Iterable[Mark]) -> int:
    """The minute from which on usage was never off."""
    return max((mark.opened + 1 for mark in marks if mark.off_from), default=0)


def _all_ended(marks: Sequence[Mark], runs: Iterable[Run]) -> bool:
    """Whether all who wrote usage have ended as they should, and nobody else wrote any."""
    of_servers = {mark.writer for mark in marks if mark.closed and mark.kind == "server"}
    ledgers = {mark.writer for mark in marks if mark.kind == "ledger"}
    known = of_servers | ledgers
    return (
        bool(of_servers)
        and all(mark.writer in known for mark in marks)
        and _are_all_of(marks, runs)
    )


def _ended_us(marks: Sequence[Mark], runs: Iterable[Run]) -> int:
    """When the last of those who wrote usage had ended; -1: one is at work, or nobody knows.

    Ledgers have no end: servers write their records, of what these have answered.
    """
    ends = [mark.ended_us for mark in marks if mark.kind != "ledger"]
    return max(ends) if ends and min(ends) >= 0 and _are_all_of(marks, runs) else -1


def _are_all_of(marks: Sequence[Mark], runs: Iterable[Run]) -> bool:
    """Whether the writers that have these marks, and the desks of servers, wrote all records."""
    known = {mark.writer for mark in marks}
    return all(
        run.writer in known or any(mark.wrote_in(run.from_minute, run.writer) for mark in marks)
        for run in runs
    )


def _strays(place: Place) -> list[Told]:
    """What lies beside everything that belongs there."""
    names = (found.name for found in place.list(""))
    return [
        Told("stray", 1, f"{name}: it lies in no folder of a usage place")
        for name in names
        if not name.startswith(FOLDERS)
    ]

"""What of sealed hours does not count after all: it depends on marks, and on other hours.

Sums of hours stay as they are; what is taken back is added to them with each run.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from glue_jobs.hour_rows import Identity, added_up
from glue_jobs.hours import each
from glue_jobs.identities import Run, Window, copies, joined
from glue_jobs.records import Mark
from glue_jobs.screening import Screened
from glue_jobs.sealed_hours import Hour, covered_files
from glue_jobs.sealing import Places, Taken, taken_back
from glue_jobs.usage import Range
from glue_jobs.writers import NONE_FORGED, Refused, refuse, suspects, unknown_writers

_MINUTES_PER_HOUR = 60


@dataclass(frozen=True, slots=True)
class Settled:
    """The hours with what counts of them (runs, rows), and what is taken back of their sums.

    `aside` are files of which nothing counts, `conflicts` identities of which records differ.
    """

    hours: Sequence[Hour]
    refused: Sequence[Refused]
    aside: Sequence[Screened]
    conflicts: Sequence[Identity]
    sums: pa.Table | None


def settle(  # noqa: PLR0913, PLR0917 - all that decides
    session: SparkSession,
    places: Places,
    hours: Sequence[Hour],
    marks: Mapping[str, Mark],
    accepted: Collection[str],
    forged: Mapping[str, str] = NONE_FORGED,
) -> Settled:
    """Take back what cannot be its writer's, and what two hours have.

    `forged` says of writers why no record is theirs.
    """
    unknown = set(unknown_writers((run for its in hours for run in its.runs), marks))
    asked = []
    for its in hours:
        minutes = Window(its.hour * _MINUTES_PER_HOUR, (its.hour + 1) * _MINUTES_PER_HOUR)
        found = suspects(its.runs, minutes, marks, unknown | forged.keys())
        if doubtful := frozenset(one for one in found if one not in accepted):
            asked.append((its, doubtful))
    left = {its.folder: its for its in hours}
    refused: list[Refused] = []
    aside: list[Screened] = []
    told = each(session, asked, partial(_files_with, places))
    for (its, writers), files in zip(asked, told, strict=True):
        kept, wrong = refuse(files, marks, accepted, forged, unknown)
        refused += wrong
        aside += [one for one in kept if one.reason]
        left[its.folder] = _without(its, writers, files, kept)
    hours = list(left.values())
    again = copies(run for its in hours for run in its.runs)
    return _taken(session, places, hours, refused, aside, again)


def _files_with(places: Places, asked: tuple[Hour, frozenset[str]]) -> list[Screened]:
    hour, writers = asked
    files = covered_files(places.out, hour)
    return [one for one in files if any(run.writer in writers for run in one.runs)]


def _without(
    its: Hour, writers: Collection[str], files: Sequence[Screened], kept: Sequence[Screened]
) -> Hour:
    """An hour as it is with what was kept of the files that have records of these writers."""
    runs = [run for run in its.runs if run.writer not in writers]
    runs += [run for one in kept for run in one.runs if run.writer in writers]
    fewer = sum(one.rows for one in files) - sum(one.rows for one in kept)
    gone = sum(1 for one in kept if one.reason)
    return replace(its, runs=tuple(joined(runs)), rows=its.rows - fewer, files=its.files - gone)


def _taken(  # noqa: PLR0913, PLR0917 - all that is known by then
    session: SparkSession,
    places: Places,
    hours: Sequence[Hour],
    refused: Sequence[Refused],
    aside: Sequence[Screened],
    again: Sequence[Range],
) -> Settled:
    wrong: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in refused:
        wrong[_folder(one.file)].append((one.file, one.writer))
    of: dict[str, list[Range]] = defaultdict(list)
    for twice in again:
        of[twice[0]].append(twice)
    asked = []
    for its in hours:
        others = sorted(
            {one for run in its.runs for one in of.get(run.writer, ()) if _has(run, one)}
        )
        if others or its.folder in wrong:
            asked.append((its, tuple(wrong[its.folder]), tuple(others)))
    conflicts = {one for its in hours for one in its.conflicts}
    sums = []
    for taken in each(session, asked, partial(_taken_back, places)):
        sums.append(taken.sums)
        conflicts = (conflicts - set(taken.were)) | set(taken.are)
    conflicts |= {(writer, at) for writer, first, last in again for at in range(first, last + 1)}
    added = added_up({"more": sums}) if sums else None
    return Settled(hours, sorted(refused), aside, sorted(conflicts), added)


def _taken_back(
    places: Places, asked: tuple[Hour, tuple[tuple[str, str], ...], tuple[Range, ...]]
) -> Taken:
    return taken_back(places, *asked)


def _has(run: Run, its: Range) -> bool:
    return run.first <= its[2] and its[1] <= run.last


def _folder(name: str) -> str:
    return name.partition("/")[2].rpartition("/")[0]

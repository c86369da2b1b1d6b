"""What a period's usage is made from: files that were screened, and what is known to be missing."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.file_sums import file_sums
from glue_jobs.identities import Gap, Reached, Run, Window, copies, gaps, reached
from glue_jobs.invoicing import first_hour, next_period
from glue_jobs.outputs import Written, canonical, put_once
from glue_jobs.places import Found, Place
from glue_jobs.records import (
    MALFORMED,
    MARKS,
    RECORDS,
    SCHEMA,
    Mark,
    may_have_written,
    read_mark,
)
from glue_jobs.screening import Screened, screen
from glue_jobs.stored_bytes import StoredHour
from glue_jobs.stored_sends import NOTHING_DERIVED, Derived
from glue_jobs.subcopies import claims, copies_of_others, digests, wanted
from glue_jobs.usage import Range, read_records

_QUARANTINE: Final = "quarantine"
_SLICES_PER_CORE: Final = 4
_READERS: Final = 8
_MINUTES_PER_HOUR: Final = 60


@dataclass(frozen=True, slots=True)
class Inputs:
    """A period's files, and what screening says of them."""

    period: str
    files: Sequence[Screened]
    marks: Mapping[str, Mark]
    bad_marks: Sequence[tuple[str, str]]
    malformed_lines: int
    redundant: frozenset[str] = frozenset()
    """Names of files that are copies of parts of others."""
    derived: Derived = NOTHING_DERIVED
    """What has no record in the files, and is known by what is stored."""
    storage: Sequence[StoredHour] = ()
    """What was stored, if it has a price."""

    @property
    def good(self) -> list[Screened]:
        """Files of records."""
        return [file for file in self.files if not file.reason]

    @property
    def counted(self) -> list[Screened]:
        """Files of records without those that are copies of parts of others."""
        return [file for file in self.good if file.name not in self.redundant]

    @property
    def aside(self) -> list[Screened]:
        """Files that are none of records."""
        return [file for file in self.files if file.reason]

    @property
    def rows(self) -> int:
        """Rows of all files, copies among them."""
        return sum(file.rows for file in self.good)

    @property
    def recorded(self) -> list[Run]:
        """Runs of numbers of all files."""
        return [run for file in self.good for run in file.runs]

    @property
    def runs(self) -> list[Run]:
        """Those, and of what was derived."""
        return [*self.recorded, *self.derived.runs]

    @property
    def copies(self) -> list[Range]:
        """Ranges of numbers that are there more than once in the files that count."""
        between = copies(run for file in self.counted for run in file.runs)
        within = [each for file in self.counted for each in file.repeats]
        return sorted({*between, *within}) if within else between

    @property
    def window(self) -> Window:
        """The minutes of the period."""
        return window_of(self.period)

    def gaps(self, before: Mapping[str, Reached]) -> list[Gap]:
        """What is missing, knowing how far writers had come before the period."""
        return gaps(self.runs, self.marks, before, self.window)

    def is_of_function(self, writer: str) -> bool:
        """Whether a writer is a sandbox: each other that can have gaps has a mark."""
        mark = self.marks.get(writer)
        return mark is None or mark.kind == "function"

    def reached(self) -> dict[str, Any]:
        """How far each writer came, as JSON."""
        return {its: [at.number, at.minute] for its, at in sorted(reached(self.runs).items())}

    @property
    def mixed(self) -> list[Screened]:
        """Files with numbers that are in other files, too, or more than once in the same."""
        doubtful = sorted(self.copies)
        return [file for file in self.counted if _has_any(file, doubtful)] if doubtful else []

    def records(self, session: SparkSession, place: Place) -> DataFrame:
        """The records of `mixed` files."""
        return read_records(session, [f"{place.url}/{file.name}" for file in self.mixed])

    def sums(self, session: SparkSession, place: Place) -> DataFrame:
        """Sums of all other files that count."""
        mixed = {file.name for file in self.mixed}
        return file_sums(
            session, place, [file.name for file in self.counted if file.name not in mixed]
        )

    def fingerprint(self) -> str:
        """What tells these inputs from any others."""
        marks = [list(astuple(its)) for its in self.marks.values()]
        files = [[file.name, file.bytes, file.sha256, file.reason] for file in self.files]
        return sha256(canonical([files, sorted(marks), self.malformed_lines])).hexdigest()


def window_of(period: str) -> Window:
    """The minutes of a period."""
    of = (first_hour(period), first_hour(next_period(period)))
    return Window(of[0] * _MINUTES_PER_HOUR, of[1] * _MINUTES_PER_HOUR)


def _has_any(file: Screened, ranges: Sequence[Range]) -> bool:
    """Whether one of the ordered ranges has a number of the file."""
    for run in file.runs:
        at = bisect_left(ranges, (run.writer, run.first, 0))
        near = ranges[max(0, at - 1) : at + 1]
        if any(its[0] == run.writer and its[1] <= run.last and run.first <= its[2] for its in near):
            return True
    return False


def files_of(place: Place, period: str) -> list[Found]:
    """Whatever lies in the folders of a period's days."""
    return place.list(f"{RECORDS}date={period}-")


def listing_of(files: Iterable[Found]) -> str:
    """What tells a list of files from another: names of records say what is in them."""
    return sha256(canonical([[its.name, its.bytes] for its in files])).hexdigest()


def manifest_of(inputs: Inputs) -> bytes:
    """The files that were screened: names, sizes, hashes, and why some are put aside."""
    files = [[file.name, file.bytes, file.sha256, file.reason] for file in inputs.files]
    return canonical(files) + b"\n"


def counted_in(manifest: bytes) -> set[str]:
    """Names of the files of records in a manifest."""
    return {name for name, _, _, reason in json.loads(manifest) if not reason}


def recognised(place: Place, period: str, manifest: bytes) -> Inputs | None:
    """A period's files as they were screened before, without the runs of their records.

    None: they are others, or one of them has other bytes than it had then.
    """
    files = [Screened(its[0], its[1], its[2], reason=its[3]) for its in json.loads(manifest)]
    if [(its.name, its.bytes) for its in files] != [
        (its.name, its.bytes) for its in files_of(place, period)
    ]:
        return None
    with ThreadPoolExecutor(_READERS) as readers:
        if not all(readers.map(lambda its: _is_as_it_was(place, its), files)):
            return None
    marks, bad_marks = _marks(place, period)
    return Inputs(period, files, marks, bad_marks, _malformed_lines(place, period))


def _is_as_it_was(place: Place, file: Screened) -> bool:
    # What has no name of records was put aside unread.
    return not file.sha256 or sha256(place.read(file.name)).hexdigest() == file.sha256


def look_at(session: SparkSession, place: Place, period: str) -> Inputs:
    """Screen a period's files, on executors. Raises JobError for records of a newer schema."""
    found = files_of(place, period)
    context = session.sparkContext
    slices = max(1, min(len(found), context.defaultParallelism * _SLICES_PER_CORE))
    files = (
        context.parallelize(found, slices).map(partial(screen, place)).collect() if found else []
    )
    for file in files:
        if file.newer:
            raise JobError(f"{file.name}: records of schema {file.newer}; these jobs read {SCHEMA}")
    marks, bad_marks = _marks(place, period)
    redundant = _redundant(session, place, [file for file in files if not file.reason])
    malformed = _malformed_lines(place, period)
    return Inputs(period, files, marks, bad_marks, malformed, redundant)


def _malformed_lines(place: Place, period: str) -> int:
    found = place.list(f"{MALFORMED}date={period}-")
    return sum(place.read(its.name).count(b"\n") for its in found)


def _redundant(session: SparkSession, place: Place, files: Sequence[Screened]) -> frozenset[str]:
    found = claims(files)
    asked = wanted(found)
    if not asked:
        return frozenset()
    rows = session.sparkContext.parallelize(sorted(asked.items()), len(asked))
    return copies_of_others(found, rows.flatMap(partial(digests, place)).collect())


def _marks(place: Place, period: str) -> tuple[dict[str, Mark], list[tuple[str, str]]]:
    marks: dict[str, Mark] = {}
    bad = []
    names = [its.name for its in place.list(MARKS) if may_have_written(its.name, period)]
    with ThreadPoolExecutor(_READERS) as readers:
        for name, content in zip(names, readers.map(place.read, names), strict=True):
            try:
                mark = read_mark(content)
            except ValueError as error:
                bad.append((name, str(error)))
            else:
                marks[mark.writer] = mark
    return marks, bad


def put_aside(inputs: Inputs, place: Place, out: Place) -> list[Written]:
    """Keep what is no file of records, by what its bytes hash to; a copy stays where it was."""
    written = []
    for file in inputs.aside:
        content = place.read(file.name)
        written.append(put_once(out, f"{_QUARANTINE}/{sha256(content).hexdigest()}", content))
    return written


def read_reached(content: bytes) -> dict[str, Reached]:
    """What `Inputs.reached` said."""
    return {writer: Reached(*at) for writer, at in json.loads(content).items()}

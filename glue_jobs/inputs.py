"""What a period's usage is made from: sealed hours, and what is known to be missing."""

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from glue_jobs import hours, stored_bytes
from glue_jobs.doubts import settle
from glue_jobs.file_sums import SCHEMA
from glue_jobs.hour_rows import Identity
from glue_jobs.identities import PUT_ASIDE, Gap, Reached, Run, Window, gaps, joined, reached
from glue_jobs.invoicing import first_hour, next_period
from glue_jobs.outputs import Written, canonical, put_once
from glue_jobs.places import Found, Place
from glue_jobs.records import MALFORMED, MARKS, RECORDS, Mark, may_have_written, read_mark
from glue_jobs.screening import Screened, screen
from glue_jobs.sealed_hours import Hour, listing_of
from glue_jobs.sealing import Places
from glue_jobs.stored_bytes import StoredHour
from glue_jobs.stored_sends import NOTHING_DERIVED, Derived
from glue_jobs.usage import hourly as sums_of_records
from glue_jobs.writers import NONE_FORGED, Refused

_QUARANTINE: Final = "quarantine"
_READERS: Final = 8
_NO_FILES: Final = listing_of([])
_MINUTES_PER_HOUR: Final = 60


@dataclass(frozen=True, slots=True)
class Inputs:
    """A period's hours, and what is known of them by marks."""

    period: str
    hours: Sequence[Hour]
    marks: Mapping[str, Mark]
    bad_marks: Sequence[tuple[str, str]]
    malformed_lines: int
    strays: Sequence[Screened] = ()
    """What lies beside the folders of hours."""
    sealed: Sequence[Hour] = ()
    """The hours with what is refused of them."""
    derived: Derived = NOTHING_DERIVED
    """What has no record in the files, and is known by what is stored."""
    storage: Sequence[StoredHour] = ()
    """What was stored, if it has a price."""
    refused: Sequence[Refused] = ()
    """Records that cannot be their writers'."""
    refused_files: Sequence[Screened] = ()
    """Files that have no other records."""
    conflicts: Sequence[Identity] = ()
    """Identities of which records differ."""
    taken: pa.Table | None = None
    """What is to be added to the sums of hours, where records of them do not count after all."""
    against_register: Sequence[tuple[str, str]] = ()
    """Writers, and what of them does not agree with the register."""
    forged: frozenset[str] = frozenset()
    """Those of them that have marks, and whose records were put aside for it."""

    @property
    def files(self) -> int:
        """How many files of records there are."""
        return sum(its.files for its in self.hours)

    @property
    def aside(self) -> list[Screened]:
        """Files that are none of records, or of none that count."""
        of_hours = (one for its in self.hours for one in its.aside)
        return sorted((*of_hours, *self.strays, *self.refused_files), key=lambda its: its.name)

    @property
    def rows(self) -> int:
        """Rows of all files, copies among them."""
        return sum(its.rows for its in self.hours)

    @property
    def recorded(self) -> list[Run]:
        """Runs of numbers of all files."""
        return joined(run for its in self.hours for run in its.runs)

    @property
    def runs(self) -> list[Run]:
        """Those, and of what was derived."""
        return [*self.recorded, *self.derived.runs]

    @property
    def window(self) -> Window:
        """The minutes of the period."""
        return window_of(self.period)

    @property
    def real_marks(self) -> dict[str, Mark]:
        """Marks without forged ones."""
        return {its: mark for its, mark in self.marks.items() if its not in self.forged}

    def gaps(self, before: Mapping[str, Reached], late: Sequence[Run] = ()) -> list[Gap]:
        """What is missing, knowing how far writers had come before the period.

        `late` is what earlier periods have behind that by now.
        """
        found = gaps(self.runs, self.real_marks, before, self.window, late)
        return found + [
            Gap(run.writer, run.first, run.last, run.from_minute, run.to_minute, PUT_ASIDE)
            for one in self.refused
            for run in one.runs
        ]

    def is_of_function(self, writer: str) -> bool:
        """Whether a writer is a sandbox: each other that can have gaps has a mark."""
        mark = self.marks.get(writer)
        return mark is None or mark.kind == "function"

    def reached(self, late: Sequence[Run] = ()) -> dict[str, Any]:
        """How far each writer came, as JSON; `late` as above."""
        found = reached([*late, *self.runs])
        return {its: [at.number, at.minute] for its, at in sorted(found.items())}

    @property
    def parts(self) -> list[Written]:
        """What was kept of the hours."""
        return [one for its in self.hours for one in its.parts]

    @property
    def _present(self) -> list[Hour]:
        """Hours that have files now, whether those count or not."""
        return [its for its in self.hours if its.listing != _NO_FILES]

    @property
    def listing(self) -> str:
        """What tells the files from others: names of records say what is in them."""
        of_hours = [(its.folder, its.listing) for its in self._present]
        return hours.listing_of(of_hours, [Found(its.name, its.bytes) for its in self.strays])

    def sums(self, session: SparkSession, out: Place) -> DataFrame:
        """Hourly usage: sums of sums, of which a key may be there more than once."""
        urls = [f"{out.url}/{name}" for its in self.hours for name in its.sums]
        sums = session.createDataFrame([], SCHEMA)
        if urls:
            sums = session.read.schema(SCHEMA).parquet(*urls)
        if self.taken is not None and self.taken.num_rows:
            rows = [tuple(row.values()) for row in self.taken.to_pylist()]
            sums = sums.unionByName(session.createDataFrame(rows, SCHEMA))
        if self.derived.sends:
            sums = sums.unionByName(sums_of_records(self.derived.records(session)))
        if self.storage:
            sums = sums.unionByName(stored_bytes.hourly(session, self.storage))
        return sums

    def fingerprint(self) -> str:
        """What tells these inputs from any others."""
        marks = [list(astuple(its)) for its in self.marks.values()]
        files = [[its.folder, its.covered] for its in self._present]
        aside = [
            [its.name, its.bytes, its.sha256, its.reason]
            for its in (*(one for hour in self.hours for one in hour.aside), *self.strays)
        ]
        return sha256(canonical([files, aside, sorted(marks), self.malformed_lines])).hexdigest()


def window_of(period: str) -> Window:
    """The minutes of a period."""
    of = (first_hour(period), first_hour(next_period(period)))
    return Window(of[0] * _MINUTES_PER_HOUR, of[1] * _MINUTES_PER_HOUR)


def files_of(place: Place, period: str) -> list[Found]:
    """Whatever lies in the folders of a period's days: all names, where that many can be held."""
    folders = f"{RECORDS}date={period}-"
    return sorted([*place.list(folders), *place.odd(folders)])


def manifest_of(inputs: Inputs) -> bytes:
    """The hours that were looked at, as JSON: docs/billing.md, *What is written*."""
    of_hours = [[its.folder, its.listing, its.covers, its.files, its.rows] for its in inputs.hours]
    aside = [[its.name, its.bytes, its.sha256, its.reason] for its in inputs.aside]
    return canonical({"hours": of_hours, "aside": aside}) + b"\n"


def recognised(session: SparkSession, places: Places, period: str) -> Inputs | None:
    """A period's hours as they were sealed, if nothing of them is new, or gone."""
    found = hours.as_sealed(session, places, period)
    if found is None:
        return None
    marks, bad_marks = _marks(places.usage, period)
    lines = _malformed_lines(places.usage, period)
    return Inputs(period, found, marks, bad_marks, lines, _strays(places.usage, period))


def look_at(
    session: SparkSession, places: Places, period: str, accepted: Collection[str] = ()
) -> Inputs:
    """Seal what is new of a period; records of writers `accepted` count in any case.

    Raises JobError where another run seals the same hours at the same time.
    """
    found = hours.seal(session, places, period)
    marks, bad_marks = _marks(places.usage, period)
    lines = _malformed_lines(places.usage, period)
    its = Inputs(period, found, marks, bad_marks, lines, _strays(places.usage, period))
    return without(session, places, replace(its, sealed=found), accepted)


def without(
    session: SparkSession,
    places: Places,
    inputs: Inputs,
    accepted: Collection[str],
    forged: Mapping[str, str] = NONE_FORGED,
) -> Inputs:
    """The same without what cannot be its writer's; `forged` says of some why nothing is theirs."""
    inputs = replace(inputs, forged=frozenset(forged))
    its = settle(session, places, inputs.sealed, inputs.real_marks, accepted, forged)
    return replace(
        inputs,
        hours=its.hours,
        refused=its.refused,
        refused_files=its.aside,
        conflicts=its.conflicts,
        taken=its.sums,
    )


def _strays(place: Place, period: str) -> list[Screened]:
    return [screen(place, found) for found in hours.strays(place, period)]


def _malformed_lines(place: Place, period: str) -> int:
    found = place.list(f"{MALFORMED}date={period}-")
    return sum(place.read(its.name).count(b"\n") for its in found)


def _marks(place: Place, period: str) -> tuple[dict[str, Mark], list[tuple[str, str]]]:
    marks: dict[str, Mark] = {}
    bad = [(its.name, its.odd) for its in place.odd(MARKS)]
    names = [its.name for its in place.list(MARKS) if may_have_written(its.name, period)]
    with ThreadPoolExecutor(_READERS) as readers:
        for name, content in zip(names, readers.map(place.read, names), strict=True):
            try:
                mark = read_mark(content)
            except (ValueError, RecursionError) as error:
                bad.append((name, str(error)))
            else:
                marks[mark.writer] = mark
    return marks, bad


def put_aside(inputs: Inputs, place: Place, out: Place) -> list[Written]:
    """Keep what is no file of records, by what its bytes hash to; a copy stays where it was."""
    written = []
    for file in inputs.aside:
        if file.unread:
            continue
        content = place.read(file.name)
        written.append(put_once(out, f"{_QUARANTINE}/{sha256(content).hexdigest()}", content))
    return written


def read_reached(content: bytes) -> dict[str, Reached]:
    """What `Inputs.reached` said."""
    return {writer: Reached(*at) for writer, at in json.loads(content).items()}

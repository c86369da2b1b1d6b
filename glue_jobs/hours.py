"""The hours of months: which there are, each as it was sealed, or is sealed now.

What comes to the driver grows with hours and writers, and not with files.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from pyspark.sql import SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.invoicing import first_hour, next_period
from glue_jobs.places import Found, Place
from glue_jobs.records import RECORDS
from glue_jobs.sealed_hours import HOURS, Hour, files_in
from glue_jobs.sealed_hours import listing_of as listing_of_files
from glue_jobs.sealing import (
    Pending,
    Places,
    files_of_hour,
    look,
    look_at_slice,
    seal_slices,
)

_TASKS_PER_CORE: Final = 8
_ATTEMPTS: Final = 3
_SECONDS_PER_HOUR: Final = 3600

NAMED_MAX: Final = 5
"""Files that are named of those that are gone, or that came."""

_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")
Listing = tuple[str, str]
"""An hour's folder, and what tells its files from others."""


def hours_of(period: str) -> list[tuple[str, int]]:
    """The folder of each hour of a month, and which hour since the epoch it is."""
    return [
        (f"{datetime.fromtimestamp(hour * _SECONDS_PER_HOUR, UTC):date=%Y-%m-%d/hour=%H}", hour)
        for hour in range(first_hour(period), first_hour(next_period(period)))
    ]


def hours_in(place: Place, top: str, period: str) -> list[tuple[str, int]]:
    """Those that have a folder below `top`."""
    of_days: dict[str, list[tuple[str, int]]] = {}
    for its in hours_of(period):
        of_days.setdefault(its[0].partition("/")[0], []).append(its)
    folders, _ = place.beneath(top)
    there: set[str] = set()
    for day in of_days.keys() & {its.removeprefix(top) for its in folders}:
        there |= {its.removeprefix(top) for its in place.beneath(f"{top}{day}/")[0]}
    return [its for hours in of_days.values() for its in hours if its[0] in there]


def _hours_of(places: Places, period: str) -> list[tuple[str, int]]:
    """Hours that have files, or had some when they were sealed."""
    found = {*hours_in(places.usage, RECORDS, period), *hours_in(places.out, HOURS, period)}
    return sorted(found, key=lambda its: its[1])


def each(
    session: SparkSession, asked: Sequence[_Asked], ask: Callable[[_Asked], _Told]
) -> list[_Told]:
    """What is told of each, on executors, in order. Raises JobError that one of them raised."""
    if not asked:
        return []
    context = session.sparkContext
    tasks = min(len(asked), context.defaultParallelism * _TASKS_PER_CORE)
    told = context.parallelize(asked, tasks).map(partial(_told, ask)).collect()
    return [_right(its) for its in told]


def _told(ask: Callable[[Any], Any], asked: Any) -> Any:
    try:
        return ask(asked)
    except JobError as error:
        return error


def _right(told: Any) -> Any:
    if isinstance(told, JobError):
        raise told
    return told


def seal(session: SparkSession, places: Places, period: str) -> list[Hour]:
    """The hours of a month that have or had files, sealed as they are now."""
    found = each(session, _hours_of(places, period), partial(_look, places))
    for _ in range(_ATTEMPTS):
        pending = [its for its in found if isinstance(its, Pending)]
        if not pending:
            return [its for its in found if isinstance(its, Hour)]
        sealed = {its.folder: its for its in _seal_slices(session, places, pending)}
        found = [sealed.get(its.folder, its) for its in found if its is not None]
    raise JobError(f"hours/{pending[0].folder}: other runs seal it; run again")


def as_sealed(session: SparkSession, places: Places, period: str) -> list[Hour] | None:
    """The same if nothing is to be sealed; None: something is new, or gone."""
    found = each(session, _hours_of(places, period), partial(_look, places, only=True))
    if any(isinstance(its, Pending) for its in found):
        return None
    return [its for its in found if isinstance(its, Hour)]


def _look(places: Places, its: tuple[str, int], *, only: bool = False) -> Hour | Pending | None:
    return look(places, *its, only=only)


def _seal_slices(
    session: SparkSession, places: Places, pending: Sequence[Pending]
) -> list[Hour | Pending]:
    """Each slice is a task, and then each hour is."""
    asked = [(its, at) for its in pending for at in range(its.slices)]
    looked = (
        session.sparkContext.parallelize(asked, len(asked))
        .map(lambda its: (its[0], _told(lambda one: look_at_slice(places, *one), its)))
        .groupByKey(len(pending))
        .map(lambda its: _told(lambda one: seal_slices(places, one[0], map(_right, one[1])), its))
    )
    return [_right(its) for its in looked.collect()]


def strays(place: Place, period: str) -> list[Found]:
    """What lies in a month's folders beside the folders of its hours."""
    days = {folder.partition("/")[0] for folder, _ in hours_of(period)}
    right = {f"{RECORDS}{folder}" for folder, _ in hours_of(period)}
    prefix = f"{RECORDS}date={period}-"
    folders, found = place.beneath(RECORDS)
    for folder in (its for its in folders if its.startswith(prefix)):
        if folder.removeprefix(RECORDS) not in days:
            found += [*place.list(f"{folder}/"), *place.odd(f"{folder}/")]
            continue
        inner, files = place.beneath(f"{folder}/")
        found += files
        for its in inner:
            if its not in right:
                found += [*place.list(f"{its}/"), *place.odd(f"{its}/")]
    # A link is told by its own name, which may be that of a folder above.
    return sorted(
        {its for its in found if its.name.startswith(prefix) or prefix.startswith(its.name)}
    )


def has_any(place: Place, period: str) -> bool:
    """Whether there is anything in a month's folders: one of them is listed, not all."""
    folders, _ = place.beneath(RECORDS)
    days = [its for its in folders if its.startswith(f"{RECORDS}date={period}-")]
    for day in days:
        inner, found = place.beneath(f"{day}/")
        if found or any(place.list(f"{its}/") for its in inner):
            return True
    return False


def listings(session: SparkSession, place: Place, periods: Sequence[str]) -> dict[str, str]:
    """What tells the files of each of these months from others, by their names and sizes."""
    asked = [
        (period, folder) for period in periods for folder, _ in hours_in(place, RECORDS, period)
    ]
    told: dict[str, list[Listing]] = {period: [] for period in periods}
    for period, folder, listing in each(session, asked, partial(_listing, place)):
        if listing:
            told[period].append((folder, listing))
    return {period: listing_of(its, strays(place, period)) for period, its in told.items()}


def _listing(place: Place, its: tuple[str, str]) -> tuple[str, str, str]:
    period, folder = its
    found = files_of_hour(place, folder)
    return period, folder, listing_of_files(found) if found else ""


def listing_of(hours: Iterable[Listing], beside: Iterable[Found]) -> str:
    """What tells a month's files from others: those of its hours, and what is beside them."""
    of_hours = [Found(f"{folder}={listing}", 0) for folder, listing in sorted(hours)]
    return listing_of_files([*of_hours, *beside])


@dataclass(frozen=True, slots=True)
class SomeFiles:
    """How many files there are of a kind, and the first of their names."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Collection[str]) -> "SomeFiles":
        """These files."""
        return cls(len(names), tuple(sorted(names)[:NAMED_MAX]))

    def __add__(self, other: "SomeFiles") -> "SomeFiles":
        """These and others; names are those that come first."""
        names = sorted((*self.names, *other.names))[:NAMED_MAX]
        return SomeFiles(self.count + other.count, tuple(names))


def gone_and_new(
    session: SparkSession, places: Places, known: Sequence[tuple[str, str, str]]
) -> tuple[SomeFiles, SomeFiles]:
    """Which files are gone of the hours of a month, and which came.

    `known` are folders, what told their files from others, and names of lists of them.
    """
    told = each(session, known, partial(_gone_and_new, places))
    gone = sum((one for one, _ in told), SomeFiles())
    return gone, sum((one for _, one in told), SomeFiles())


def _gone_and_new(places: Places, its: tuple[str, str, str]) -> tuple[SomeFiles, SomeFiles]:
    folder, listing, covers = its
    found = files_of_hour(places.usage, folder)
    if listing_of_files(found) == listing:
        return SomeFiles(), SomeFiles()
    names = {one.name for one in found}
    covered = {one.name for one in files_in(places.out, covers)} if covers else set()
    return SomeFiles.of(covered - names), SomeFiles.of(names - covered)

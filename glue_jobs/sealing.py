"""Hours are looked at, and sealed, where Spark's executors are (docs/storage.md, *Sealed hours*).

An hour that is as its last part has it is not read. Of any other the new files are read, once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.arguments import JobError
from glue_jobs.file_sums import ARROW_SUMS, sums_of
from glue_jobs.hour_rows import Identity, added_up, all_of, all_within, each_once, sums_of_once
from glue_jobs.identities import copies, joined, joined_ranges
from glue_jobs.places import Found, Place
from glue_jobs.records import RECORDS
from glue_jobs.screening import Screened, read_table, screen_and_read
from glue_jobs.sealed_hours import (
    HOURS,
    MADE_BY,
    Hour,
    covered_files,
    last_part,
    listing_of,
    put_part,
    read_sums,
)
from glue_jobs.usage import Range

SLICE_BYTES: Final = 16_000_000
"""So much of an hour's files, and so many of them, one task takes; they are compressed."""

SLICE_FILES: Final = 4_000
_ATTEMPTS: Final = 5
_HASH_DIGITS: Final = 8

Read = Callable[[str], pa.Table]


@dataclass(frozen=True, slots=True)
class Pending:
    """An hour that is to be looked at in so many slices."""

    folder: str
    hour: int
    slices: int
    number: int = 0
    """Of the last part that counts."""
    is_anew: bool = False

    def is_of(self, its: "_News") -> bool:
        """Whether the hour is sealed as far as it was when this was found."""
        return (self.number, self.is_anew) == (its.last.number, its.is_anew)


@dataclass(frozen=True, slots=True)
class Slice:
    """Files of an hour that were screened, and the sums of those of records."""

    files: tuple[Screened, ...]
    sums: pa.Table


@dataclass(frozen=True, slots=True)
class Places:
    """Where records and where sealed hours are."""

    usage: Place
    out: Place


@dataclass(frozen=True, slots=True)
class _News:
    """What an hour's folder has, beside what its last part covers."""

    last: Hour
    listing: str
    new: list[Found]
    kept: list[Screened]
    is_anew: bool
    """Whether something is gone, or screening meant something else."""


def files_of_hour(usage: Place, folder: str) -> list[Found]:
    """Whatever lies in an hour's folder."""
    prefix = f"{RECORDS}{folder}/"
    odd = [its for its in usage.odd(prefix) if its.name.startswith(prefix)]
    return sorted([*usage.list(prefix), *odd])


def look(places: Places, folder: str, hour: int, *, only: bool = False) -> Hour | Pending | None:
    """An hour as it is now, sealed if something is new; None where there is nothing.

    One with too much for a task is pending, and so is each that changed if this is to look `only`.
    """
    for _ in range(_ATTEMPTS):
        its = _news(places, folder, hour)
        if its is None:
            return None
        if not its.new and not its.is_anew:
            return its.last
        if all(_is_aside(one, its.last) for one in its.new) and not its.is_anew:
            screened = [screen_and_read(places.usage, one)[0] for one in its.new]
            if tuple(screened) == its.last.aside:
                return its.last
        slices = _slices(its.new)
        if only or slices > 1:
            return Pending(folder, hour, slices, its.last.number, its.is_anew)
        if (sealed := _seal_whole(places, its)) is not None:
            return sealed
    raise JobError(f"{HOURS}{folder}: other runs seal it; run again")


def look_at_slice(places: Places, pending: Pending, at: int) -> Slice:
    """What is new in one of an hour's slices."""
    its = _news(places, pending.folder, pending.hour)
    mine = [one for one in its.new if _slice_of(one, pending.slices) == at] if its else []
    files, tables = [], []
    for found in mine:
        screened, table = screen_and_read(places.usage, found)
        files.append(screened)
        if table is not None:
            tables.append(sums_of(table))
    return Slice(tuple(files), added_up({"more": tables}))


def seal_slices(places: Places, pending: Pending, slices: Iterable[Slice]) -> Hour | Pending:
    """Seal an hour of which all slices were looked at; pending: another run did meanwhile."""
    its = _news(places, pending.folder, pending.hour)
    if its is None or not pending.is_of(its):
        return pending
    slices = list(slices)
    files = [one for each in slices for one in each.files]
    sums = [each.sums for each in slices]
    sealed = _seal(places, its, files, sums, lambda name: read_table(places.usage.read(name)))
    return pending if sealed is None else sealed


def _news(places: Places, folder: str, hour: int) -> _News | None:
    found = files_of_hour(places.usage, folder)
    last = last_part(places.out, folder, hour)
    if not found and not last.number:
        return None
    listing = listing_of(found)
    if last.number and (last.listing, last.made_by) == (listing, MADE_BY):
        aside = {one.name for one in last.aside}
        return _News(last, listing, [one for one in found if one.name in aside], [], is_anew=False)
    kept = {one.name: one for one in covered_files(places.out, last)}
    there = {one.name: one.bytes for one in found}
    is_gone = any(there.get(name) != one.bytes for name, one in kept.items())
    if is_gone or (last.number and last.made_by != MADE_BY):
        return _News(last, listing, found, [], is_anew=True)
    new = [one for one in found if one.name not in kept]
    return _News(last, listing, new, list(kept.values()), is_anew=False)


def _is_aside(found: Found, last: Hour) -> bool:
    return any(its.name == found.name for its in last.aside)


def _slices(new: Sequence[Found]) -> int:
    size = sum(its.bytes for its in new)
    return max(1, -(-size // SLICE_BYTES), -(-len(new) // SLICE_FILES))


def _slice_of(found: Found, slices: int) -> int:
    """Files are named by hashes, which fall evenly."""
    digits = found.name.rpartition("/")[2][:_HASH_DIGITS]
    try:
        return int(digits, 16) % slices
    except ValueError:
        return 0


def _seal_whole(places: Places, its: _News) -> Hour | None:
    tables: dict[str, pa.Table] = {}
    files = []
    for found in its.new:
        screened, table = screen_and_read(places.usage, found)
        files.append(screened)
        if table is not None:
            tables[found.name] = table
    sums = [sums_of(all_of(tables.values()))] if tables else []

    def read(name: str) -> pa.Table:
        return tables[name] if name in tables else read_table(places.usage.read(name))

    return _seal(places, its, files, sums, read)


def _seal(
    places: Places, its: _News, looked: Sequence[Screened], sums: list[pa.Table], read: Read
) -> Hour | None:
    """Put a part with the difference to what was sealed before."""
    new = [one for one in looked if not one.reason]
    last = its.last
    more, less = list(sums), []
    kept = its.kept or ([] if its.is_anew else covered_files(places.out, last))
    again = _again(new, kept)
    conflicts: list[Identity] = [] if its.is_anew else list(last.conflicts)
    if again:
        of_new = all_within(map(read, _with_any(new, again)), again)
        of_kept = all_within(map(read, _with_any(kept, again)), again)
        once, differing = each_once(pa.concat_tables([of_new, of_kept]))
        more.append(sums_of(once))
        less += [sums_of(of_new), sums_of_once(of_kept)]
        conflicts = sorted({*conflicts, *differing})
    if its.is_anew:
        less += read_sums(places.out, last.sums)
    files = sorted([*kept, *new], key=lambda one: one.name)
    told = replace(
        last,
        listing=_listing([*files, *(one for one in looked if one.reason)]),
        runs=tuple(joined(run for one in files for run in one.runs)),
        aside=tuple(one for one in looked if one.reason),
        conflicts=tuple(conflicts),
    )
    return put_part(places.out, last, files, told, added_up({"more": more, "less": less}))


def _listing(files: Sequence[Screened]) -> str:
    return listing_of(sorted(files, key=lambda one: one.name))


def _again(new: Sequence[Screened], kept: Sequence[Screened]) -> list[Range]:
    """Numbers that are there more than once now, and were not all before."""
    # What kept files have of each other was settled when they were sealed.
    runs = joined(run for one in kept for run in one.runs)
    found = copies([*runs, *(run for one in new for run in one.runs)])
    return joined_ranges([*found, *(its for one in new for its in one.repeats)])


def _with_any(files: Sequence[Screened], ranges: Sequence[Range]) -> list[str]:
    """Names of the files that have one of the numbers."""
    of: dict[str, list[Range]] = {}
    for its in ranges:
        of.setdefault(its[0], []).append(its)
    return [
        one.name
        for one in files
        if any(
            first <= run.last and run.first <= last
            for run in one.runs
            for _, first, last in of.get(run.writer, ())
        )
    ]


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken back of an hour, as sums to be added, and what of it was and is in conflict."""

    sums: pa.Table
    were: list[Identity]
    are: list[Identity]


def taken_back(
    places: Places, its: Hour, refused: Iterable[tuple[str, str]], others: Sequence[Range]
) -> Taken:
    """What an hour's sums have of records that do not count after all.

    `refused` are files and writers whose records in them are none of theirs, `others` numbers that
    another hour has, too.
    """
    files = covered_files(places.out, its)
    without: dict[str, set[str]] = {}
    for name, writer in refused:
        without.setdefault(name, set()).add(writer)
    runs = [run for one in files for run in one.runs if run.writer in without.get(one.name, ())]
    ranges = joined_ranges([*((run.writer, run.first, run.last) for run in runs), *others])
    found, left = [], []
    for name in _with_any(files, ranges):
        rows = all_within([read_table(places.usage.read(name))], ranges)
        found.append(rows)
        gone = pa.array(sorted(without.get(name, ())), pa.string())
        left.append(rows.filter(pc.invert(pc.is_in(rows.column("writer"), value_set=gone))))
    if not found:
        return Taken(ARROW_SUMS.empty_table(), [], [])
    before, were = each_once(pa.concat_tables(found))
    after, are = each_once(_not_in(pa.concat_tables(left), others))
    sums = added_up({"more": [sums_of(after)], "less": [sums_of(before)]})
    return Taken(sums, were, are)


def _not_in(rows: pa.Table, ranges: Sequence[Range]) -> pa.Table:
    inside = all_within([rows], ranges).select(["writer", "number"])
    keys = ["writer", "number"]
    kept = rows.join(inside, keys, join_type="left anti", use_threads=False)
    return kept.select(rows.column_names)

"""Files whose records are all in another file, too: a delivery that came twice.

They are told by their runs of numbers and by a digest of the records themselves, so that nothing
has to be compared record by record. A file whose records differ from those of the other in
anything is no copy, and stays.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.identities import Run
from glue_jobs.places import Place
from glue_jobs.screening import Screened, read_table

RUNS_MAX: Final = 1_000
"""A file with more runs than this is compared record by record, as its records are."""

Extent = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """All records of `name` may be in other files: runs of it, and where each of them is."""

    name: str
    runs: tuple[Extent, ...]
    others: tuple[str, ...]


def claims(files: Sequence[Screened]) -> list[Claim]:
    """Files whose runs all lie within runs of larger ones (of two equals, the later name)."""
    of_writers: dict[str, list[tuple[Run, Screened]]] = defaultdict(list)
    for file in files:
        for run in file.runs:
            of_writers[run.writer].append((run, file))
    found = []
    for file in files:
        if len(file.runs) > RUNS_MAX or file.repeats:
            continue
        others = [_within(run, file, of_writers[run.writer]) for run in file.runs]
        if all(others):
            runs = tuple((run.writer, run.first, run.last) for run in file.runs)
            found.append(Claim(file.name, runs, tuple(other for other in others if other)))
    return found


def _within(run: Run, file: Screened, its: Iterable[tuple[Run, Screened]]) -> str:
    """The name of a larger file that has all of a run, or ""."""
    for other, holder in its:
        larger = (holder.rows, holder.name) > (file.rows, file.name)
        if larger and not holder.repeats and other.first <= run.first and run.last <= other.last:
            return holder.name
    return ""


def wanted(found: Iterable[Claim]) -> dict[str, list[Extent]]:
    """The runs whose digests decide about claims, by the file that they are in."""
    runs: dict[str, set[Extent]] = defaultdict(set)
    for claim in found:
        for run, other in zip(claim.runs, claim.others, strict=True):
            runs[claim.name].add(run)
            runs[other].add(run)
    return {name: sorted(its) for name, its in sorted(runs.items())}


def digests(place: Place, asked: tuple[str, list[Extent]]) -> list[tuple[str, Extent, str]]:
    """Digests of runs of a file: (name, run, digest). It runs where executors are."""
    name, runs = asked
    table = read_table(place.read(name))
    return [(name, run, _digest(table, run)) for run in runs]


def _digest(table: pa.Table, run: Extent) -> str:
    writer, first, last = run
    number: Any = table.column("number")
    rows = pc.and_(
        pc.equal(table.column("writer").cast(pa.string()), writer),
        pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last)),
    )
    found = table.filter(rows)
    plain = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in found.columns
    ]
    ordered = pa.table(plain, names=found.column_names).sort_by("number").combine_chunks()
    its = sha256()
    for batch in ordered.to_batches():
        # The same values have the same bytes, whatever they were a part of.
        its.update(batch.serialize())
    return its.hexdigest()


def copies_of_others(
    found: Iterable[Claim], said: Iterable[tuple[str, Extent, str]]
) -> frozenset[str]:
    """Names of files that are copies of parts of others, by the digests of their runs."""
    of = {(name, run): digest for name, run, digest in said}
    return frozenset(
        claim.name
        for claim in found
        if all(
            of[claim.name, run] == of[other, run]
            for run, other in zip(claim.runs, claim.others, strict=True)
        )
    )

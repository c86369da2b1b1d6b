"""Rows of an hour that are there more than once: compared with each other, and counted once.

It works on Arrow's tables, where Spark's executors are, an hour at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.arguments import JobError
from glue_jobs.file_sums import ARROW_SUMS, sums_of
from glue_jobs.records import COLUMNS, SUMS, TEXTS
from glue_jobs.usage import IDENTITY, KEYS, Range

Identity = tuple[str, int]

_RECORDS: Final = pa.schema(
    [(name, pa.string() if name in TEXTS else pa.int64()) for name in COLUMNS]
)
_SUM_END: Final = float(1 << 62)
"""Sums of an hour are less, so that a month's stay within 64 bits."""


def within(records: pa.Table, ranges: Iterable[Range]) -> pa.Table:
    """The rows of which the writer and number are in one of the ranges; these do not overlap."""
    bounds: dict[str, tuple[list[int], list[int]]] = {}
    for writer, first, last in sorted(ranges):
        its = bounds.setdefault(writer, ([], []))
        its[0].append(first)
        its[1].append(last)
    writers = records.column("writer").cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(writers, pa.ChunkedArray):
        writers = pa.concat_arrays(writers.chunks)
    codes: Any = writers.indices.to_numpy()
    numbers: Any = records.column("number").to_numpy()
    wanted = np.zeros(len(numbers), dtype=bool)
    for code, writer in enumerate(writers.dictionary.to_pylist()):
        if writer not in bounds:
            continue
        firsts, lasts = (np.array(its, dtype=np.int64) for its in bounds[writer])
        rows = np.flatnonzero(codes == code)
        at = np.searchsorted(firsts, numbers[rows], side="right") - 1
        wanted[rows[(at >= 0) & (numbers[rows] <= lasts[np.maximum(at, 0)])]] = True
    return records.filter(pa.array(wanted)).select(list(COLUMNS)).cast(_RECORDS)


def all_of(tables: Iterable[pa.Table]) -> pa.Table:
    """Files of records as one table. Raises JobError where sums of it would be too much."""
    # Files differ in what they say beside their columns.
    its = pa.concat_tables([pa.table(one.columns, names=one.column_names) for one in tables])
    _check(its, [name for name in SUMS if name in COLUMNS])
    return its


def _check(table: pa.Table, names: Iterable[str]) -> None:
    for name in names:
        # Not "safe", which ends at 2^53: what is beyond it is rounded, and refused.
        whole = pc.sum(pc.abs(table.column(name)).cast(pa.float64(), safe=False)).as_py()
        if (whole or 0) >= _SUM_END:
            raise JobError(f"the {name} of an hour add up to 2^62 or more: that cannot be billed")


def all_within(tables: Iterable[pa.Table], ranges: Sequence[Range]) -> pa.Table:
    """The same of several tables."""
    return pa.concat_tables([_RECORDS.empty_table(), *(within(its, ranges) for its in tables)])


def each_once(rows: pa.Table) -> tuple[pa.Table, list[Identity]]:
    """Rows, each once, and the identities of which rows differ: none of those counts."""
    different = rows.group_by(list(COLUMNS), use_threads=False).aggregate([])
    versions = different.group_by(list(IDENTITY), use_threads=False).aggregate([([], "count_all")])
    differing = versions.filter(pc.greater(versions.column("count_all"), 1)).select(list(IDENTITY))
    if not differing.num_rows:
        return different, []
    sure = different.join(differing, list(IDENTITY), join_type="left anti", use_threads=False)
    found = zip(*(differing.column(name).to_pylist() for name in IDENTITY), strict=True)
    return sure.select(list(COLUMNS)), sorted(found)


def added_up(sums: Mapping[str, Sequence[pa.Table]]) -> pa.Table:
    """Sums by `KEYS`, in their order: of what is `more` less what is `less`; of 0 there is none.

    Raises JobError where they are too much.
    """
    signed = [*sums.get("more", ()), *(_negative(one) for one in sums.get("less", ()))]
    its = pa.concat_tables([ARROW_SUMS.empty_table(), *signed])
    _check(its, SUMS)
    added = its.group_by(list(KEYS), use_threads=False).aggregate([(n, "sum") for n in SUMS])
    added = added.rename_columns([its.removesuffix("_sum") for its in added.column_names])
    is_some = pc.not_equal(added.column(SUMS[0]), 0)
    for name in SUMS[1:]:
        is_some = pc.or_(is_some, pc.not_equal(added.column(name), 0))
    ordered = added.filter(is_some).sort_by([(name, "ascending") for name in KEYS])
    return ordered.select(ARROW_SUMS.names).cast(ARROW_SUMS).combine_chunks()


def sums_of_once(rows: pa.Table) -> pa.Table:
    """Sums of rows, each identity once."""
    return sums_of(each_once(rows)[0])


def _negative(sums: pa.Table) -> pa.Table:
    columns = [
        pc.negate(sums.column(name)) if name in SUMS else sums.column(name)
        for name in ARROW_SUMS.names
    ]
    return pa.table(columns, schema=ARROW_SUMS)

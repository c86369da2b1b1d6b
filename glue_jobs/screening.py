"""A look into each file of records before anything is counted: what is none is put aside.

Screening runs where Spark's executors are, a file at a time. It reads the bytes once: they are
what the name says, the columns are those of a record, the values are within their bounds, and the
records belong to the hour in which they are filed. It also says which records are in the file.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from glue_jobs.identities import Run
from glue_jobs.places import Found, Place
from glue_jobs.records import ACCOUNT, STATUSES, USAGE, WRITER, Filed, Kind, filed

_SUM_END: Final = 1 << 53
"""A column of a file adds up to less, so that a thousand files stay within 64 bits."""

_MANY: Final = frozenset({"requests", "units", "messages", "bytes", "failed_entries"})
_EPOCH_DAY: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Screened:
    """A file that was looked at. With a `reason`, it is none of records and put aside.

    `newer` is the schema of records that this version of the jobs cannot read: such records are
    real, so no month is closed without them. `repeats` are numbers that are in the file twice.
    `without` are writers whose records in it do not count (writers.py).
    """

    name: str
    bytes: int
    sha256: str = ""
    rows: int = 0
    reason: str = ""
    newer: str = ""
    runs: tuple[Run, ...] = ()
    repeats: tuple[tuple[str, int, int], ...] = field(default=())
    without: tuple[str, ...] = ()
    unread: bool = False
    """Whether the place did not give it; then it is in no quarantine either."""


class _NoRecordsError(Exception):
    """The file has something else; the message says what."""


class _NewerError(Exception):
    """The file has records of another version; the message is their schema."""


def screen(place: Place, found: Found, kind: Kind = USAGE) -> Screened:
    """What a file of a usage place holds, where records of this kind should be.

    Whatever goes wrong with it is its reason to be put aside: no file keeps others from being read.
    """
    return screen_and_read(place, found, kind)[0]


def screen_and_read(
    place: Place, found: Found, kind: Kind = USAGE
) -> tuple[Screened, pa.Table | None]:
    """The same, and the records; None of what is put aside."""
    its = Screened(found.name, found.bytes)
    if found.odd:
        return replace(its, unread=True, reason=found.odd), None
    where = filed(found.name, kind.folder)
    if where is None:
        return replace(its, reason="its name is not that of an object of records"), None
    try:
        content = place.read(found.name)
    except Exception as error:  # noqa: BLE001 - it is told with the file
        return replace(its, unread=True, reason=f"it cannot be read: {_said(error)}"), None
    its = replace(its, bytes=len(content), sha256=sha256(content).hexdigest())
    if its.sha256 != where.sha256:
        return replace(its, reason="its bytes do not hash to its name"), None
    return _screen(its, content, where, kind)


def _screen(
    its: Screened, content: bytes, where: Filed, kind: Kind
) -> tuple[Screened, pa.Table | None]:
    try:
        table = read_table(content, kind)
        _check(table, where, kind)
        runs, repeats = _identities(table)
    except _NewerError as error:
        return replace(its, newer=str(error), reason=f"records of schema {error}"), None
    except _NoRecordsError as error:
        return replace(its, reason=str(error)), None
    except Exception as error:  # noqa: BLE001 - it is told with the file
        return replace(its, reason=f"it cannot be looked at: {_said(error)}"), None
    return replace(its, rows=table.num_rows, runs=runs, repeats=repeats), table


def _is(column: str) -> str:
    """The verb that agrees with a column's name."""
    return "are" if column in _MANY else "is"


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def read_table(content: bytes, kind: Kind = USAGE) -> pa.Table:
    """All of a file, decoded, texts as dictionaries.

    Arrow says what is wrong with a file by many kinds of errors.
    """
    try:
        columns = tuple(pq.read_schema(io.BytesIO(content)).names)
        if columns != kind.columns:
            _of_other_version(content, columns, kind)
            raise _NoRecordsError("its columns are not those of records")
        file = pq.ParquetFile(io.BytesIO(content), read_dictionary=list(kind.texts))
        # Of a file of few rows threads take longer than they save.
        return file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _NoRecordsError(f"it is no Parquet file: {' '.join(str(error).split())}") from error


def _of_other_version(content: bytes, columns: tuple[str, ...], kind: Kind) -> None:
    if "schema" in columns:
        said = pq.ParquetFile(io.BytesIO(content)).read(["schema"]).column(0)
        for each in dict.fromkeys(said.to_pylist()):
            _check_schema(each, kind)


def _check_schema(said: object, kind: Kind) -> None:
    if said == kind.schema:
        return
    if isinstance(said, str) and said.startswith(f"{kind.schema.partition('/')[0]}/"):
        raise _NewerError(said)
    raise _NoRecordsError(f"a record's schema is {said!r}")


def _check(table: pa.Table, where: Filed, kind: Kind) -> None:
    """Raise where a value is not within its bounds, by columns: rows are many."""
    if table.num_rows == 0:
        raise _NoRecordsError("it has no rows")
    for name in kind.columns:
        column = table.column(name)
        if column.null_count:
            raise _NoRecordsError(f"a record's {name} {_is(name)} null")
        if name in kind.numbers_min:
            _check_numbers(name, column, kind.numbers_min[name])
        else:
            _check_texts(name, column, kind)
    for less, more in kind.at_least:
        if pc.any(pc.less(table.column(more), table.column(less))).as_py():
            raise _NoRecordsError(f"a record has fewer {more} than {less}")
    day = (date.fromisoformat(where.date) - _EPOCH_DAY).days
    first_minute = (day * 24 + where.hour) * 60
    bounds = pc.min_max(table.column("minute"))
    if bounds["min"].as_py() < first_minute or bounds["max"].as_py() >= first_minute + 60:
        raise _NoRecordsError("a minute is not in the hour of its name")


def _check_texts(name: str, column: pa.ChunkedArray, kind: Kind) -> None:
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        raise _NoRecordsError(f"{name} is no text")
    right: Callable[[str], object] = _RIGHT.get(name, bool)
    for value in pc.unique(column).to_pylist():
        if name == "schema":
            _check_schema(value, kind)
        elif len(value) > kind.text_chars_max or (name in _RIGHT and not right(value)):
            raise _NoRecordsError(f"a record's {name} {_is(name)} {value!r}")


_RIGHT: Final[dict[str, Callable[[str], object]]] = {
    "writer": WRITER.fullmatch,
    "account": ACCOUNT.fullmatch,
    "status": STATUSES.__contains__,
}


def _check_numbers(name: str, column: pa.ChunkedArray, least_allowed: int) -> None:
    if not pa.types.is_int64(column.type):
        raise _NoRecordsError(f"{name} is no int64")
    least = pc.min_max(column)["min"].as_py()
    if least < least_allowed:
        raise _NoRecordsError(f"a record's {name} {_is(name)} {least}")
    if name in {"number", "minute"}:
        return
    # Not "safe", which ends at 2^53: what is beyond it is rounded, and refused.
    if pc.sum(column.cast(pa.float64(), safe=False)).as_py() >= _SUM_END:
        raise _NoRecordsError(f"its {name} add up to 2^53 or more")


def _identities(table: pa.Table) -> tuple[tuple[Run, ...], tuple[tuple[str, int, int], ...]]:
    """Runs of numbers, and the numbers that are there more than once, each with its writer."""
    writers = table.column("writer").unify_dictionaries().combine_chunks()
    if isinstance(writers, pa.ChunkedArray):
        writers = pa.concat_arrays(writers.chunks)
    names = writers.dictionary.to_pylist()
    codes: Any = writers.indices.to_numpy()
    numbers: Any = table.column("number").to_numpy()
    minutes: Any = table.column("minute").to_numpy()
    same = codes[1:] == codes[:-1]
    if np.any(same & (np.diff(numbers) < 0)) or _scattered(codes, names):
        order = np.lexsort((numbers, codes))
        codes, numbers, minutes = codes[order], numbers[order], minutes[order]
        same = codes[1:] == codes[:-1]
    step = np.diff(numbers)
    again = np.flatnonzero(same & (step == 0)) + 1
    repeats = tuple(
        (names[code], int(number), int(number))
        for code, number in zip(codes[again], numbers[again], strict=True)
    )
    starts = np.concatenate(([0], np.flatnonzero(~(same & (step <= 1))) + 1))
    ends = np.concatenate((starts[1:] - 1, [len(numbers) - 1]))
    runs = tuple(
        Run(
            names[codes[start]],
            *map(int, (numbers[start], numbers[end], minutes[start], minutes[end])),
        )
        for start, end in zip(starts, ends, strict=True)
    )
    return runs, tuple(dict.fromkeys(repeats))


def _scattered(codes: Any, names: list[str]) -> bool:
    """Whether a writer's rows do not lie together."""
    return int(np.count_nonzero(np.diff(codes))) + 1 > len(names)

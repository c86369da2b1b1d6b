"""What jobs write: tables whose bytes depend on their rows alone, and runs that never change.

A run's tables lie in folders of their own, named by what the run was made from; nothing in them is
ever written over with other bytes. A *pointer* says which run holds for a period: pointers are
numbered, put one after the other, and the highest counts.
"""

import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from glue_jobs.arguments import JobError
from glue_jobs.places import Place

RUN_SCHEMA: Final = "tidegate.run/1"
WRITTEN_BY: Final = f"arrow {pa.__version__}"
"""What settles the bytes of tables besides their rows: runs of another one have another name."""

_DRAFTS: Final = "_drafts"
_POINTERS: Final = "runs"
_COPIES: Final = "pointed"
"""The folder of copies of pointers, each called by its number and its hash."""

ALTERED: Final = "altered"
"""The folder of what lay in place of what was written."""

_POINTER: Final = re.compile(rf"{_POINTERS}/period=([0-9-]+)/[0-9]+\.json")
_COPY: Final = re.compile(rf"{_COPIES}/period=([0-9-]+)/[0-9]+\.[0-9a-f]{{64}}\.json")

_READERS: Final = 8
_ROWS_PER_GROUP: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Written:
    """An object that a run put."""

    name: str
    bytes: int
    sha256: str


def canonical(value: Any) -> bytes:
    """The one text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def put_once(place: Place, name: str, content: bytes) -> Written:
    """Put an object of a run. Raises JobError where there is one with other bytes."""
    if not place.put_new(name, content) and place.read(name) != content:
        raise JobError(f"{place.url}/{name}: another run of the same inputs wrote other bytes")
    return Written(name, len(content), sha256(content).hexdigest())


def write_table(table: DataFrame, place: Place, folder: str, keys: Sequence[str]) -> list[Written]:
    """Put a table with a column `date` as one Parquet file for each day, rows in order of `keys`.

    `keys` tell rows apart, so that their order, and with it each byte, is settled. Spark's own
    files have the same rows in bytes that differ from process to process: they are drafts.
    """
    place.clear(f"{_DRAFTS}/{folder}")
    # Spark's Java may still write for a moment after the process that began it was killed.
    drafts = f"{_DRAFTS}/{folder}/{os.getpid()}"
    ordered = table.repartition("date").sortWithinPartitions("date", *keys)
    ordered.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").partitionBy(
        "date"
    ).parquet(f"{place.url}/{drafts}")
    written = []
    for found in place.list(f"{drafts}/"):
        day = found.name.removeprefix(f"{drafts}/").rpartition("/")[0]
        content = canonical_parquet(place.read(found.name))
        written.append(put_once(place, f"{folder}/{day}/rows.parquet", content))
    place.clear(f"{_DRAFTS}/{folder}")
    names = [its.name for its in written]
    if len(names) != len(set(names)):
        raise JobError(f"{folder}: a day has more than one file")
    return written


def with_columns_of(table: DataFrame, like: DataFrame) -> DataFrame:
    """A table with the columns of another one; what was written before some were has null there."""
    missing = {
        its.name: f.lit(None).cast(its.dataType)
        for its in like.schema
        if its.name not in table.columns
    }
    return (
        table.withColumns(missing).select(*like.columns) if missing else table.select(*like.columns)
    )


def canonical_parquet(content: bytes) -> bytes:
    """The one Parquet file with the columns and rows of this one, as `WRITTEN_BY` writes it.

    Times of the day are in microseconds, UTC.
    """
    return parquet_of(pq.ParquetFile(io.BytesIO(content)).read())


def parquet_of(table: pa.Table) -> bytes:
    """A table as `WRITTEN_BY` writes it."""
    # How rows were cut into pieces, and what a writer says of itself, is no part of them.
    table = table.replace_schema_metadata(None).combine_chunks()
    written = io.BytesIO()
    pq.write_table(
        table,
        written,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
        coerce_timestamps="us",
        store_schema=False,
    )
    return written.getvalue()


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which run holds for a period; `closed` ones hold for good. `said` is the whole of it.

    `sha256` is that of the object as it was put. Where what lies there is `is_altered`, all of this
    is by its copy, if there is one.
    """

    number: int
    period: str
    run: str
    closed: bool
    said: dict[str, Any]
    sha256: str = ""
    is_altered: bool = False

    @property
    def name(self) -> str:
        """What its object is called."""
        return f"{_POINTERS}/period={self.period}/{self.number:06}.json"


def pointer_of(place: Place, period: str) -> Pointer | None:
    """The pointer that counts for a period."""
    return next((its for its in pointers(place) if its.period == period), None)


def pointers(place: Place) -> list[Pointer]:
    """The pointer that counts of each period, in their order, as it was put.

    That is what its copy says, and what pointers of later periods have as its hash. Raises JobError
    where it was altered, and nothing says what it was.
    """
    last: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    for its in place.list(f"{_POINTERS}/period="):
        if found := _POINTER.fullmatch(its.name):
            last[found[1]] = its.name
    for its in place.list(f"{_COPIES}/period="):
        if found := _COPY.fullmatch(its.name):
            copies.setdefault(found[1], []).append(its.name)
    bound: dict[str, str] = {}
    known: list[Pointer] = []
    for period in sorted({*last, *copies}, reverse=True):
        name, its_hash = last.get(period, ""), bound.get(period, "")
        # A copy alone is what a run left that was cut off, if no later one knows of it.
        if name or its_hash:
            pointer = _pointer(place, name, copies.get(period, []), its_hash)
            known.append(pointer)
            bound = {**pointer.said.get("bound", {}), **bound}
    return known[::-1]


def _pointer(place: Place, name: str, copies: Sequence[str], bound: str) -> Pointer:
    """A pointer by its object, its period's copies, and the hash that later ones have of it."""
    content = place.read(name) if name else b""
    digest = sha256(content).hexdigest()
    number = name.rpartition("/")[2].removesuffix(".json")
    of_number = {_hash_in(its): its for its in copies if f"/{number}." in its}
    if bound in {"", digest} and digest in of_number:
        return _parsed(place, name, content, digest)
    if bound:
        candidates = [its for its in copies if _hash_in(its) == bound]
    else:
        candidates = [its for known, its in of_number.items() if _hash_of(place, its) == known]
    if len(candidates) == 1 and _hash_of(place, candidates[0]) == _hash_in(candidates[0]):
        copy = candidates[0]
        its = _parsed(place, copy, place.read(copy), _hash_in(copy))
        return replace(its, is_altered=True)
    if candidates or not name:
        raise JobError(f"{place.url}/{name}: it was altered; put it back from a copy of yours")
    its = _parsed(place, name, content, bound or digest)
    # Runs of before have no copies; behind one that has a copy none is of before.
    has_copies = any(its.rpartition("/")[2] < f"{number}." for its in copies)
    is_altered = has_copies or "bound" in its.said or bound not in {"", digest}
    return replace(its, is_altered=is_altered)


def _hash_in(copy: str) -> str:
    return copy.split(".")[-2]


def _parsed(place: Place, name: str, content: bytes, digest: str) -> Pointer:
    try:
        said = json.loads(content)
        schema, period = said["schema"], said["period"]
        run, closed = said["run"], said["state"] == "closed"
    except (ValueError, KeyError, TypeError) as error:
        raise JobError(
            f"{place.url}/{name}: it is no pointer to a run ({error!r}); put it back from a copy of"
            " yours"
        ) from error
    if schema != RUN_SCHEMA:
        raise JobError(f"{place.url}/{name}: its schema is not {RUN_SCHEMA}")
    number = int(name.rpartition("/")[2].split(".")[0])
    return Pointer(number, period, run, closed, said, digest)


def altered_of(place: Place, runs: Sequence[Pointer]) -> dict[str, tuple[Pointer, list[str]]]:
    """Which objects of these runs, pointers among them, are gone or were altered, by period."""
    return {its.period: (its, names) for its in runs if (names := _altered(place, its))}


def set_aside(place: Place, its: Pointer, names: Sequence[str]) -> None:
    """Keep what an open period has in place of these by its hash: they are written again."""
    for name in names:
        if name == its.name:
            _put_back(place, its)
        elif digest := _hash_of(place, name):
            place.move(name, f"{ALTERED}/{digest}")


def _put_back(place: Place, its: Pointer) -> None:
    """Put a pointer as it was, if a copy says so."""
    with suppress(FileNotFoundError):
        content = place.read(its.name)
        place.put_new(f"{ALTERED}/{sha256(content).hexdigest()}", content)
    with suppress(FileNotFoundError):
        place.put(its.name, place.read(_copy_of(its)))


def _copy_of(its: Pointer) -> str:
    return f"{_COPIES}/period={its.period}/{its.number:06}.{its.sha256}.json"


def _altered(place: Place, pointer: Pointer) -> list[str]:
    files = pointer.said["files"]
    with ThreadPoolExecutor(_READERS) as readers:
        whole = readers.map(lambda its: _hash_of(place, its["name"]) == its["sha256"], files)
        names = [its["name"] for its, is_whole in zip(files, whole, strict=True) if not is_whole]
    return [*([pointer.name] if pointer.is_altered else []), *names]


def _hash_of(place: Place, name: str) -> str:
    """What an object hashes to, "" where there is none; of a link, which is not read, its name."""
    try:
        return sha256(place.read(name)).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError:
        return sha256(name.encode()).hexdigest()


def point(place: Place, period: str, said: dict[str, Any], files: Iterable[Written]) -> Pointer:
    """Put the pointer to a run, last of all.

    Raises JobError where another run did so meanwhile, or closed the period: that holds for good.
    """
    listed = [{"name": its.name, "bytes": its.bytes, "sha256": its.sha256} for its in sorted(files)]
    its = {"schema": RUN_SCHEMA, "period": period, **said, "files": listed}
    said = json.loads(canonical(its))
    before = pointer_of(place, period)
    if before is not None and before.said == said:
        return before
    if before is not None and before.closed:
        raise JobError(f"period {period}: another run closed it meanwhile: run {before.run} stands")
    number = before.number + 1 if before is not None else 1
    content = canonical(said) + b"\n"
    digest = sha256(content).hexdigest()
    pointer = Pointer(number, period, said["run"], said["state"] == "closed", said, digest)
    # First, so that none counts that has no copy.
    place.put_new(_copy_of(pointer), content)
    # One whose answer was lost is there, and put again.
    if not place.put_new(pointer.name, content) and place.read(pointer.name) != content:
        raise JobError(f"period {period}: another run ended at the same time; run again")
    return pointer

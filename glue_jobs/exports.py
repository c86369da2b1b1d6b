"""Exports of cells, read with typed columns: DynamoDB's to S3, and those of `tidegate export`.

A full export has all items as of a moment; an incremental one has, for each item that changed
between two moments, what it was before and what it is now. What was removed meanwhile is there
with its old image alone: that is how messages that a table's TTL took leave their trace.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from glue_jobs.arguments import JobError
from glue_jobs.export_table import FORMAT, FULL
from glue_jobs.places import Place
from glue_jobs.verifier import DIGESTS

ROOT: Final = "AWSDynamoDB/"
SUMMARY: Final = "manifest-summary.json"

_DAY_US: Final = 86_400_000_000
TRACES_KEPT_US: Final = 3 * _DAY_US
"""For so long a cell keeps traces: an export that comes sooner has all that was ever sent."""

_BESIDE_DATA: Final = ("manifest-", "_started")
"""What the names of an export's files begin with that have no items in them."""

ATTRIBUTES: Final = (
    *("pk", "sk", "v", "k", "t", "b", "i", "n", "y", "l", "x", "j", "d", "gd", "gr"),
    *("c", "s", "u", "r", "m", "f", "p", "a", "q", "e", "g", "o", "rb", "ra", "w", "h"),
)
"""Of all items of docs/storage.md, those that jobs read. Of bodies they have their digests."""

_VALUE: Final = StructType(
    [
        StructField("S", StringType()),
        StructField("N", StringType()),
        StructField("B", StringType()),
        StructField("NS", ArrayType(StringType())),
    ]
)
_ITEM: Final = MapType(StringType(), _VALUE)
_OWN: Final = ("R", "E", "x")
"""Attributes of an item that need not be the same in all copies of it (docs/audit.md)."""
_LINE: Final = StructType(
    [
        *(StructField(name, _ITEM) for name in ("Item", "NewImage", "OldImage")),
        StructField("Metadata", StructType([StructField("WriteTimestampMicros", _VALUE)])),
        StructField("damaged", StringType()),
    ]
)
_SORT_PREFIX_BYTES: Final = 1
_SORT_BYTES_MAX: Final = 1024
_READERS: Final = 8


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A data file of an export: its name in the place, and how many lines its manifest says."""

    name: str
    items: int
    md5: str


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a table or cell, in microseconds since the epoch.

    It has everything as of `as_of_us`; an incremental one what changed since `from_us`.
    """

    name: str
    table: str
    as_of_us: int
    from_us: int
    is_full: bool
    files: tuple[ExportFile, ...]
    has_traces: bool = False
    """Whether it is of an embedded cell, which keeps traces of what it removed."""
    cells: tuple[str, ...] = ()
    """Names of all cells of the service, where an export says so."""

    @property
    def cell(self) -> str:
        """The cell's name, or the table's."""
        return self.table.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Refused:
    """An export, or what looks like one, that is not read, and why."""

    name: str
    reason: str


def find_exports(place: Place) -> tuple[list[Export], list[Refused], list[str]]:
    """The exports in a place by their moments, those that are not whole, and what is none's."""
    names = [found.name for found in place.list("")]
    exports: list[Export] = []
    refused: list[Refused] = []
    for summary in names:
        if not summary.endswith(f"/{SUMMARY}") or ROOT not in summary:
            continue
        name = summary.removesuffix(f"/{SUMMARY}")
        try:
            export = _read_manifest(place, name)
            _check_files(place, export)
        except (KeyError, TypeError, ValueError, OSError) as error:
            refused.append(Refused(name, _why(error)))
        else:
            exports.append(export)
    exports.sort(key=lambda export: (export.as_of_us, not export.is_full, export.name))
    return exports, refused, _strays(names, exports, refused)


def _why(error: Exception) -> str:
    """Why an export cannot be read, in words."""
    if isinstance(error, json.JSONDecodeError):
        return f"a manifest is no JSON: {error}"
    if isinstance(error, KeyError):
        return f"a manifest lacks {error}"
    if isinstance(error, FileNotFoundError):
        return f"a file is not there: {error.filename or error}"
    if isinstance(error, OSError):
        return f"a file cannot be read: {error.strerror or error}"
    return str(error) if isinstance(error, ValueError) else f"a manifest is damaged: {error}"


def _strays(
    names: Iterable[str], exports: Iterable[Export], refused: Iterable[Refused]
) -> list[str]:
    data = {file.name for export in exports for file in export.files}
    own = [f"{export.name}/{what}" for export in exports for what in _BESIDE_DATA]
    of_known = (DIGESTS, *own, *(f"{each.name}/" for each in refused))
    return [name for name in names if name not in data and not name.startswith(of_known)]


def complete_to_us(exports: Sequence[Export]) -> int:
    """The moment up to which all cells are exported."""
    return min(max(its.as_of_us for its in of) for of in by_cell(exports).values())


def by_cell(exports: Sequence[Export]) -> dict[str, list[Export]]:
    """The exports of each cell."""
    return {cell: [its for its in exports if its.cell == cell] for cell in cells_of(exports)}


def cells_of(exports: Sequence[Export]) -> list[str]:
    """The names of the cells that there are exports of."""
    return sorted({its.cell for its in exports})


def gaps_between(exports: Sequence[Export]) -> list[str]:
    """Times, and whole cells, that no export covers, each as a line."""
    of_cells: dict[str, list[Export]] = {}
    for export in exports:
        of_cells.setdefault(export.cell, []).append(export)
    named = {cell for export in exports for cell in export.cells}
    gaps = [f"there is no export of {cell}" for cell in sorted(named - of_cells.keys())]
    for its in of_cells.values():
        gaps += _gaps_of_one(its)
    newest = max(exports, key=lambda its: its.as_of_us, default=None)
    return gaps + (behind(exports, newest.cells) if newest is not None else [])


def behind(exports: Sequence[Export], cells: Iterable[str]) -> list[str]:
    """Those of these cells whose last export is so old that nobody knows what went there since.

    Each as a line.
    """
    last = {cell: max(its.as_of_us for its in of) for cell, of in by_cell(exports).items()}
    newest = max(last, key=lambda cell: last[cell])
    return [
        f"the last export of {cell} is {passed_us / _DAY_US:.1f} days older than that of {newest}"
        for cell in sorted({*cells} & last.keys())
        if (passed_us := last[newest] - last[cell]) > TRACES_KEPT_US
    ]


def _gaps_of_one(exports: Sequence[Export]) -> list[str]:
    gaps = []
    for before, export in pairwise(exports):
        passed_us = export.as_of_us - before.as_of_us
        if not export.is_full and export.from_us > before.as_of_us:
            gaps.append(f"{export.name} begins after {before.name} ended: one is missing")
        elif export.is_full and export.has_traces and passed_us > TRACES_KEPT_US:
            days = passed_us / _DAY_US
            gaps.append(f"{export.name} is {days:.1f} days after {before.name}: traces are gone")
    return gaps


def _read_manifest(place: Place, name: str) -> Export:
    content = place.read(f"{name}/{SUMMARY}")
    summary = json.loads(content)
    if summary["outputFormat"] != FORMAT:
        raise ValueError(f"its format is {summary['outputFormat']}, not {FORMAT}")
    before = name[: name.index(ROOT)]
    key = str(summary["manifestFilesS3Key"])
    listed = place.read(before + key[key.index(ROOT) :])
    if "tidegate" in summary:
        _check_sum(place, f"{name}/{SUMMARY}", content)
        _check_sum(place, before + key[key.index(ROOT) :], listed)
    lines = listed.splitlines()
    files = []
    for line in map(json.loads, lines):
        data = str(line["dataFileS3Key"])
        md5 = str(line["md5Checksum"])
        files.append(ExportFile(before + data[data.index(ROOT) :], int(line["itemCount"]), md5))
    if sum(file.items for file in files) != int(summary["itemCount"]):
        raise ValueError("its manifests count items differently")
    is_full = summary.get("exportType", FULL) == FULL
    own: dict[str, Any] = summary.get("tidegate", {})
    return Export(
        name=name,
        table=str(summary["tableArn"]),
        as_of_us=int(own["as_of_us"]) if own else _us(summary, "exportTime", "exportToTime"),
        from_us=0 if is_full else _us(summary, "exportFromTime"),
        is_full=is_full,
        files=tuple(files),
        has_traces=bool(own),
        cells=tuple(own.get("cells", ())),
    )


def _us(summary: dict[str, Any], *names: str) -> int:
    """The first of these times that is there, in microseconds since the epoch."""
    text = next(str(summary[name]) for name in names if summary.get(name))
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _check_sum(place: Place, name: str, content: bytes) -> None:
    said = place.read(f"{name.removesuffix('.json')}.checksum").decode().strip()
    if said != _md5(content):
        raise ValueError(f"{name} is not what its checksum says")


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _check_files(place: Place, export: Export) -> None:
    def check(file: ExportFile) -> None:
        if _md5(place.read(file.name)) != file.md5:
            raise ValueError(f"{file.name} is not the file of the manifest")

    with ThreadPoolExecutor(_READERS) as readers:
        list(readers.map(check, export.files))


def observations(session: SparkSession, place: Place, exports: Sequence[Export]) -> DataFrame:
    """What the exports say of items: a row for each time that one was seen.

    `partition` and `sort` are the item's key, `item` its attributes with their types, `revision`
    how often one on a chain was written, `content` a digest of all that copies of it have in
    common, `cell` the cell's or table's name, `as_of_us` when the export is of, `is_gone` whether
    it says that the item was removed: then `item` is what it was. Raises JobError where a line is
    no DynamoDB JSON.
    """
    if not exports:
        raise JobError(f"{place.url}: there is no export to read")
    seen = [_observed(session, place, export) for export in exports]
    return reduce(DataFrame.unionByName, seen)


def _observed(session: SparkSession, place: Place, export: Export) -> DataFrame:
    paths = [f"{place.url}/{file.name}" for file in export.files]
    if not paths:
        lines = session.createDataFrame([], _LINE)
    else:
        reader = session.read.schema(_LINE).option("columnNameOfCorruptRecord", "damaged")
        lines = reader.option("mode", "PERMISSIVE").json(paths)
    if export.is_full:
        item, is_gone = f.col("Item"), f.expr("false")
    else:
        item = f.coalesce("NewImage", "OldImage")
        is_gone = f.col("NewImage").isNull()
    images = lines.select(item.alias("image"), is_gone.alias("is_gone"), "damaged")
    image = f.col("image")
    why = f.concat(f.lit(f"{export.name}: a line is no item in DynamoDB JSON: "), _excerpt())
    partition = f.coalesce(image["pk"]["S"], f.raise_error(why).cast("string"))
    return images.select(
        partition.alias("partition"),
        _sort_of(image).alias("sort"),
        f.struct(*(image[name].alias(name) for name in ATTRIBUTES)).alias("item"),
        image["R"]["N"].cast("bigint").alias("revision"),
        _content_of(image).alias("content"),
        f.lit(export.cell).alias("cell"),
        f.lit(export.as_of_us).alias("as_of_us"),
        f.lit(export.from_us).alias("from_us"),
        f.lit(export.is_full).alias("of_full"),
        "is_gone",
    )


def _content_of(image: Column) -> Column:
    common = f.map_filter(image, lambda name, _value: ~name.isin("pk", *_OWN))
    in_order = f.transform(
        f.array_sort(f.map_entries(common)),
        lambda its: f.struct(
            its["key"].alias("name"),
            *(its["value"][kind].alias(kind) for kind in ("S", "N", "B")),
            f.array_sort(its["value"]["NS"]).alias("NS"),
        ),
    )
    return f.md5(f.to_json(in_order))


def _excerpt() -> Column:
    return f.coalesce(f.substring("damaged", 1, 80), f.lit("it has no key"))


def _sort_of(item: Column) -> Column:
    """Without the zero byte that DynamoDB's cells put before each."""
    return f.substring(f.unbase64(item["sk"]["B"]), _SORT_PREFIX_BYTES + 1, _SORT_BYTES_MAX)


def number(name: str) -> Column:
    """An integer attribute of `item`."""
    return f.col("item")[name]["N"].cast("bigint")


def text(name: str) -> Column:
    """A text attribute of `item`."""
    return f.col("item")[name]["S"]


def octets(name: str) -> Column:
    """A bytes attribute of `item`."""
    return f.unbase64(f.col("item")[name]["B"])


def numbers(name: str) -> Column:
    """An attribute of `item` that is a set of integers; an empty one where it is absent."""
    return f.coalesce(
        f.col("item")[name]["NS"].cast("array<bigint>"), f.array().cast("array<bigint>")
    )


def be64(octets_column: Column, at: int) -> Column:
    """An integer of 8 bytes, big endian, from byte `at` (1 is the first) of a column of bytes."""
    return f.conv(f.hex(f.substring(octets_column, at, 8)), 16, 10).cast("bigint")

"""Sums of whole files by the hour, made where Spark's executors are.

A file is of one hour, so that its sums are few. Arrow adds up a file's columns many times faster
than rows that are handed to Spark; what Spark adds up then are sums of files.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from glue_jobs.places import Place
from glue_jobs.records import COLUMNS, TEXTS
from glue_jobs.screening import read_table
from glue_jobs.usage import KEYS, RECEIVE, SUMS

SCHEMA: Final = StructType(
    [StructField(name, StringType() if name in TEXTS else LongType()) for name in (*KEYS, *SUMS)]
)
_ARROW: Final = pa.schema(
    [(name, pa.string() if name in TEXTS else pa.int64()) for name in (*KEYS, *SUMS)]
)
_SLICES_PER_CORE: Final = 4
_MINUTES_PER_HOUR: Final = 60


def file_sums(session: SparkSession, place: Place, names: Sequence[str]) -> DataFrame:
    """Hourly usage of each of the files, by `KEYS`; a key is there once for each file."""
    if not names:
        return session.createDataFrame([], SCHEMA)
    slices = min(len(names), session.sparkContext.defaultParallelism * _SLICES_PER_CORE)
    files = session.createDataFrame([(name,) for name in names], "name string")
    return files.repartition(slices).mapInArrow(partial(_of_files, place), SCHEMA)


def _of_files(place: Place, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name in batch.column(0).to_pylist():
            yield from sums_of(read_table(place.read(name))).to_batches()


def sums_of(records: pa.Table) -> pa.Table:
    """Sums of records by `KEYS`; screening has seen to it that none is beyond 64 bits."""
    empty = pc.and_(
        pc.and_(
            pc.equal(records.column("operation").cast(pa.string()), RECEIVE),
            pc.equal(records.column("status").cast(pa.string()), "2xx"),
        ),
        pc.equal(records.column("messages"), 0),
    )
    table = (
        records.unify_dictionaries()
        .append_column("hour", pc.divide(records.column("minute"), _MINUTES_PER_HOUR))
        .append_column("empty_receives", pc.if_else(empty, records.column("requests"), 0))
    )
    added = [(name, "sum") for name in SUMS if name in COLUMNS or name == "empty_receives"]
    summed = table.group_by(list(KEYS), use_threads=False).aggregate([*added, ([], "count_all")])
    columns = {name: summed.column(name) for name in KEYS}
    columns |= {name: summed.column(f"{name}_sum") for name, _ in added}
    columns["records"] = summed.column("count_all")
    return pa.table([columns[field.name].cast(field.type) for field in _ARROW], schema=_ARROW)

"""Sums of records by the hour, made where Spark's executors are.

Arrow adds up columns many times faster than rows that are handed to Spark; what Spark adds up then
are sums of hours.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType

from glue_jobs.records import COLUMNS, SUMS, TEXTS
from glue_jobs.usage import KEYS, RECEIVE

SCHEMA: Final = StructType(
    [StructField(name, StringType() if name in TEXTS else LongType()) for name in (*KEYS, *SUMS)]
)
ARROW_SUMS: Final = pa.schema(
    [(name, pa.string() if name in TEXTS else pa.int64()) for name in (*KEYS, *SUMS)]
)
_MINUTES_PER_HOUR: Final = 60


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
    return pa.table(
        [columns[field.name].cast(field.type) for field in ARROW_SUMS], schema=ARROW_SUMS
    )

"""Usage: from records, each counted once, to sums by the hour.

Only records that may be there twice are compared with each other: screening knows which numbers
those are. All others go straight into the sums, so nothing is sorted or sent about because of them.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from glue_jobs.records import COLUMNS, SUMS, TEXTS

SPARK_SCHEMA: Final = StructType(
    [
        StructField(name, StringType() if name in TEXTS else LongType(), nullable=False)
        for name in COLUMNS
    ]
)
"""Of records."""

KEYS: Final = ("hour", "account", "region", "queue", "operation", "status", "code")
"""What a row of hourly usage is about; `hour` is counted since the epoch, UTC."""

IDENTITY: Final = ("writer", "number")
Range = tuple[str, int, int]

_MINUTES_PER_HOUR: Final = 60
_RANGES: Final = "writer string, first bigint, last bigint"
RECEIVE: Final = "ReceiveMessage"


def read_records(session: SparkSession, urls: Sequence[str]) -> DataFrame:
    """The records of screened files."""
    if not urls:
        return session.createDataFrame([], SPARK_SCHEMA)
    return session.read.schema(SPARK_SCHEMA).parquet(*urls).select(*COLUMNS)


def doubtful(records: DataFrame, copies: Sequence[Range]) -> DataFrame:
    """The different records among those that may repeat, and how many `versions` each one has.

    `copies` are ranges (writer, first, last) of numbers.
    """
    its = records.join(_numbers(records.sparkSession, copies), list(IDENTITY), "left_semi")
    versions = f.count(f.lit(1)).over(Window.partitionBy(*IDENTITY))
    return its.distinct().withColumn("versions", versions)


def once(records: DataFrame, copies: Sequence[Range], its: DataFrame) -> DataFrame:
    """Each record once; `its` is what `doubtful` says of them.

    Where records of one identity differ, nobody knows which was served: none of them is there.
    """
    sure = records.join(_numbers(records.sparkSession, copies), list(IDENTITY), "left_anti")
    return sure.unionByName(its.where("versions = 1").drop("versions"))


def conflicts(its: DataFrame) -> DataFrame:
    """Identities (writer, number) whose records differ, in their order."""
    return its.where("versions > 1").select(*IDENTITY).distinct().orderBy(*IDENTITY)


def _numbers(session: SparkSession, ranges: Sequence[Range]) -> DataFrame:
    found = session.createDataFrame(list(ranges), _RANGES)
    return found.select("writer", f.explode(f.sequence("first", "last")).alias("number"))


def hourly(records: DataFrame) -> DataFrame:
    """Sums of records by `KEYS`."""
    added = [f.sum(name).alias(name) for name in SUMS if name in COLUMNS]
    return (
        records.withColumn("hour", f.expr(f"minute div {_MINUTES_PER_HOUR}"))
        .groupBy(*KEYS)
        .agg(
            f.count(f.lit(1)).alias("records"),
            *added,
            f.sum(f.when(_is_empty_receive(), f.col("requests")).otherwise(0)).alias(
                "empty_receives"
            ),
        )
        .select(*KEYS, *SUMS)
    )


def added(sums: DataFrame) -> DataFrame:
    """Sums of sums: each key once."""
    return sums.groupBy(*KEYS).agg(*(f.sum(name).alias(name) for name in SUMS))


def with_date(table: DataFrame) -> DataFrame:
    """A table with the day of its `hour`, by which it is filed."""
    day = f.date_format(f.timestamp_seconds(f.col("hour") * 3600), "yyyy-MM-dd")
    return table.withColumn("date", day)


def _is_empty_receive() -> Column:
    return (f.col("operation") == RECEIVE) & (f.col("status") == "2xx") & (f.col("messages") == 0)

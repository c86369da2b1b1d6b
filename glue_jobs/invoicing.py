"""Invoices: what rated usage of a period, and corrections of closed ones, come to for an account.

A line is a day's charge of a queue, an operation, a SKU and a tier. A closed period is never
rated again for its own invoices: what became known later is the difference to what was invoiced,
and stands as correction lines in the next open period, each under the day that it is about.
"""

import re
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType

from glue_jobs.arguments import JobError
from glue_jobs.billing import MONEY, PRICE

LINE_KEYS: Final = (
    *("account", "date", "kind", "of_period", "region", "queue", "queue_type"),
    *("operation", "sku", "tier"),
)
LINES: Final = (*LINE_KEYS, "quantity", "price", "cost")

PAYABLE: Final = DecimalType(18, 2)
USAGE, CORRECTION, ROUNDING = "usage", "correction", "rounding"

_PERIOD: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_SECONDS_PER_HOUR: Final = 3600


def period_of(text: str) -> str:
    """The period that a text names. Raises JobError where it names none."""
    if not _PERIOD.fullmatch(text):
        raise JobError(f"period: {text!r} is no month, YYYY-MM")
    return text


def first_hour(period: str) -> int:
    """The hour since the epoch in which a period begins, UTC."""
    year, month = map(int, period.split("-"))
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) // _SECONDS_PER_HOUR


def next_period(period: str, count: int = 1) -> str:
    """The period so many after it."""
    year, month = map(int, period.split("-"))
    months = year * 12 + month - 1 + count
    return f"{months // 12:04}-{months % 12 + 1:02}"


def lines_of(rated: DataFrame, period: str) -> DataFrame:
    """Lines of a period's own usage."""
    date = f.date_format(f.timestamp_seconds(f.col("hour") * _SECONDS_PER_HOUR), "yyyy-MM-dd")
    keyed = rated.select(
        "account",
        date.alias("date"),
        f.lit(USAGE).alias("kind"),
        f.lit(period).alias("of_period"),
        *("region", "queue", "queue_type", "operation", "sku", "tier", "quantity", "price", "cost"),
    )
    return _summed(keyed).select(*LINES)


def corrections(now: DataFrame, invoiced: DataFrame) -> DataFrame:
    """What lines of a closed period are `now`, less what was `invoiced` of it, where that differs.

    `invoiced` are the period's lines, and the corrections of it in periods closed since.
    """
    less = invoiced.withColumns(
        {"quantity": -f.col("quantity"), "cost": (-f.col("cost")).cast(MONEY)}
    )
    both = now.select(*LINES).unionByName(less.select(*LINES))
    difference = _summed(both.withColumn("kind", f.lit(CORRECTION)))
    return difference.where("quantity != 0 OR cost != 0").select(*LINES)


def _summed(lines: DataFrame) -> DataFrame:
    return lines.groupBy(*LINE_KEYS, "price").agg(
        f.sum("quantity").alias("quantity"), f.sum("cost").cast(MONEY).alias("cost")
    )


def invoices(lines: DataFrame, period: str) -> DataFrame:
    """An invoice for each account: what its lines come to exactly, and what is to be paid.

    The whole is rounded once, half up to a cent; the `rounding` is said, and is a line of its own.
    """
    of_kind = {
        kind: f.sum(f.when(f.col("kind") == kind, f.col("cost")).otherwise(f.lit(0).cast(MONEY)))
        for kind in (USAGE, CORRECTION)
    }
    summed = lines.groupBy("account").agg(
        of_kind[USAGE].cast(MONEY).alias("usage_cost"),
        of_kind[CORRECTION].cast(MONEY).alias("correction_cost"),
    )
    exact = (f.col("usage_cost") + f.col("correction_cost")).cast(MONEY)
    return summed.select(
        f.concat_ws("-", "account", f.lit(period)).alias("invoice_id"),
        "account",
        f.lit(period).alias("period"),
        f.concat(f.lit(period), f.lit("-01")).alias("date"),
        "usage_cost",
        "correction_cost",
        f.round(exact, 2).cast(PAYABLE).alias("payable"),
    ).withColumn(
        "rounding",
        (f.col("payable").cast(MONEY) - f.col("usage_cost") - f.col("correction_cost")).cast(MONEY),
    )


def rounding_lines(invoices_: DataFrame) -> DataFrame:
    """The line of each invoice that makes its lines add up to what is to be paid."""
    empty = {name: f.lit("") for name in ("region", "queue", "queue_type", "operation", "sku")}
    return invoices_.where("rounding != 0").select(
        *("account", "date"),
        f.lit(ROUNDING).alias("kind"),
        f.col("period").alias("of_period"),
        *(value.alias(name) for name, value in empty.items()),
        f.lit(0).cast("int").alias("tier"),
        f.lit(0).cast("bigint").alias("quantity"),
        f.lit(0).cast(PRICE).alias("price"),
        f.col("rounding").alias("cost"),
    )

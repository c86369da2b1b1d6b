"""Billing: from hourly usage and a price book to charges, in exact decimals.

A book says how the free quantity and tiers are spread over an account's month: in proportion
(proportion.py), or, as books without a word of it mean, in one order: by hour, region, SKU, queue
and operation. There the free quantity goes to what comes first. Tiers begin to count with the
first unit of a SKU in a region, free ones included. So a charge does not depend on how usage was
cut into rows, nor on the order in which it came.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from glue_jobs.arguments import JobError
from glue_jobs.price_book import ANY, PLACES, PriceBook
from glue_jobs.proportion import FREE_TIER, NO_END, each_of, spread
from glue_jobs.records import FIFO_SUFFIX

MONEY: Final = DecimalType(38, PLACES)
"""Of a charge: 19 digits before the point, 19 after it."""

PRICE: Final = DecimalType(20, 10)
"""Of a unit, as the price book has it."""

_WHOLE: Final = DecimalType(19, 0)
_EACH: Final = DecimalType(PLACES, PLACES)

RATED_KEYS: Final = (
    *("hour", "account", "region", "queue", "queue_type", "operation", "sku", "tier"),
)
RATED: Final = StructType(
    [
        StructField("hour", LongType(), nullable=True),
        StructField("account", StringType(), nullable=True),
        StructField("region", StringType(), nullable=True),
        StructField("queue", StringType(), nullable=True),
        StructField("queue_type", StringType(), nullable=False),
        StructField("operation", StringType(), nullable=True),
        StructField("sku", StringType(), nullable=True),
        StructField("tier", IntegerType(), nullable=True),
        StructField("quantity", LongType(), nullable=True),
        StructField("price", PRICE, nullable=True),
        StructField("cost", MONEY, nullable=True),
        StructField("list_price", PRICE, nullable=True),
    ]
)
"""Rated usage; tier 0 is the free quantity, the book's first tier is 1. `price` is for a unit of
the SKU, less its discount, where `list_price` is not; `quantity` counts single things."""


_CHARGES: Final = "queue_type string, operation string, sku string, of string, pooled boolean"
_TIERS: Final = StructType(
    [
        StructField("sku", StringType()),
        StructField("region", StringType()),
        StructField("tier", IntegerType()),
        StructField("tier_start", LongType()),
        StructField("tier_end", LongType()),
        StructField("price", PRICE),
        StructField("each", _EACH),
    ]
)


def billed(usage: DataFrame, book: PriceBook) -> DataFrame:
    """The hourly usage that the book charges for, of accounts that are known by their id."""
    return usage.where(is_billed(book))


def is_billed(book: PriceBook) -> Column:
    """Whether the book charges for a row of usage, be it at the price of the free quantity."""
    its = (
        (f.col("account") != "")
        & ~f.col("status").isin(*book.unbilled_statuses)
        & ~f.col("code").isin(*book.unbilled_codes)
        & ~f.col("operation").isin(*book.unbilled_operations)
    )
    for name in book.unbilled_operations:
        if name.endswith(ANY):
            its &= ~f.col("operation").startswith(name.removesuffix(ANY))
    return its


def with_queue_type(usage: DataFrame, fair: Mapping[str, Sequence[str]]) -> DataFrame:
    """Usage with the type of its queue; `fair` are names of fair queues by their account."""
    # Each once: a queue that is named twice would be charged twice.
    pairs = sorted({(account, queue) for account, queues in fair.items() for queue in queues})
    is_fifo = f.col("queue").endswith(FIFO_SUFFIX)
    if not pairs:
        return usage.withColumn("queue_type", f.when(is_fifo, "fifo").otherwise("standard"))
    named = usage.sparkSession.createDataFrame(
        [(*pair, True) for pair in pairs], "account string, queue string, fair boolean"
    )
    return (
        usage.join(f.broadcast(named), ["account", "queue"], "left")
        .withColumn(
            "queue_type",
            f.when(is_fifo, "fifo").when(f.col("fair"), "fair").otherwise("standard"),
        )
        .drop("fair")
    )


def rate(usage: DataFrame, book: PriceBook) -> DataFrame:
    """What usage costs, by `RATED_KEYS`; `usage` is what `billed` and `with_queue_type` leave.

    Raises JobError where the book lacks a price.
    """
    kinds = usage.select("queue_type", "operation", "region").distinct().collect()
    charged = [
        (kind, operation, region, sku)
        for kind, operation, region in sorted(tuple(row) for row in kinds)
        for sku in book.skus_of(kind, operation)
    ]
    charges = sorted({(kind, operation, sku) for kind, operation, _, sku in charged})
    pairs = sorted({(sku, region) for _, _, region, sku in charged})
    charged = _charged(usage, book, charges)
    if book.is_proportional:
        return _checked(spread(charged, book, pairs))
    return _checked(_priced(_placed(charged, book), book, pairs))


def _charged(
    usage: DataFrame, book: PriceBook, charges: Sequence[tuple[str, str, str]]
) -> DataFrame:
    """Quantities of SKUs: a row for each SKU that an operation is charged as."""
    rows = [(*its, book.skus[its[2]].of, its[2] in book.free_skus) for its in charges]
    table = usage.sparkSession.createDataFrame(rows, _CHARGES)
    counted = sorted({sku.of for sku in book.skus.values()})
    quantity = f.coalesce(*(f.when(f.col("of") == name, f.col(name)) for name in counted))
    return (
        usage.join(f.broadcast(table), ["queue_type", "operation"])
        .groupBy("hour", "account", "region", "queue", "queue_type", "operation", "sku", "pooled")
        .agg(f.sum(quantity).alias("quantity"))
        .where("quantity > 0")
    )


def _placed(charged: DataFrame, book: PriceBook) -> DataFrame:
    """With where each quantity begins in the month (`begin`), and how much of it is free."""
    order = ("hour", "region", "sku", "queue", "operation")
    before = Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    zero = f.lit(0).cast("bigint")
    pooled = f.when(f.col("pooled"), f.col("quantity")).otherwise(zero)
    taken = f.coalesce(f.sum(pooled).over(before.partitionBy("account")), zero)
    begin = f.coalesce(f.sum("quantity").over(before.partitionBy("account", "region", "sku")), zero)
    left = f.greatest(f.lit(book.free_quantity).cast("bigint") - taken, zero)
    return charged.withColumn("begin", begin).withColumn(
        "free", f.when(f.col("pooled"), f.least(left, f.col("quantity"))).otherwise(zero)
    )


def _priced(placed: DataFrame, book: PriceBook, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Cut at the ends of tiers, the free part on its own, with prices and costs."""
    none = (FREE_TIER, 0, 0, Decimal(0), Decimal(0))
    tiers = [(sku, region, *none) for sku, region in pairs if sku in book.free_skus]
    tiers += [
        (
            sku,
            region,
            number,
            its.start,
            its.end or NO_END,
            its.price,
            each_of(book, sku, its.price),
        )
        for sku, region in pairs
        for number, its in enumerate(book.tiers(sku, region), start=1)
    ]
    table = placed.sparkSession.createDataFrame(tiers, _TIERS)
    end = f.col("begin") + f.col("quantity")
    paid_from = f.col("begin") + f.col("free")
    paid = f.least(end, f.col("tier_end")) - f.greatest(paid_from, f.col("tier_start"))
    part = f.when(f.col("tier") == FREE_TIER, f.col("free")).otherwise(paid)
    return placed.join(f.broadcast(table), ["sku", "region"]).withColumn("part", part)


def _checked(pieces: DataFrame) -> DataFrame:
    """Pieces of tiers as rated usage, of just those columns that it has."""
    rated = pieces.where("part > 0").select(
        *_rated(f.col("tier"), f.col("part"), f.col("price"), f.col("each"))
    )
    if [(its.name, its.dataType) for its in rated.schema] != [
        (its.name, its.dataType) for its in RATED
    ]:
        raise JobError(f"rated usage has the columns {rated.schema.simpleString()}")
    return rated


def _rated(tier: Column, quantity: Column, price: Column, each: Column) -> list[Column]:
    cost = quantity.cast(_WHOLE) * each.cast(_EACH)
    return [
        *(f.col(name) for name in RATED_KEYS if name != "tier"),
        tier.cast("int").alias("tier"),
        quantity.alias("quantity"),
        price.cast(PRICE).alias("price"),
        cost.cast(MONEY).alias("cost"),
        price.cast(PRICE).alias("list_price"),
    ]

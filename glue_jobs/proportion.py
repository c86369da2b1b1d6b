"""Free quantities and tiers, spread over all of an account's month in proportion.

What a SKU comes to in a region decides how much of it is in which tier; each row of usage then has
the same share of each tier, to the thing counted. So what a queue costs depends neither on its name
nor on the hour. Shares are whole: rows have places in one order, and each has what the multiples
of its end exceed those of its begin by. What a tier leaves is shared by the next one.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from glue_jobs.price_book import PLACES, PriceBook

NO_END: Final = (1 << 63) - 1
"""The end of a last tier."""

FREE_TIER: Final = 0

_ORDER: Final = ("hour", "region", "sku", "queue", "operation")
_WHOLE: Final = DecimalType(19, 0)
_TIER: Final = StructType(
    [
        StructField("tier_start", LongType()),
        StructField("tier_end", LongType()),
        StructField("price", DecimalType(20, 10)),
        StructField("each", DecimalType(PLACES, PLACES)),
    ]
)
_TIERS: Final = StructType(
    [
        StructField("sku", StringType()),
        StructField("region", StringType()),
        StructField("tiers", ArrayType(_TIER)),
    ]
)


def each_of(book: PriceBook, sku: str, price: Decimal) -> Decimal:
    """The exact price of one thing counted: sizes are powers of ten."""
    return price.scaleb(-len(str(book.skus[sku].unit_size)) + 1)


def spread(charged: DataFrame, book: PriceBook, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Quantities of SKUs, cut into tiers: `tier`, `part`, `price` and `each` of every piece.

    `charged` has quantities by account, hour, region, queue, operation and SKU, and whether a
    SKU is `pooled`; `pairs` are the SKUs and regions in it.
    """
    rows = [
        (
            sku,
            region,
            [
                (its.start, its.end or NO_END, its.price, each_of(book, sku, its.price))
                for its in book.tiers(sku, region)
            ],
        )
        for sku, region in pairs
    ]
    table = charged.sparkSession.createDataFrame(rows, _TIERS)
    left = _paid(_freed(charged, book)).join(f.broadcast(table), ["sku", "region"])
    free = _piece(f.lit(FREE_TIER), f.col("free"), f.lit(0), f.lit(0))
    paid = f.transform(
        "tiers",
        lambda its, at: _piece(at + 1, f.get("parts", at), its["price"], its["each"]),
    )
    pieces = f.concat(f.array(free), paid)
    return (
        left.withColumn("parts", _parts())
        .withColumn("piece", f.explode(pieces))
        .select(*(name for name in charged.columns if name != "pooled"), "piece.*")
    )


def _piece(tier: Column, part: Column, price: Column, each: Column) -> Column:
    return f.struct(
        tier.alias("tier"),
        part.alias("part"),
        price.cast(DecimalType(20, 10)).alias("price"),
        each.cast(DecimalType(PLACES, PLACES)).alias("each"),
    )


def _freed(charged: DataFrame, book: PriceBook) -> DataFrame:
    """With how much of each quantity is `free`, and how much is not (`rest`)."""
    of_account = Window.partitionBy("account")
    before = of_account.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    pool = f.when(f.col("pooled"), f.col("quantity")).otherwise(_none())
    free = f.lit(book.free_quantity).cast("bigint")
    return (
        charged.withColumn("pool", pool)
        .withColumn("pool_begin", f.coalesce(f.sum("pool").over(before), _none()))
        .withColumn("pool_all", f.sum("pool").over(of_account))
        .withColumn("given", f.least(free, "pool_all"))
        .withColumn("pool_end", f.col("pool_begin") + f.col("pool"))
        .withColumn(
            "free",
            _share(f.col("pool_end"), f.col("given"), f.col("pool_all"))
            - _share(f.col("pool_begin"), f.col("given"), f.col("pool_all")),
        )
        .withColumn("rest", f.col("quantity") - f.col("free"))
    )


def _paid(freed: DataFrame) -> DataFrame:
    """With where the rest of each quantity begins and ends among what is to be paid of its SKU."""
    of_sku = Window.partitionBy("account", "region", "sku")
    before = of_sku.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    return (
        freed.withColumn("sku_all", f.sum("quantity").over(of_sku))
        .withColumn("sku_free", f.sum("free").over(of_sku))
        .withColumn("begin", f.coalesce(f.sum("rest").over(before), _none()))
        .withColumn("end", f.col("begin") + f.col("rest"))
    )


def _parts() -> Column:
    """How much of a row is in each tier: its share of a tier, then of what that leaves.

    Tiers begin with the first unit of a SKU, free ones included. It is one fold: the columns of
    one tier put into those of the next would make a plan that doubles with each.
    """

    def cut(left: Column, tier: Column) -> Column:
        inside = f.least("sku_all", tier["tier_end"]) - f.greatest("sku_free", tier["tier_start"])
        in_tier = f.greatest(_none(), inside)
        begin = _share(left["begin"], in_tier, left["whole"])
        end = _share(left["end"], in_tier, left["whole"])
        return f.struct(
            (left["begin"] - begin).alias("begin"),
            (left["end"] - end).alias("end"),
            (left["whole"] - in_tier).alias("whole"),
            f.concat(left["parts"], f.array(end - begin)).alias("parts"),
        )

    whole = (f.col("sku_all") - f.col("sku_free")).alias("whole")
    parts = f.array().cast("array<bigint>").alias("parts")
    of_row = f.struct(f.col("begin"), f.col("end"), whole, parts)
    return f.aggregate("tiers", of_row, cut)["parts"]


def _share(of: Column, part: Column, whole: Column) -> Column:
    """`of` * `part` / `whole`, the whole number below it: 38 digits hold the product."""
    product = of.cast(_WHOLE) * part.cast(_WHOLE)
    return f.when(whole > 0, f.call_function("div", product, whole.cast(_WHOLE))).otherwise(_none())


def _none() -> Column:
    return f.expr("0L")

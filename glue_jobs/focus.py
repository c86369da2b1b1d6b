"""Lines of invoices as FOCUS 1.2 has them.

https://focus.finops.org/focus-specification/v1-2/ has the columns. 1.2 is the newest version whose
rules the official validator carries. Columns that begin with `x_` are ours. Charges are of whole
days, UTC; ends of periods are exclusive.
"""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType

from glue_jobs.billing import FREE_TIER, MONEY, PRICE
from glue_jobs.invoicing import CORRECTION, ROUNDING
from glue_jobs.price_book import PriceBook

PROVIDER: Final = "Tidegate"
SERVICE: Final = "Tidegate Queues"
VERSION: Final = "1.2"
QUANTITY: Final = DecimalType(38, 9)
"""Of a unit: sizes of units are powers of ten up to 10^9."""

KEYS: Final = (
    *("BillingAccountId", "ChargePeriodStart", "x_Kind", "x_OfPeriod", "RegionId", "ResourceName"),
    *("x_QueueType", "x_Operation", "SkuId", "x_Tier"),
)


def focus(lines: DataFrame, names: Mapping[str, str], period: str, book: PriceBook) -> DataFrame:
    """A row for each line; `names` are those of accounts. `date` is for files, and no column."""
    start = f.to_timestamp(f.concat(f.lit(period), f.lit("-01")))
    day = f.to_timestamp(f.col("date"))
    known = _with_names(_with_skus(lines, book), names)
    columns = {
        **_charge(start, day),
        **_prices(),
        **_what(),
        "x_Kind": f.col("kind"),
        "x_OfPeriod": f.col("of_period"),
        "x_Operation": f.col("operation"),
        "x_QueueType": f.col("queue_type"),
        "x_Tier": f.col("tier"),
    }
    its = (columns[name].alias(name) for name in sorted(columns, key=_ours_last))
    return known.select("date", *its)


def _ours_last(name: str) -> tuple[bool, str]:
    return name.startswith("x_"), name


def _with_skus(lines: DataFrame, book: PriceBook) -> DataFrame:
    rows = [(sku.name, sku.title, sku.unit, sku.unit_size) for sku in book.skus.values()]
    skus = lines.sparkSession.createDataFrame(
        rows, "sku string, title string, unit string, unit_size bigint"
    )
    return lines.join(f.broadcast(skus), "sku", "left")


def _with_names(lines: DataFrame, names: Mapping[str, str]) -> DataFrame:
    if not names:
        return lines.withColumn("account_name", f.lit(None).cast("string"))
    table = lines.sparkSession.createDataFrame(
        sorted(names.items()), "account string, account_name string"
    )
    return lines.join(f.broadcast(table), "account", "left")


def _charge(start: Column, day: Column) -> dict[str, Column]:
    """Who is billed, when, and what kind of charge it is."""
    rounding = f.col("kind") == ROUNDING
    one_month = f.expr("interval 1 month")
    return {
        "BillingAccountId": f.col("account"),
        "BillingAccountName": f.coalesce("account_name", "account"),
        "BillingAccountType": f.lit("Account"),
        "BillingCurrency": f.lit("USD"),
        "BillingPeriodStart": start,
        "BillingPeriodEnd": start + one_month,
        "ChargeCategory": f.when(rounding, "Adjustment").otherwise("Usage"),
        "ChargeClass": f.when(f.col("kind") == CORRECTION, "Correction"),
        "ChargeDescription": _description(rounding),
        "ChargeFrequency": f.when(rounding, "One-Time").otherwise("Usage-Based"),
        "ChargePeriodStart": day,
        "ChargePeriodEnd": f.when(rounding, day + one_month).otherwise(
            day + f.expr("interval 1 day")
        ),
        "InvoiceId": f.concat_ws("-", f.col("account"), f.date_format(start, "yyyy-MM")),
        "InvoiceIssuerName": f.lit(PROVIDER),
    }


def _description(rounding: Column) -> Column:
    tier = f.when(f.col("tier") == FREE_TIER, "free quantity").otherwise(
        f.concat(f.lit("tier "), f.col("tier"))
    )
    operation = f.when(f.col("operation") == "", "requests").otherwise(f.col("operation"))
    said = f.concat(operation, f.lit(": "), f.coalesce("title", "sku"), f.lit(", "), tier)
    late = f.concat(f.lit("Correction of "), f.col("of_period"), f.lit(": "), said)
    return (
        f.when(rounding, "Rounding to a cent")
        .when(f.col("kind") == CORRECTION, late)
        .otherwise(said)
    )


def _prices() -> dict[str, Column]:
    """Costs, quantities and prices; there are no discounts, so all costs are one."""
    charged = f.col("kind") != ROUNDING
    cost = f.col("cost").cast(MONEY)
    size = f.coalesce(f.col("unit_size"), f.lit(1)).cast(DecimalType(10, 0))
    quantity = f.when(charged, (f.col("quantity").cast(DecimalType(19, 0)) / size).cast(QUANTITY))
    price = f.when(charged, f.col("price").cast(PRICE))
    unit = f.when(charged, f.col("unit"))
    return {
        **{f"{kind}Cost": cost for kind in ("Billed", "Contracted", "Effective", "List")},
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingCurrency": f.lit("USD"),
        "PricingCurrencyContractedUnitPrice": price,
        "PricingCurrencyEffectiveCost": cost,
        "PricingCurrencyListUnitPrice": price,
        "PricingCategory": f.when(charged, "Standard"),
        "PricingQuantity": quantity,
        "PricingUnit": unit,
    }


def _what() -> dict[str, Column]:
    """The service, the queue, and the SKU."""
    charged = f.col("kind") != ROUNDING
    has_queue = charged & (f.col("queue") != "")
    region = f.when(charged & (f.col("region") != ""), f.col("region"))
    arn = f.concat_ws(":", f.lit("arn:aws:sqs"), f.col("region"), f.col("account"), f.col("queue"))
    null: Any = f.lit(None).cast("string")
    return {
        "CommitmentDiscountStatus": null,
        "ProviderName": f.lit(PROVIDER),
        "PublisherName": f.lit(PROVIDER),
        "RegionId": region,
        "RegionName": region,
        "ResourceId": f.when(has_queue, arn),
        "ResourceName": f.when(has_queue, f.col("queue")),
        "ResourceType": f.when(has_queue, "Queue"),
        "ServiceCategory": f.lit("Integration"),
        "ServiceName": f.lit(SERVICE),
        "ServiceSubcategory": f.lit("Messaging"),
        "SkuId": f.when(charged, f.col("sku")),
        "SkuMeter": f.when(charged, f.col("title")),
        "SkuPriceDetails": null,
        "SkuPriceId": f.when(charged, f.concat_ws("/", f.col("sku"), f.col("tier"))),
    }

"""Lines of invoices as FOCUS 1.2 has them.

https://focus.finops.org/focus-specification/v1-2/ has the columns. 1.2 is the newest version whose
rules the official validator carries. Columns that begin with `x_` are ours. Charges are of whole
days, UTC; ends of periods are exclusive.
"""

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType

from glue_jobs.billed import Billed, in_ascii
from glue_jobs.billing import MONEY, PRICE
from glue_jobs.invoicing import CORRECTION, CREDIT, ROUNDING, TAX, is_charge
from glue_jobs.price_book import PLACES
from glue_jobs.proportion import FREE_TIER
from glue_jobs.terms import Terms

PROVIDER: Final = "Tidegate"
SERVICE: Final = "Tidegate Queues"
VERSION: Final = "1.2"
QUANTITY: Final = DecimalType(38, 9)
"""Of a unit: sizes of units are powers of ten up to 10^9."""

_PARTITIONS: Final = {
    "cn-": "aws-cn",
    "eu-isoe-": "aws-iso-e",
    "eusc-": "aws-eusc",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
}
"""By how the names of their regions begin."""

_PAYERS: Final = (
    "account string, payer string, invoice string, currency string, ascii_name string,"
    " payer_name string, ascii_payer string"
)

KEYS: Final = (
    *(
        "BillingAccountId",
        "SubAccountId",
        "ChargePeriodStart",
        "x_Kind",
        "x_OfPeriod",
        "RegionId",
        "ResourceName",
    ),
    *("x_QueueType", "x_Operation", "SkuId", "x_Tier"),
)


def focus(lines: DataFrame, billed: Billed, period: str) -> DataFrame:
    """A row for each line. `date` is for files, and no column."""
    start = f.to_timestamp(f.concat(f.lit(period), f.lit("-01")))
    day = f.to_timestamp(f.col("date"))
    # Names there are in ASCII.
    seller = billed.terms.customers.seller.party
    issuer = in_ascii(seller.name, seller.id) if seller.name else PROVIDER
    known = billed.tagged(_with_payers(_with_skus(lines, billed.terms), billed))
    columns = {
        **_charge(start, day, issuer),
        **_prices(),
        **_what(),
        "x_BillingAccountName": f.coalesce("payer_name", "payer"),
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


def _with_skus(lines: DataFrame, terms: Terms) -> DataFrame:
    """Titles and units of SKUs; those of one name are one in all books, the period's own first."""
    skus = {sku.name: sku for book in reversed(terms.all_books()) for sku in book.skus.values()}
    rows = [(sku.name, sku.title, sku.unit, sku.unit_size) for _, sku in sorted(skus.items())]
    skus = lines.sparkSession.createDataFrame(
        rows, "sku string, title string, unit string, unit_size bigint"
    )
    return lines.join(f.broadcast(skus), "sku", "left")


def _with_payers(lines: DataFrame, billed: Billed) -> DataFrame:
    """With who pays, the invoice and its currency, and names, those in ASCII among them."""
    payers = {its.payer: its for its in billed.invoices}
    known = {*payers, *billed.terms.customers.payers(), *billed.names}
    rows = []
    for account in sorted(known):
        payer = billed.terms.payer(account)
        name, of_payer = billed.name_of(account) or account, billed.name_of(payer) or payer
        its = payers.get(payer)
        if its is not None:
            invoice = its.number or its.id
            names = (in_ascii(name, account), of_payer, in_ascii(of_payer, payer))
            rows.append((account, payer, invoice, its.currency, *names))
    table = lines.sparkSession.createDataFrame(rows, _PAYERS)
    return lines.join(f.broadcast(table), "account", "left")


def _charge(start: Column, day: Column, issuer: str) -> dict[str, Column]:
    """Who is billed, when, and what kind of charge it is."""
    whole = ~is_charge()
    one_month = f.expr("interval 1 month")
    return {
        "BillingAccountId": f.col("payer"),
        "BillingAccountName": f.col("ascii_payer"),
        "BillingAccountType": f.lit("Account"),
        "BillingCurrency": f.col("currency"),
        "BillingPeriodStart": start,
        "BillingPeriodEnd": start + one_month,
        "ChargeCategory": f.when(f.col("kind") == ROUNDING, "Adjustment")
        .when(f.col("kind") == CREDIT, "Credit")
        .when(f.col("kind") == TAX, "Tax")
        .otherwise("Usage"),
        "ChargeClass": f.when(f.col("kind") == CORRECTION, "Correction"),
        "ChargeDescription": _description(),
        "ChargeFrequency": f.when(whole, "One-Time").otherwise("Usage-Based"),
        "ChargePeriodStart": day,
        "ChargePeriodEnd": f.when(whole, day + one_month).otherwise(day + f.expr("interval 1 day")),
        "InvoiceId": f.col("invoice"),
        "InvoiceIssuerName": f.lit(issuer),
    }


def _description() -> Column:
    tier = f.when(f.col("tier") == FREE_TIER, "free quantity").otherwise(
        f.concat(f.lit("tier "), f.col("tier"))
    )
    operation = f.when(f.col("operation") == "", "requests").otherwise(f.col("operation"))
    said = f.concat(operation, f.lit(": "), f.coalesce("title", "sku"), f.lit(", "), tier)
    late = f.concat(f.lit("Correction of "), f.col("of_period"), f.lit(": "), said)
    return (
        f.when(f.col("kind") == ROUNDING, "Rounding of the invoice")
        .when(f.col("kind") == CREDIT, f.concat(f.lit("Credit "), "sku"))
        .when(f.col("kind") == TAX, f.lit("Tax"))
        .when(f.col("kind") == CORRECTION, late)
        .otherwise(said)
    )


def _prices() -> dict[str, Column]:
    """Costs, quantities and prices; without a discount all costs are one.

    Tax and credits change what is billed, and are no part of a price: FOCUS has no list cost and
    no contracted cost of them but what they are.
    """
    charged = is_charge()
    cost = f.col("cost").cast(MONEY)
    size = f.coalesce(f.col("unit_size"), f.lit(1)).cast(DecimalType(10, 0))
    quantity = f.when(charged, (f.col("quantity").cast(DecimalType(19, 0)) / size).cast(QUANTITY))
    price = f.when(charged, f.col("price").cast(PRICE))
    list_price = f.when(charged, f.coalesce("list_price", "price").cast(PRICE))
    # Exact: a quantity has as many places as its unit, and a price ten at most.
    of_list = (f.col("quantity").cast(DecimalType(19, 0)) * _each(list_price)).cast(MONEY)
    is_less = charged & (f.col("list_price") != f.col("price"))
    list_cost = f.when(is_less, of_list).otherwise(cost)
    unit = f.when(charged, f.col("unit"))
    return {
        **{f"{kind}Cost": cost for kind in ("Billed", "Contracted", "Effective")},
        "ListCost": list_cost,
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        "ContractedUnitPrice": price,
        "ListUnitPrice": list_price,
        "PricingCurrency": f.col("currency"),
        "PricingCurrencyContractedUnitPrice": price,
        "PricingCurrencyEffectiveCost": cost,
        "PricingCurrencyListUnitPrice": list_price,
        "PricingCategory": f.when(charged, "Standard"),
        "PricingQuantity": quantity,
        "PricingUnit": unit,
    }


def _each(price: Column) -> Column:
    """A unit's price for one thing: sizes of units are powers of ten."""
    size = f.coalesce(f.col("unit_size"), f.lit(1)).cast(DecimalType(10, 0))
    return (price / size).cast(DecimalType(PLACES, PLACES))


def _partition(region: Column) -> Column:
    """AWS's partition, which stands in ARNs behind `arn:`."""
    partition = f.lit("aws")
    for prefix, name in _PARTITIONS.items():
        partition = f.when(region.startswith(prefix), name).otherwise(partition)
    return partition


def _what() -> dict[str, Column]:
    """The service, the queue, and the SKU."""
    charged = is_charge()
    is_sub = charged & (f.col("payer") != f.col("account"))
    has_queue = charged & (f.col("queue") != "")
    region = f.when(charged & (f.col("region") != ""), f.col("region"))
    name = [f.col(part) for part in ("region", "account", "queue")]
    arn = f.concat_ws(":", f.lit("arn"), _partition(f.col("region")), f.lit("sqs"), *name)
    null: Any = f.lit(None).cast("string")
    return {
        "CommitmentDiscountStatus": null,
        "HostProviderName": f.lit(PROVIDER),
        "ProviderName": f.lit(PROVIDER),
        "PublisherName": f.lit(PROVIDER),
        "RegionId": region,
        "RegionName": region,
        "ResourceId": f.when(has_queue, arn),
        "ResourceName": f.when(has_queue, f.col("queue")),
        "ResourceType": f.when(has_queue, "Queue"),
        "ServiceCategory": f.lit("Integration"),
        "ServiceName": f.lit(SERVICE),
        "ServiceProviderName": f.lit(PROVIDER),
        "ServiceSubcategory": f.lit("Messaging"),
        "SubAccountId": f.when(is_sub, f.col("account")),
        "SubAccountName": f.when(is_sub, f.col("ascii_name")),
        "SubAccountType": f.when(is_sub, "Account"),
        "Tags": f.when(charged, f.col("tags")),
        "SkuId": f.when(charged, f.col("sku")),
        "SkuMeter": f.when(charged, f.col("title")),
        "SkuPriceDetails": null,
        "SkuPriceId": f.when(charged, f.concat_ws("/", f.col("sku"), f.col("tier"))),
    }

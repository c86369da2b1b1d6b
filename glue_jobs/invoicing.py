"""Invoices: what rated usage of a period, and corrections of closed ones, come to for an account.

A line is a day's charge of a queue, an operation, a SKU and a tier. A closed period is never
rated again for its own invoices: what became known later is the difference to what was invoiced,
and stands as correction lines in the next open period, each under the day that it is about.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
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
from glue_jobs.billing import MONEY, PRICE
from glue_jobs.invoice_terms import (
    EXACT,
    CreditUsed,
    Invoice,
    credits_used,
    dates_of,
    invoice_of,
    last_number,
    numbers_of,
)
from glue_jobs.terms import Terms

LINE_KEYS: Final = (
    *("account", "date", "kind", "of_period", "region", "queue", "queue_type"),
    *("operation", "sku", "tier"),
)
LINES: Final = (*LINE_KEYS, "quantity", "price", "cost", "list_price")

PAYABLE: Final = DecimalType(18, 2)
USAGE, CORRECTION, ROUNDING = "usage", "correction", "rounding"
CREDIT, TAX = "credit", "tax"

_NOTHING: Final = Decimal(0)
_LINES: Final = StructType(
    [
        *(StructField(name, StringType()) for name in LINE_KEYS if name != "tier"),
        StructField("tier", IntegerType()),
        StructField("quantity", LongType()),
        StructField("price", PRICE),
        StructField("cost", MONEY),
        StructField("list_price", PRICE),
    ]
)
_INVOICES: Final = StructType(
    [
        *(
            StructField(name, StringType())
            for name in ("invoice_id", "account", "period", "date", "currency", "kind")
        ),
        *(StructField(f"{name}_cost", MONEY) for name in ("usage", "correction")),
        StructField("rounding", MONEY),
        *(StructField(name, PAYABLE) for name in ("credit_cost", "net")),
        StructField("tax_name", StringType()),
        StructField("tax_rate", DecimalType(5, 4)),
        *(StructField(name, PAYABLE) for name in ("tax_cost", "payable")),
        *(StructField(name, StringType()) for name in ("number", "issued", "due")),
    ]
)

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
        *("region", "queue", "queue_type", "operation", "sku", "tier"),
        *("quantity", "price", "cost", "list_price"),
    )
    return _summed(keyed).select(*LINES)


def is_charge() -> Column:
    """Whether a line is of usage, and not of a whole invoice."""
    return f.col("kind").isin(USAGE, CORRECTION)


def is_charge_of(line: Mapping[str, str]) -> bool:
    """The same of a line that was read."""
    return line["kind"] in {USAGE, CORRECTION}


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
    # Lines of before have no list price: there was no discount.
    listed = lines.withColumn("list_price", f.coalesce("list_price", "price"))
    return listed.groupBy(*LINE_KEYS, "price", "list_price").agg(
        f.sum("quantity").alias("quantity"), f.sum("cost").cast(MONEY).alias("cost")
    )


def invoices(
    lines: DataFrame, period: str, terms: Terms, closed: Sequence[Mapping[str, Any]], *, final: bool
) -> list[Invoice]:
    """An invoice for each payer, in order of payers; `closed`: what closed months' pointers say.

    Where they are `final` they have numbers and dates.
    """
    used, seller = credits_used(closed), terms.customers.seller
    costs = _costs_of_payers(lines, terms)
    found = [
        invoice_of(
            payer,
            period,
            terms.book_of(payer).currency,
            terms.tax_of(payer),
            usage_cost=of_kind[USAGE],
            correction_cost=of_kind[CORRECTION],
            credits_left=_credits_left(terms, payer, period, used),
        )
        for payer, of_kind in sorted(costs.items())
    ]
    if not final:
        return found
    last = last_number(closed, seller.party.id)
    numbers = numbers_of(seller.prefix, last, [its.id for its in found])
    return [_issued(its, numbers[its.id], terms) for its in found]


def _costs_of_payers(lines: DataFrame, terms: Terms) -> dict[str, dict[str, Decimal]]:
    summed = lines.groupBy("account", "kind").agg(f.sum("cost").cast(MONEY).alias("cost"))
    payers = terms.customers.payers()
    costs: dict[str, dict[str, Decimal]] = {}
    with localcontext(EXACT):
        for row in summed.collect():
            of_kind = costs.setdefault(
                payers.get(row.account, row.account), dict.fromkeys((USAGE, CORRECTION), _NOTHING)
            )
            of_kind[row.kind] += row.cost
    return costs


def _credits_left(
    terms: Terms, payer: str, period: str, used: Mapping[str, Decimal]
) -> list[CreditUsed]:
    """What is left of a payer's credits, those that end first at the front."""
    covering = [
        its for its in terms.customers.credits if its.customer == payer and its.covers(period)
    ]
    covering.sort(key=lambda its: (its.until or "9999-99", its.since, its.id))
    left = ((its, its.amount - used.get(its.id, _NOTHING)) for its in covering)
    return [CreditUsed(its.id, amount, its.reason) for its, amount in left if amount > 0]


def _issued(invoice: Invoice, number: str, terms: Terms) -> Invoice:
    after = next_period(invoice.period)
    day, due_days = terms.customers.seller.issue_day, terms.due_days(invoice.payer)
    issued, due = dates_of(after, day, due_days)
    return replace(invoice, number=number, issued=issued, due=due)


def numbering(invoices_: Sequence[Invoice], terms: Terms, closed: Any) -> dict[str, Any]:
    """What a closed pointer says of the numbers that it has given."""
    seller = terms.customers.seller.party.id
    last = last_number(closed, seller)
    numbers = {its.payer: its.number for its in invoices_}
    return {"seller": seller, "first": last + 1, "last": last + len(numbers), "numbers": numbers}


def said_of(
    invoices_: Sequence[Invoice], terms: Terms, closed: Sequence[Mapping[str, Any]], *, final: bool
) -> dict[str, Any]:
    """What a pointer says of invoices: amounts by payers, terms, and what they took."""
    said = {
        "invoices": {its.payer: str(its.payable) for its in invoices_},
        "currencies": {its.payer: its.currency for its in invoices_},
        **terms.said(),
    }
    if not final:
        return said
    used = {credit.id: str(credit.amount) for its in invoices_ for credit in its.credits}
    return said | {"numbering": numbering(invoices_, terms, closed), "credits_used": used}


def table_of(session: SparkSession, invoices_: Sequence[Invoice]) -> DataFrame:
    """Invoices as a table."""
    rows = [
        (
            *(its.id, its.payer, its.period, f"{its.period}-01", its.currency, its.kind),
            *(its.usage_cost, its.correction_cost, its.rounding, its.credit_cost, its.net),
            *(its.tax.name, its.tax.rate, its.tax_cost, its.payable),
            *(its.number, its.issued, its.due),
        )
        for its in invoices_
    ]
    return session.createDataFrame(rows, _INVOICES)


def own_lines(session: SparkSession, invoices_: Sequence[Invoice]) -> DataFrame:
    """The lines of invoices that are of no usage: credits, rounding and tax, under their payers."""
    rows = []
    for its in invoices_:
        kinds = [(CREDIT, credit.id, -credit.amount) for credit in its.credits]
        kinds += [(ROUNDING, "", its.rounding), (TAX, its.tax.name, its.tax_cost)]
        rows += [
            (
                *(its.payer, f"{its.period}-01", kind, its.period, "", "", "", "", what, 0, 0),
                *(_NOTHING, cost, _NOTHING),
            )
            for kind, what, cost in kinds
            if cost
        ]
    return session.createDataFrame(rows, _LINES)

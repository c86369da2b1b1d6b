"""Charges, held to a bill that Python makes with integers and decimals, row after row."""

import json
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any, Final

from pyspark.sql import SparkSession

from glue_jobs import billing, invoicing
from glue_jobs.price_book import BOOKS, PriceBook, read_book

USAGE: Final = (
    "hour bigint, account string, region string, queue string, operation string, status string, "
    "code string, records bigint, requests bigint, units bigint, messages bigint, bytes bigint, "
    "failed_entries bigint, empty_receives bigint"
)
FAIR: Final = {"111122223333": ("jobs",)}
Key = tuple[int, str, str, str, str, str, int]


def small_book() -> PriceBook:
    """Tidegate's own with a few units where it has billions, and prices that leave many places."""
    book = json.loads((BOOKS / "2026-01.json").read_bytes())
    book["free"]["quantity"] = 50
    for name in ("requests-standard", "requests-fifo"):
        starts = (0, 100, 250)
        tiers = book["skus"][name]["regions"]["*"]
        book["skus"][name]["regions"]["*"] = [
            [start, price] for start, (_, price) in zip(starts, tiers, strict=True)
        ]
    book["skus"]["transfer-out"]["regions"] = {
        "us-east-1": [[0, "0.0900000001"]],
        "*": [[0, "0.12"], [1, "0.07"]],
    }
    return read_book(json.dumps(book).encode(), "small.json")


def made_up(random: Random, count: int) -> list[tuple[Any, ...]]:
    rows = {}
    for _ in range(count):
        key = (
            494_000 + random.randrange(5),
            random.choice(("111122223333", "222233334444", "")),
            random.choice(("us-east-1", "eu-west-1")),
            random.choice(("jobs", "orders", "orders.fifo")),
            random.choice(("SendMessage", "ReceiveMessage", "ListQueues", "")),
            *random.choice((("2xx", ""), ("5xx", ""), ("4xx", "RequestThrottled"), ("4xx", "X"))),
        )
        units = random.randrange(1, 60)
        rows[key] = (*key, 1, units, units, 3, random.randrange(10**9), 0, 0)
    return list(rows.values())


def oracle(rows: Iterable[tuple[Any, ...]], book: PriceBook) -> dict[Key, tuple[int, Decimal]]:
    """Quantity and cost by hour, account, region, queue, operation, SKU and tier."""
    quantities: dict[tuple[str, int, str, str, str, str], int] = {}
    for hour, account, region, queue, operation, status, code, *sums in rows:
        if not account or not operation or status == "5xx" or code == "RequestThrottled":
            continue
        fair = queue in FAIR.get(account, ())
        kind = "fifo" if queue.endswith(".fifo") else "fair" if fair else "standard"
        for sku in book.skus_of(kind, operation):
            amount = sums[2] if book.skus[sku].of == "units" else sums[4]
            key = (account, hour, region, sku, queue, operation)
            quantities[key] = quantities.get(key, 0) + amount
    costs: dict[Key, tuple[int, Decimal]] = {}
    free: dict[str, int] = {}
    begun: dict[tuple[str, str, str], int] = {}
    for (account, hour, region, sku, queue, operation), quantity in sorted(quantities.items()):
        start = begun.get((account, region, sku), 0)
        end = begun[account, region, sku] = start + quantity
        if sku in book.free_skus:
            given = min(quantity, book.free_quantity - free.get(account, 0))
            free[account] = free.get(account, 0) + given
            if given:
                costs[hour, account, region, queue, operation, sku, 0] = (given, Decimal(0))
            start += given
        for number, tier in enumerate(book.tiers(sku, region), start=1):
            part = min(end, tier.end or end) - max(start, tier.start)
            if part > 0:
                cost = part * tier.price / book.skus[sku].unit_size
                costs[hour, account, region, queue, operation, sku, number] = (part, cost)
    return costs


def test_charges_are_those_of_the_oracle(session: SparkSession) -> None:
    book, random = small_book(), Random(8)
    for count in (1, 400):
        rows = made_up(random, count)
        usage = session.createDataFrame(random.sample(rows, len(rows)), USAGE)
        billed = billing.with_queue_type(billing.billed(usage, book), FAIR)
        rated = billing.rate(billed, book)
        assert [its.dataType for its in rated.schema] == [its.dataType for its in billing.RATED]
        names = ("hour", "account", "region", "queue", "operation", "sku", "tier")
        found = {
            tuple(row[name] for name in names): (row.quantity, row.cost) for row in rated.collect()
        }
        assert found == oracle(rows, book)


def test_invoices_add_up_to_what_is_to_be_paid(session: SparkSession) -> None:
    usage = session.createDataFrame(made_up(Random(9), 200), USAGE)
    book = small_book()
    billed = billing.with_queue_type(billing.billed(usage, book), {})
    lines = invoicing.lines_of(billing.rate(billed, book), "2026-05").cache()
    invoices = invoicing.invoices(lines, "2026-05").cache()
    all_lines = lines.unionByName(invoicing.rounding_lines(invoices)).collect()
    for invoice in invoices.collect():
        exact = sum(line.cost for line in all_lines if line.account == invoice.account)
        assert exact == invoice.payable
        assert abs(invoice.rounding) <= Decimal("0.005")
        assert invoice.usage_cost + invoice.rounding == invoice.payable
    assert invoicing.corrections(lines, lines).count() == 0


def test_periods_follow_each_other() -> None:
    assert invoicing.next_period("2026-12") == "2027-01"
    assert invoicing.next_period("2026-01", -13) == "2024-12"
    assert invoicing.first_hour("1970-02") == 31 * 24

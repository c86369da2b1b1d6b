"""Charges, held to a bill that Python makes with integers and decimals, row after row."""

import json
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from glue_jobs import billing, invoicing
from glue_jobs.price_book import BOOKS, PLACES, PriceBook, read_book
from glue_jobs.rating import Meter, Used, quantities_of, rate_in_order, rate_in_proportion
from glue_jobs.records import SUMS
from glue_jobs.terms import Terms

USAGE: Final = (
    "hour bigint, account string, region string, queue string, operation string, status string, "
    "code string, records bigint, requests bigint, units bigint, messages bigint, bytes bigint, "
    "failed_entries bigint, empty_receives bigint"
)
FAIR: Final = {"111122223333": ("jobs",)}
Key = tuple[int, str, str, str, str, str, int]


def small_book(**changes: Any) -> PriceBook:
    """Tidegate's own with a few units where it has billions, and prices that leave many places."""
    book = json.loads((BOOKS / "2026-01.json").read_bytes()) | changes
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
            random.choice(("SendMessage", "ReceiveMessage", "ListQueues", "TidegateGetUsage", "")),
            *random.choice((("2xx", ""), ("5xx", ""), ("4xx", "RequestThrottled"), ("4xx", "X"))),
        )
        units = random.randrange(1, 60)
        rows[key] = (*key, 1, units, units, 3, random.randrange(10**9), 0, 0)
    return list(rows.values())


def oracle(rows: Iterable[tuple[Any, ...]], book: PriceBook) -> dict[Key, tuple[int, Decimal]]:
    """Quantity and cost by hour, account, region, queue, operation, SKU and tier."""
    quantities: dict[tuple[str, int, str, str, str, str], int] = {}
    for hour, account, region, queue, operation, status, code, *sums in rows:
        if not account or status == "5xx" or code == "RequestThrottled":
            continue
        if not operation or operation.startswith("Tidegate"):
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
    """By books that say nothing of proportions, as all did once."""
    book, random = small_book(spread="in order"), Random(8)
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


def test_a_fair_queue_that_is_named_twice_is_charged_once(session: SparkSession) -> None:
    key = (494_000, "111122223333", "us-east-1", "jobs", "SendMessage", "2xx", "")
    usage = session.createDataFrame([(*key, 1, 100, 100, 100, 9, 0, 0)], USAGE)
    book, twice = small_book(), {"111122223333": ("jobs", "other", "jobs")}
    rated = billing.rate(billing.with_queue_type(billing.billed(usage, book), twice), book)
    sums = {row.sku: row["sum(quantity)"] for row in rated.groupBy("sku").sum("quantity").collect()}
    assert set(sums.values()) == {100}


def test_a_sku_that_is_named_twice_is_one_charge() -> None:
    charges = json.loads((BOOKS / "2026-01.json").read_bytes())["charges"]
    twice = {
        kind: {its: [*names, *names] for its, names in of.items()} for kind, of in charges.items()
    }
    book = small_book(charges=twice)
    assert book.charges == small_book().charges


def test_tiers_are_spread_in_proportion(session: SparkSession) -> None:
    """Of each tier a row has its share, to the thing counted; no tier has more or less than all."""
    book, random = small_book(), Random(11)
    for count in (1, 3, 300):
        usage = session.createDataFrame(made_up(random, count), USAGE)
        found = billing.rate(billing.with_queue_type(billing.billed(usage, book), FAIR), book)
        rows = [row.asDict() for row in found.collect()]
        assert [its.dataType for its in found.schema] == [its.dataType for its in billing.RATED]
        assert all(row["quantity"] > 0 for row in rows)
        assert sum_of(rows, *PLACE) == sum_of(
            billing.rate(
                billing.with_queue_type(billing.billed(usage, book), FAIR),
                small_book(spread="in order"),
            )
            .toPandas()
            .to_dict("records"),
            *PLACE,
        )
        pool = sum_of([row for row in rows if row["sku"] in book.free_skus], "account")
        free = sum_of([row for row in rows if row["tier"] == 0], "account")
        assert free == {account: min(50, all_of) for account, all_of in pool.items()}
        wholes = sum_of(rows, "account", "region", "sku")
        of_tiers = sum_of(rows, "account", "region", "sku", "tier")
        check_tiers(book, wholes, of_tiers)
        parts = sum_of(rows, *PLACE, "tier")
        for place, quantity in sum_of(rows, *PLACE).items():
            whole, rest = place[:3], quantity - parts.get((*place, 0), 0)
            for tier in range(1, 4):
                all_of, paid = of_tiers.get((*whole, tier), 0), wholes[whole]
                paid -= of_tiers.get((*whole, 0), 0)
                assert abs(parts.get((*place, tier), 0) - rest * all_of / max(paid, 1)) < 3
        for row in rows:
            assert row["cost"] == row["quantity"] * row["price"] / book.skus[row["sku"]].unit_size


PLACE: Final = ("account", "region", "sku", "hour", "queue", "operation")


def sum_of(rows: Iterable[Any], *names: str) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for row in rows:
        key = tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]
        sums[key] = sums.get(key, 0) + int(row["quantity"])
    return sums


def check_tiers(book: PriceBook, wholes: dict[Any, int], of_tiers: dict[Any, int]) -> None:
    """Each tier of a SKU has what lies in it, less what is free."""
    for (account, region, sku), whole in wholes.items():
        free = of_tiers.get((account, region, sku, 0), 0)
        for number, tier in enumerate(book.tiers(sku, region), start=1):
            its = min(tier.end or whole, whole) - max(tier.start, free)
            assert of_tiers.get((account, region, sku, number), 0) == max(0, its)


def test_administration_is_not_billed(session: SparkSession) -> None:
    sums = ("2xx", "", 1, 900, 900, 900, 1, 0, 0)
    where = (494_000, "000000000000", "us-east-1", "")
    of_streams = ("kinesis:GetRecords/long-term", "kinesis:CreateStream/on-demand")
    unbilled = ("TidegateListCells", *of_streams)
    rows = [(*where, its, *sums) for its in (*unbilled, "ListQueues", "")]
    left = billing.billed(session.createDataFrame(rows, USAGE), small_book()).collect()
    assert [row.operation for row in left] == ["ListQueues"]


def test_equal_usage_costs_the_same_whatever_its_name(session: SparkSession) -> None:
    sums = ("2xx", "", 1, 900, 900, 900, 1, 0, 0)
    rows = [
        (494_000 + hour, "111122223333", "us-east-1", queue, "SendMessage", *sums)
        for hour, queue in ((0, "std"), (0, "dead"), (3, "a"), (7, "z"))
    ]
    for count in (1, 2, 4):
        usage = session.createDataFrame(rows[:count], USAGE).withColumn(
            "queue_type", f.lit("standard")
        )
        rated = billing.rate(usage, small_book()).groupBy("queue").agg({"cost": "sum"}).collect()
        costs = [row[1] for row in rated]
        assert max(costs) - min(costs) < Decimal("0.000001")


def test_invoices_add_up_to_what_is_to_be_paid(session: SparkSession) -> None:
    usage = session.createDataFrame(made_up(Random(9), 200), USAGE)
    book = small_book()
    billed = billing.with_queue_type(billing.billed(usage, book), {})
    lines = invoicing.lines_of(billing.rate(billed, book), "2026-05").cache()
    invoices = invoicing.invoices(lines, "2026-05", Terms(book), [], final=False)
    assert len(invoices) == 2
    all_lines = lines.unionByName(invoicing.own_lines(session, invoices)).collect()
    for invoice in invoices:
        exact = sum(line.cost for line in all_lines if line.account == invoice.payer)
        assert exact == invoice.payable
        assert abs(invoice.rounding) <= Decimal("0.005")
        assert invoice.usage_cost + invoice.rounding == invoice.payable
    assert invoicing.corrections(lines, lines).count() == 0


def test_periods_follow_each_other() -> None:
    assert invoicing.next_period("2026-12") == "2027-01"
    assert invoicing.next_period("2026-01", -13) == "2024-12"
    assert invoicing.first_hour("1970-02") == 31 * 24


@pytest.mark.parametrize("said", ["in order", "in proportion"])
def test_the_server_charges_what_the_bill_does(session: SparkSession, said: str) -> None:
    """GetUsage of a month, and the bill of the same records: the same rows, to the last place."""
    book = small_book(spread=said)
    rows = made_up(Random(7), 400)
    usage = session.createDataFrame(rows, USAGE)
    rated = billing.rate(billing.with_queue_type(billing.billed(usage, book), FAIR), book)
    billed = {
        (its.account, its.hour, its.region, its.queue, its.operation, its.sku, its.tier): (
            its.quantity,
            its.cost,
        )
        for its in rated.collect()
    }
    told = {}
    for account in sorted({row[1] for row in rows} - {""}):
        meter = Meter()
        of_month = []
        for hour in sorted({row[0] for row in rows}):
            used = [
                Used(region, queue, operation, status, code, dict(zip(SUMS, sums, strict=True)))
                for at, whose, region, queue, operation, status, code, *sums in rows
                if (at, whose) == (hour, account)
            ]
            of_month.append(quantities_of(hour, used, book, FAIR.get(account, ())))
        if book.is_proportional:
            charges = [*rate_in_proportion([row for its in of_month for row in its], book)]
        else:
            charges = [one for its in of_month for one in rate_in_order(its, book, meter)]
        for charge in charges:
            told[account, *charge[:6]] = charge.quantity, Decimal(f"{charge.cost}e-{PLACES}")
    assert told == billed
    assert {key[-1] for key in told} == {0, 1, 2, 3}

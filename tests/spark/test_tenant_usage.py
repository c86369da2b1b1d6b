"""GetUsage of a month, and the bill of the same records: the same sums and the same costs."""

import json
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs.invoicing import first_hour, next_period
from glue_jobs.price_book import BOOKS
from tests.spark.fresh import ROOT
from tests.spark.generator import MINUTE, PERIOD, put_records, record
from tests.spark.test_bill import bill

SERVER: Final = ROOT / ".venvs/test/bin/python"
"""The server's side runs in the environment that has what a server needs."""

ACCOUNTS: Final = ("111122223333", "222233334444", "333344445555")
MINUTES: Final = 30 * 24 * 60
Key = tuple[str, str, str, str, str]


def made_up(random: Random) -> list[dict[str, Any]]:
    """Records of a month, of which some are refused requests or belong to nobody."""
    answers = (("2xx", ""), ("2xx", ""), ("4xx", "RequestThrottled"), ("5xx", "InternalFailure"))
    rows = []
    for number in range(1, 301):
        status, code = random.choice(answers)
        rows.append(
            record(
                number=number,
                minute=MINUTE + random.randrange(MINUTES),
                account=random.choice((*ACCOUNTS, "")),
                region=random.choice(("eu-west-1", "us-east-1")),
                queue=random.choice(("orders", "mail.fifo", "")),
                operation=random.choice(
                    ("SendMessage", "ReceiveMessage", "ListQueues", "TidegateGetUsage")
                ),
                status=status,
                code=code,
                units=random.randrange(1, 200_000),
                bytes=random.randrange(2**30),
            )
        )
    return rows


def book(folder: Path, name: str, spread: str, tier: int) -> str:
    """Amazon's prices with a free quantity, and tiers, that the month goes beyond."""
    its = json.loads((BOOKS / "2026-01.json").read_bytes()) | {"id": name, "spread": spread}
    its["free"]["quantity"] = tier // 2
    for sku in ("requests-standard", "requests-fifo"):
        tiers = its["skus"][sku]["regions"]["*"]
        its["skus"][sku]["regions"]["*"] = [
            [start, price] for start, (_, price) in zip((0, tier, 3 * tier), tiers, strict=True)
        ]
    its["skus"]["transfer-out"]["regions"] = {
        "us-east-1": [[0, "0.0900000001"]],
        "*": [[0, "0.12"], [1, "0.07"]],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(its))
    return str(path)


def terms(folder: Path, spread: str, of_acme: str) -> tuple[dict[str, str], Path]:
    """What a bill is told, and the same for a server: a book, and two payers with discounts.

    One of them has a book of its own, and credit and tax, which are no cost of usage.
    """
    customers = {
        "acme": {
            "name": "ACME",
            "accounts": [ACCOUNTS[0]],
            "prices": book(folder, "acme", of_acme, 40_000),
            "discounts": {"requests-standard": "0.1234", "*": "0.03"},
            "tax": {"name": "VAT", "rate": "0.2"},
        },
        "tide": {"name": "Tide", "accounts": [ACCOUNTS[1]], "discounts": {"transfer-out": "1"}},
    }
    credit = {"id": "c-1", "customer": "acme", "amount": "1", "from": PERIOD, "reason": "Outage"}
    said = {
        "customers": {
            "schema": "tidegate.customers/1",
            "seller": {"id": "tide", "name": "Tide GmbH"},
            "customers": customers,
            "credits": [credit],
        },
        "accounts": {
            "schema": "tidegate.accounts/1",
            "accounts": {its: {"name": its, "fair_queues": ["orders"]} for its in ACCOUNTS},
        },
    }
    given = {"prices": book(folder, "own", spread, 90_000)}
    for name, its in said.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(its))
        given[name] = str(path)
    billing = folder / "billing.json"
    beside = {name: Path(its).name for name, its in given.items()}
    billing.write_text(json.dumps({"schema": "tidegate.billing/1", **beside}))
    return given, billing


def told(place: Path, time_s: int, billing: Path) -> dict[Key, tuple[int, int, int, Decimal]]:
    """What the server says, by account, day, region, queue and operation."""
    its = ("-m", "tests.conformance.told_usage", str(place), PERIOD, str(time_s))
    ran = subprocess.run(
        [str(SERVER), *its, str(billing), *ACCOUNTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {
        (account, *row[:4]): (*row[4:7], Decimal(row[7]))
        for account, rows in json.loads(ran.stdout).items()
        for row in rows
    }


def billed(out: Path) -> dict[Key, tuple[int, int, int, Decimal]]:
    """What the bill says."""
    sums: dict[Key, list[Any]] = defaultdict(lambda: [0, 0, 0, Decimal(0)])
    for table, names in (("usage_hourly", ("requests", "units", "bytes")), ("rated", ("cost",))):
        for path in (out / table).rglob("*.parquet"):
            for row in pq.read_table(path, partitioning=None).to_pylist():
                if not row["account"]:
                    continue
                day = str(row["hour"] // 24 - first_hour(PERIOD) // 24 + 1).zfill(2)
                key = (
                    *(row["account"], f"{PERIOD}-{day}", row["region"]),
                    *(row["queue"], row["operation"]),
                )
                for name in names:
                    place = ("requests", "units", "bytes", "cost").index(name)
                    sums[key][place] += row[name]
    return {key: (its[0], its[1], its[2], its[3]) for key, its in sums.items()}


@pytest.mark.parametrize(
    ("spread", "of_acme"),
    [
        ("in proportion", "in order"),
        pytest.param("in order", "in proportion", marks=pytest.mark.nightly),
    ],
)
def test_usage_of_a_month_equals_its_bill(
    session: SparkSession, tmp_path: Path, spread: str, of_acme: str
) -> None:
    """By books of both kinds, that of a customer too, with discounts; in the month and after it."""
    place, out = tmp_path / "usage", tmp_path / "bills"
    random = Random(21)
    rows = made_up(random)
    put_records(place, rows)
    # Copies in other groups; two records of one identity that differ: neither is billed.
    put_records(place, random.sample(rows, 40))
    put_records(place, [{**rows[0], "units": rows[0]["units"] + 1}])
    given, billing = terms(tmp_path, spread, of_acme)
    bill(session, place, out, **given)
    month_end_s = first_hour(next_period(PERIOD)) * 3600
    first = told(place, month_end_s - 30 * 60, billing)
    assert first == billed(out)
    costs = [sum(its[3] for key, its in first.items() if key[0] == account) for account in ACCOUNTS]
    assert min(costs) > Decimal("0.5")
    # When it is over: from the summaries that the first one has made.
    assert list((place / "summaries").rglob("*.zst"))
    assert told(place, month_end_s + 5 * 3600, billing) == first

"""The FOCUS table, held to the rules of the official validator."""

import json
import re
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs.billed import Billed
from glue_jobs.customers import Customer, Customers, Party
from glue_jobs.focus import VERSION, focus
from glue_jobs.invoice_terms import Tax, invoice_of
from glue_jobs.invoicing import LINES
from glue_jobs.price_book import book_for
from glue_jobs.terms import Terms
from tests.spark.generator import PERIOD

ENVIRONMENT: Final = Path(__file__).parents[2] / ".venvs/focus"

CRITERIA: Final = (
    *("ACCOUNT_NAMING_SUPPORTED", "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED"),
    *("PUBLIC_PRICE_LIST_SUPPORTED", "REGION_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED"),
    *("NEGOTIATED_PRICING_SUPPORTED", "SUB_ACCOUNT_SUPPORTED", "TAGGING_SUPPORTED"),
    *("UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED"),
)
"""What a provider of queues has of what FOCUS knows."""

CONTRADICTORY: Final = {"InvoiceId-C-004-C"}
"""It wants InvoiceId to be null, InvoiceId-C-005 wants it not to be, both of every row."""

_LINE: Final = (
    *("111122223333", "2026-11-02", "usage", PERIOD, "eu-west-1", "orders", "standard"),
    *("SendMessage", "requests-standard", 1, 250, Decimal("0.0000004"), Decimal("0.0001")),
    Decimal("0.0000004"),
)
_TYPES: Final = (
    *("string",) * 9,
    *("int", "bigint", "decimal(20,10)", "decimal(38,19)", "decimal(20,10)"),
)


def lines() -> list[tuple[object, ...]]:
    """A line of each kind."""

    def changed(**changes: object) -> tuple[object, ...]:
        return tuple({**dict(zip(LINES, _LINE, strict=True)), **changes}.values())

    nothing = {"region": "", "queue": "", "queue_type": "", "operation": "", "sku": "", "tier": 0}
    return [
        changed(),
        changed(tier=0, price=Decimal(0), cost=Decimal(0)),
        changed(queue="", operation="ListQueues"),
        changed(sku="transfer-out", quantity=10**9, operation="ReceiveMessage", cost=Decimal(0)),
        changed(
            sku="storage",
            operation="StoredMessages",
            quantity=4_375_000_000,
            price=Decimal("0.5"),
            cost=Decimal("2.1875"),
        ),
        changed(kind="correction", of_period="2026-10", date="2026-10-05", quantity=-3),
        changed(account="222233334444", list_price=Decimal("0.000001"), region="us-gov-west-1"),
        changed(kind="credit", account="acme", cost=Decimal(-1), **{**nothing, "sku": "c-1"}),
        changed(kind="tax", cost=Decimal("0.19"), **{**nothing, "sku": "VAT"}),
        changed(kind="rounding", date=f"{PERIOD}-01", quantity=0, cost=Decimal("0.004"), **nothing),
    ]


def table(session: SparkSession, folder: Path) -> Path:
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(LINES, _TYPES, strict=True))
    customer = Customer(Party("acme", "ACMÉ 株式会社"), ("222233334444",))
    customers = Customers(of={"acme": customer})
    tax = Tax("VAT", Decimal("0.19"))
    billed = Billed(
        Terms(book_for(PERIOD), customers),
        [
            invoice_of(
                *(payer, PERIOD, "EUR", tax), usage_cost=Decimal(1), correction_cost=Decimal(0)
            )
            for payer in ("111122223333", "acme")
        ],
        {"111122223333": "Aufträge"},
        {("111122223333", "eu-west-1", "orders"): {"team": "Vertrieb", "büro": "Köln"}},
    )
    its = focus(session.createDataFrame(lines(), schema), billed, PERIOD)
    its.drop("date").coalesce(1).write.parquet(str(folder / "focus"))
    return next((folder / "focus").glob("*.parquet"))


def test_each_line_is_a_row_that_says_what_it_is(session: SparkSession, tmp_path: Path) -> None:
    rows = pq.read_table(table(session, tmp_path)).to_pylist()
    assert sorted(row["ChargeDescription"] for row in rows) == [
        "Correction of 2026-10: SendMessage: Requests, standard queues, tier 1",
        "Credit c-1",
        "ListQueues: Requests, standard queues, tier 1",
        "ReceiveMessage: Messages received, tier 1",
        "Rounding of the invoice",
        "SendMessage: Requests, standard queues, free quantity",
        "SendMessage: Requests, standard queues, tier 1",
        "SendMessage: Requests, standard queues, tier 1",
        "StoredMessages: Messages stored, tier 1",
        "Tax",
    ]
    classes = [(row["ChargeCategory"], row["ChargeClass"], row["x_Kind"]) for row in rows]
    assert classes.count(("Usage", None, "usage")) == 6
    assert classes.count(("Credit", None, "credit")) == 1
    assert classes.count(("Tax", None, "tax")) == 1
    assert classes.count(("Usage", "Correction", "correction")) == 1
    assert classes.count(("Adjustment", None, "rounding")) == 1
    assert {row["InvoiceId"] for row in rows} == {"111122223333-2026-11", "acme-2026-11"}
    assert {row["BillingCurrency"] for row in rows} == {"EUR"}
    names = {(row["BillingAccountName"], row["x_BillingAccountName"]) for row in rows}
    assert names == {("Auftrage", "Aufträge"), ("acme", "ACMÉ 株式会社")}
    (sub,) = (row for row in rows if row["SubAccountId"])
    assert (sub["BillingAccountId"], sub["SubAccountId"]) == ("acme", "222233334444")
    assert (sub["ListCost"], sub["BilledCost"]) == (Decimal("0.00025"), Decimal("0.0001"))
    tagged = {row["Tags"] for row in rows if row["ResourceName"] == "orders"}
    assert [json.loads(its) for its in tagged if its] == [{"team": "Vertrieb", "büro": "Köln"}]
    assert all(its.isascii() for its in tagged if its)
    assert {row["ResourceId"] for row in rows} - {None} == {
        "arn:aws:sqs:eu-west-1:111122223333:orders",
        "arn:aws-us-gov:sqs:us-gov-west-1:222233334444:orders",
    }
    received = next(row for row in rows if row["SkuId"] == "transfer-out")
    assert (received["ConsumedQuantity"], received["ConsumedUnit"]) == (1, "GB")
    stored = next(row for row in rows if row["SkuId"] == "storage")
    assert (stored["ConsumedQuantity"], stored["ConsumedUnit"]) == (Decimal("4.375"), "GB-Hours")


@pytest.mark.nightly
def test_the_official_validator_finds_nothing(session: SparkSession, tmp_path: Path) -> None:
    python = ENVIRONMENT / "bin/python"
    if not python.exists():
        pytest.skip("no FOCUS validator: it needs Python 3.12 (`make nightly` installs it)")
    data = table(session, tmp_path)
    # It looks for its list of currencies from where it is installed.
    (home,) = ENVIRONMENT.glob("lib/python3*/site-packages")
    options = {
        "--data-file": str(data),
        "--validate-version": VERSION,
        "--applicability-criteria": ",".join(CRITERIA),
    }
    words = [word for option in options.items() for word in option]
    command = [str(python), "-m", "focus_validator.main", "--block-download"]
    said = subprocess.run([*command, *words], cwd=home, capture_output=True, text=True, check=False)
    assert "PASS" in said.stdout, said.stdout + said.stderr
    failed = set(re.findall(r"^\S+ (\S+): FAIL", said.stdout, re.MULTILINE))
    composed = {name for name in failed if name.endswith("-000-M")}
    assert failed - composed == CONTRADICTORY, said.stdout

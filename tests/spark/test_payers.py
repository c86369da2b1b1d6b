"""Payers over several accounts: currency, discount, credit, tax; numbers that have no gap."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.fresh import bill_afresh
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.steps import all_of
from tests.spark.test_bill import NEXT, OTHER, TENANT, A, B, bill
from tests.spark.test_price_book import TEXT

THIRD = "333344445555"
MILLION = 1_000_000


def terms(folder: Path) -> dict[str, str]:
    """Euros, 20 % tax, a tenth off for a payer of two accounts, who has a credit of 0.50."""
    book = json.loads(TEXT) | {"currency": "EUR", "tax": {"name": "VAT", "rate": "0.2"}}
    book["free"]["quantity"] = 0
    said = {
        "schema": "tidegate.customers/1",
        "seller": {"id": "tide", "name": "Tide GmbH", "prefix": "TG-", "issue_day": 4},
        "customers": {
            "acme": {"name": "ACME", "accounts": [TENANT, OTHER], "discounts": {"*": "0.1"}}
        },
        "credits": [
            {"id": "c-1", "customer": "acme", "amount": "2.00", "from": PERIOD, "reason": "Outage"}
        ],
    }
    paths = {"prices": folder / "prices.json", "customers": folder / "customers.json"}
    for path, text in zip(paths.values(), (book, said), strict=True):
        path.write_text(json.dumps(text))
    return {name: str(path) for name, path in paths.items()}


def put_usage(place: Path, minute: int = MINUTE, writer: str = A) -> None:
    rows = [(TENANT, 3), (OTHER, 1), (THIRD, 2)]
    put_records(
        place,
        [
            record(writer=writer, number=n, account=its, units=count * MILLION, minute=minute)
            for n, (its, count) in enumerate(rows, start=1)
        ],
    )
    put_mark(place, writer, records=3, opened=minute, complete_to=minute + 1, after="")


def said_of(out: Path, period: str = PERIOD) -> dict[str, Any]:
    *_, last = sorted((out / f"runs/period={period}").glob("*.json"))
    found: dict[str, Any] = json.loads(last.read_bytes())
    return found


def test_a_payer_has_one_invoice_over_its_accounts(session: SparkSession, tmp_path: Path) -> None:
    place, out, asked = tmp_path / "usage", tmp_path / "bills", terms(tmp_path)
    put_usage(place)
    first = bill(session, place, out, close=True, **asked)
    # 4 million at 0.36 less a credit of 1.44: nothing is left but of the other payer.
    told = [(its.account, its.payable, its.currency, its.number) for its in first.invoices]
    assert told == [
        (THIRD, Decimal("0.96"), "EUR", "TG-000001"),
        ("acme", Decimal("0.00"), "EUR", "TG-000002"),
    ]
    put_usage(place, MINUTE + NEXT, B)
    second = bill(session, place, out, period="2026-12", close=True, **asked)
    # What is left of the credit, 0.56, and tax on the rest.
    assert [(its.payable, its.number) for its in second.invoices] == [
        (Decimal("0.96"), "TG-000003"),
        (Decimal("1.06"), "TG-000004"),
    ]
    said = said_of(out, "2026-12")
    assert (said["numbering"]["first"], said["numbering"]["last"]) == (3, 4)
    assert said["credits_used"] == {"c-1": "0.56"}
    check_files(out)


def check_files(out: Path) -> None:
    lines = pq.read_table(next((out / "invoices/period=2026-12").rglob("lines"))).to_pylist()
    of_kind = {
        kind: sum(its["cost"] for its in lines if its["kind"] == kind and its["account"] != THIRD)
        for kind in ("usage", "credit", "tax")
    }
    assert of_kind == {"usage": Decimal("1.44"), "credit": Decimal("-0.56"), "tax": Decimal("0.18")}
    assert {its["list_price"] for its in lines if its["kind"] == "usage"} == {Decimal("0.0000004")}
    rows = pq.read_table(next((out / "focus/period=2026-12").rglob("run=*"))).to_pylist()
    billed = {
        number: sum(row["BilledCost"] for row in rows if row["InvoiceId"] == number)
        for number in {row["InvoiceId"] for row in rows}
    }
    assert billed == {"TG-000003": Decimal("0.96"), "TG-000004": Decimal("1.06")}
    assert {row["InvoiceIssuerName"] for row in rows} == {"Tide GmbH"}
    page = next((out / "statements/acme/period=2026-12").rglob("*.html")).read_text()
    for words in ("Invoice TG-000004", "Issued 2027-01-04, due 2027-02-03", "1.06 EUR", "Outage"):
        assert words in page
    part = next((out / f"statements/{OTHER}/period=2026-12").rglob("*.html")).read_text()
    assert "Part of invoice TG-000004 of ACME" in part
    assert "0.36 EUR" in part


@pytest.mark.nightly
def test_numbers_are_given_once_though_a_closing_is_killed(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, asked = tmp_path / "usage", tmp_path / "bills", terms(tmp_path)
    put_usage(place)
    closing: dict[str, Any] = {"period": PERIOD, "close": True, **asked}
    bill_afresh(place, out, kill_at=f"runs/period={PERIOD}", **closing)
    assert not (out / "runs").exists()
    ended = bill_afresh(place, out, **closing)
    whole = bill(session, place, tmp_path / "whole", close=True, accept=(), **asked)
    assert ended["run"] == whole.run
    assert all_of(out) == all_of(tmp_path / "whole")
    assert said_of(out)["numbering"]["numbers"] == {THIRD: "TG-000001", "acme": "TG-000002"}
    again = bill(session, place, out, close=True, accept=(), **asked)
    assert [its.number for its in again.invoices] == ["TG-000001", "TG-000002"]
    assert len(list((out / "runs").rglob("*.json"))) == 1

"""Statements as page, document and table, without Spark: what is on them, and the same bytes."""

import re
import subprocess
import sys
import zlib
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from glue_jobs.footnotes import footnotes, notes
from glue_jobs.invoice_terms import CreditUsed, Tax, invoice_of
from glue_jobs.missing import Missing
from glue_jobs.price_book import book_for
from glue_jobs.statement import SECTIONS, Row, Statement, as_csv, as_page
from glue_jobs.statement_pdf import WidePaper, as_pdf

ROOT: Final = Path(__file__).parents[2]
LINE: Final = {
    "date": "2026-11-02",
    "kind": "usage",
    "of_period": "2026-11",
    "region": "eu-west-1",
    "queue": "orders",
    "queue_type": "standard",
    "operation": "SendMessage",
    "sku": "requests-standard",
    "tier": "1",
    "quantity": "3000000",
    "price": "0.0000003600",
    "cost": "1.0800000000",
    "list_price": "0.0000004000",
}


def statement(**changes: Any) -> Statement:
    invoice = invoice_of(
        *("acme", "2026-11", "EUR", Tax("VAT", Decimal("0.19"), "§ 13b")),
        usage_cost=Decimal("1.084"),
        correction_cost=Decimal(0),
        credits_left=[CreditUsed("c-1", Decimal("0.50"), "Outage")],
    )
    book = book_for("2026-11")
    row = Row("orders", cost=Decimal("1.08"))
    row.used["requests"] = 1
    told: dict[str, Any] = asdict(invoice) | {
        "kind": invoice.kind,
        "credit_cost": invoice.credit_cost,
        "number": "TG-000007",
        "issued": "2026-12-04",
        "due": "2027-01-03",
    }
    its: dict[str, Any] = {
        "account": "acme",
        "name": "ACMÉ 株",
        "period": "2026-11",
        "state": "closed",
        "invoice": told,
        "sections": {name: [] for name in SECTIONS} | {"queue": [row], "tag": [row]},
        "lines": [LINE],
        "skus": {sku.name: (sku.title, sku.unit, sku.unit_size) for sku in book.skus.values()},
        "missing": [],
        "seller": {"name": "Tide GmbH", "address": ["Kai 1"], "tax_id": "DE1"},
        "buyer": {"name": "ACMÉ 株", "address": [], "tax_id": ""},
        "footnotes": footnotes(book),
        "notes": notes(book),
    }
    return Statement(**(its | changes))


def words_of(pdf: bytes) -> str:
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    found = []
    for stream in streams:
        try:
            found.append(zlib.decompress(stream).decode("latin-1"))
        except zlib.error:
            continue
    return " ".join(re.findall(r"\(((?:[^()\\]|\\.)*)\) Tj", " ".join(found)))


SAID: Final = (
    *("Invoice TG-000007", "Issued 2026-12-04, due 2027-01-03", "Tide GmbH", "Kai 1"),
    *("Credit c-1: Outage", "VAT, 19 %: § 13b", "0.69", "3,000,000 Requests"),
    *("at list prices usage would cost 0.12 EUR more", "The first 1,000,000 units a month"),
)


def test_page_and_document_say_the_same() -> None:
    latin = statement(name="ACMÉ", buyer={"name": "ACMÉ"})
    page, words = as_page(statement()).decode(), words_of(as_pdf(latin))
    for said in SAID:
        assert said in page
        assert "".join(said.split()) in "".join(words.replace("\\", "").split())
    assert "ACMÉ 株" in page
    assert "ACMÉ" in words
    assert "1 request" in page
    assert "1 requests" not in page


def test_groups_and_streams_are_not_called_queues() -> None:
    latin = statement(name="ACMÉ", buyer={"name": "ACMÉ"})
    page, words = as_page(statement()).decode(), words_of(as_pdf(latin))
    assert "<h2>Requests by queue, stream and group</h2>" in page
    assert "<h2>Queues, streams and groups</h2>" in page
    assert "Queues,streamsandgroups" in "".join(words.split())


def test_letters_that_standard_fonts_lack_are_set_in_another() -> None:
    latin = as_pdf(statement(name="ACMÉ", buyer={}))
    wide = as_pdf(statement(name="Łódź", buyer={}))
    assert (b"NotoSans" in latin, b"NotoSans" in wide) == (False, True)
    paper = WidePaper(format="A4")
    assert paper.shown("Łódź, Αθήνα, Москва,\n2 € for 株") == "Łódź, Αθήνα, Москва,\n2 € for ?"
    assert paper.lacks_letters


def test_what_is_part_of_an_invoice_says_so() -> None:
    part = statement(part_of="invoice TG-000007 of ACME", state="open", name="ACME", buyer={})
    for text in (as_page(part).decode(), words_of(as_pdf(part))):
        assert "Part of invoice TG-000007 of ACME" in text
        assert "Share, before tax" in text
        assert "VAT" not in text


def test_what_is_open_has_no_number() -> None:
    told = dict(statement().invoice) | {"number": "", "issued": "", "due": ""}
    its = statement(state="open", invoice=told, name="ACME", buyer={})
    page, words = as_page(its).decode(), words_of(as_pdf(its))
    for text in (page, words):
        assert "Statement so far" in text
        assert "acme-2026-11" not in text
        assert "Invoice" not in text


def test_page_and_document_say_what_is_missing_and_what_corrections_are() -> None:
    late = LINE | {"kind": "correction", "of_period": "2026-10", "cost": "-0.0048398686"}
    missing = [Missing("lost", 29_700_000, 29_700_003, 7, 1), Missing("lost", 29_700_009, -1, 0, 1)]
    its = statement(lines=[LINE, late], missing=missing, name="ACME", buyer={})
    page = as_page(its).decode()
    words = "".join(words_of(as_pdf(its)).replace("\\", "").split())
    for said in (
        *("What is missing", "2026-06-21 00:00 to 00:03 UTC", "from 2026-06-21 00:09 UTC on"),
        *("Of these times not all usage is known, UTC.", "Records are gone, or a server was cut"),
        *("A correction is what records that came after an invoice was final change of it",),
    ):
        assert said in page
        assert "".join(said.split()) in words
    assert ">7<" in page
    # One sign for all that is below zero.
    assert "\u22120.0048398686" in page
    assert "\u22120.50" in page
    assert "-0.0048398686" in words


def test_sums_stand_below_rows_that_are_rounded_one_by_one() -> None:
    days = [Row(f"2026-11-0{day}", cost=Decimal("0.004")) for day in (1, 2, 3)]
    queues = [Row(name, cost=Decimal("0.004")) for name in "abc"]
    sections: dict[str, list[Row]] = {name: [] for name in SECTIONS} | {
        "day": days,
        "queue": queues,
    }
    its = statement(sections=sections, name="ACME", buyer={})
    page, words = as_page(its).decode(), words_of(as_pdf(its))
    assert page.count("<td>&lt;0.01</td>") == 3
    assert "<tr><th>Total</th><td>0.01</td>" in page
    for text in (page, words):
        assert "Each row is rounded by itself" in text
        assert "Every line of this invoice" not in text


def test_a_discount_is_told_as_money_is() -> None:
    for quantity, said in (("1234567", "0.05 EUR"), ("1000", "less than 0.01 EUR")):
        page = as_page(statement(lines=[LINE | {"quantity": quantity}])).decode()
        assert f"at list prices usage would cost {said} more" in page


def test_what_is_paid_back_is_a_credit_note() -> None:
    told = dict(statement().invoice)
    back = statement(invoice=told | {"payable": Decimal("-2.00"), "kind": "credit note"})
    assert "Credit note TG-000007" in as_page(back).decode()
    assert "To be paid back" in as_page(back).decode()


def test_the_table_has_list_prices() -> None:
    first, second = as_csv(statement()).decode().splitlines()
    assert first.endswith("price,cost,list_price,note")
    assert second.endswith("0.0000003600,1.0800000000,0.0000004000,")


def test_two_processes_set_the_same_bytes() -> None:
    told = "import hashlib, tests.spark.test_statement as t;"
    told += "print(hashlib.sha256(t.as_pdf(t.statement()) + t.as_page(t.statement())).hexdigest())"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(hashes) == 1

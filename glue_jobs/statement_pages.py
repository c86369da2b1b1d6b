"""Statements of all payers and accounts, made and put where Spark's executors are."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Row

from glue_jobs.billed import Billed
from glue_jobs.currencies import rounded
from glue_jobs.footnotes import footnotes, notes
from glue_jobs.identities import Gap
from glue_jobs.invoice_terms import EXACT, Invoice
from glue_jobs.invoicing import is_charge_of
from glue_jobs.missing import Missing, missing_of
from glue_jobs.outputs import Written, put_once
from glue_jobs.places import Place
from glue_jobs.price_book import PriceBook
from glue_jobs.statement import Statement, as_csv, as_page, facts, sections_of
from glue_jobs.statement_pdf import as_pdf

_AMOUNTS: Final = (
    *("usage_cost", "correction_cost", "rounding", "net", "tax_cost", "payable", "credit_cost"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A statement of a payer or an account: what it comes to, and the objects that say so."""

    account: str
    payable: Decimal
    files: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """What a statement takes from its price book: titles and units of SKUs, and sentences."""

    skus: Mapping[str, tuple[str, str, int]]
    footnotes: Sequence[str]
    notes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Heading:
    """What statements of a run have in common; `words` are by the hashes of books."""

    period: str
    run: str
    state: str
    missing: Sequence[Missing]
    seller: Mapping[str, Any]
    names: Mapping[str, str]
    words: Mapping[str, Words]
    sealed_by: str = ""


def put_statements(  # noqa: PLR0913 - what a statement says, part by part
    hourly: DataFrame,
    lines: DataFrame,
    billed: Billed,
    out: Place,
    *,
    period: str,
    run: str,
    state: str,
    gaps: Sequence[Gap],
    sealed_by: str = "",
) -> list[Page]:
    """Put the page, the document and the table of each statement; in order of holders."""
    books = billed.terms.all_books()
    heading = Heading(
        period,
        run,
        state,
        missing_of(gaps),
        asdict(billed.terms.customers.seller.party),
        dict(billed.names),
        {its.sha256: _words(its, books) for its in books},
        sealed_by,
    )
    told = lines.sparkSession.createDataFrame(_told(billed), "holder string, told string")
    rows = told.join(facts(hourly, lines, billed), "holder")
    pages = rows.rdd.mapPartitions(partial(_put, out, heading)).collect()
    return sorted(pages, key=lambda page: page.account)


def _words(book: PriceBook, books: Sequence[PriceBook]) -> Words:
    """Of a book; SKUs of the others may be those of corrections."""
    skus = {sku.name: sku for its in (*books, book) for sku in its.skus.values()}
    titles = {name: (sku.title, sku.unit, sku.unit_size) for name, sku in skus.items()}
    return Words(titles, footnotes(book), notes(book))


def _told(billed: Billed) -> list[tuple[str, str]]:
    """Of each holder what its statement says besides usage: the invoice, and who buys, as JSON."""
    found = []
    for invoice in billed.invoices:
        customer = billed.terms.customer(invoice.payer)
        buyer = asdict(customer.party) if customer is not None else {}
        its = {
            "invoice": asdict(invoice) | {"kind": invoice.kind, "credit_cost": invoice.credit_cost},
            "name": billed.name_of(invoice.payer),
            "buyer": buyer,
            "book": billed.terms.book_of(invoice.payer).sha256,
            "part_of": "",
        }
        found.append((invoice.payer, json.dumps(its, default=str)))
        for account in customer.accounts if customer is not None else ():
            of_account = {
                "name": billed.names.get(account, ""),
                "part_of": _part_of(invoice, billed.name_of(invoice.payer)),
            }
            found.append((account, json.dumps(its | of_account, default=str)))
    return found


def _part_of(invoice: Invoice, name: str) -> str:
    whose = name or invoice.payer
    # What is open has no number.
    return (
        f"{invoice.kind} {invoice.number} of {whose}" if invoice.number else f"the bill of {whose}"
    )


def _put(out: Place, heading: Heading, rows: Iterable[Row]) -> Iterator[Page]:
    makers = {"html": as_page, "pdf": as_pdf, "csv": as_csv}
    for row in rows:
        with localcontext(EXACT):
            statement = _statement(heading, row)
            contents = {kind: make(statement) for kind, make in makers.items()}
        # As everything of a run: it stays, whatever is billed later.
        folder = f"statements/{row.holder}/period={heading.period}/run={heading.run}"
        files = tuple(
            put_once(out, f"{folder}/statement.{kind}", its) for kind, its in contents.items()
        )
        yield Page(row.holder, statement.invoice["payable"], files)


def _statement(heading: Heading, row: Row) -> Statement:
    told = json.loads(row.told)
    sections, lines = sections_of((its.section, its.fact) for its in row.rows)
    invoice = told["invoice"]
    for name in _AMOUNTS:
        invoice[name] = Decimal(invoice[name])
    invoice["tax"]["rate"] = Decimal(invoice["tax"]["rate"])
    for its in invoice["credits"]:
        its["amount"] = Decimal(its["amount"])
    if told["part_of"]:
        invoice |= _share_of(lines, invoice["currency"])
    words = heading.words[told["book"]]
    return Statement(
        account=row.holder,
        name=told["name"],
        period=heading.period,
        state=heading.state,
        invoice=invoice,
        sections=sections,
        lines=lines,
        skus=words.skus,
        missing=heading.missing,
        seller=heading.seller,
        buyer=told["buyer"],
        part_of=told["part_of"],
        names=heading.names,
        footnotes=words.footnotes,
        notes=words.notes,
        sealed_by=heading.sealed_by,
    )


def _share_of(lines: Iterable[Mapping[str, str]], currency: str) -> dict[str, Any]:
    """What an account comes to of an invoice that another pays: charges alone, rounded."""
    cost = sum((Decimal(its["cost"]) for its in lines if is_charge_of(its)), Decimal(0))
    share = rounded(cost, currency)
    nothing = {name: Decimal(0) for name in ("rounding", "tax_cost", "credit_cost")}
    return {**nothing, "credits": [], "net": share, "payable": share}

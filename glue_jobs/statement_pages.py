"""Statements of all accounts, made and put where Spark's executors are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from glue_jobs.identities import Gap
from glue_jobs.missing import Missing, missing_of
from glue_jobs.outputs import Written
from glue_jobs.places import Place
from glue_jobs.price_book import PriceBook
from glue_jobs.statement import Statement, as_csv, as_page, facts, sections_of


@dataclass(frozen=True, slots=True)
class Page:
    """An account's statement: what it is to pay, and the objects that say so."""

    account: str
    payable: Decimal
    files: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """What statements of a run have in common."""

    period: str
    state: str
    missing: Sequence[Missing]
    names: Mapping[str, str]
    skus: Mapping[str, tuple[str, str, int]]


def put_statements(  # noqa: PLR0913 - what a statement says, part by part
    hourly: DataFrame,
    lines: DataFrame,
    invoices: DataFrame,
    out: Place,
    *,
    names: Mapping[str, str],
    period: str,
    state: str,
    book: PriceBook,
    gaps: Sequence[Gap],
) -> list[Page]:
    """Put the page and the table of each invoice; in order of accounts."""
    skus = {name: (sku.title, sku.unit, sku.unit_size) for name, sku in book.skus.items()}
    heading = Heading(period, state, missing_of(gaps), dict(names), skus)
    plain = [f.col(name).cast("string").alias(name) for name in invoices.columns]
    packed = invoices.select("account", f.struct(*plain).alias("invoice"))
    rows = packed.join(facts(hourly, lines), "account")
    pages = rows.rdd.mapPartitions(partial(_put, out, heading)).collect()
    return sorted(pages, key=lambda page: page.account)


def _put(out: Place, heading: Heading, rows: Iterable[Row]) -> Iterator[Page]:
    for row in rows:
        invoice: dict[str, Any] = row.invoice.asDict()
        for name in ("payable", "rounding", "usage_cost", "correction_cost"):
            invoice[name] = Decimal(invoice[name])
        sections, lines = sections_of((its.section, its.fact) for its in row.rows)
        statement = Statement(
            account=row.account,
            name=heading.names.get(row.account, ""),
            period=heading.period,
            state=heading.state,
            invoice=invoice,
            sections=sections,
            lines=lines,
            skus=heading.skus,
            missing=heading.missing,
        )
        stem = f"statements/{row.account}/{heading.period}"
        files = []
        for name, content in (
            (f"{stem}.html", as_page(statement)),
            (f"{stem}.csv", as_csv(statement)),
        ):
            out.put(name, content)
            files.append(Written(name, len(content), sha256(content).hexdigest()))
        yield Page(row.account, invoice["payable"], tuple(files))

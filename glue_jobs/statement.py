"""The statement of an account: what a tenant sees of a bill, as a page and as a table.

The page needs nothing but itself: styles and charts are in it. What tenants named themselves is
escaped by the template, and kept from being a formula in the table.
"""

import csv
import io
import json
import re
from calendar import month_name
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, wraps
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from glue_jobs.billed import Billed
from glue_jobs.billing import MONEY
from glue_jobs.charts import Bar, Day, bars, days_of
from glue_jobs.currencies import places_of, rounded
from glue_jobs.figures import amount, count, exact, money, percent, price, size, units
from glue_jobs.footnotes import THROTTLED
from glue_jobs.invoicing import CORRECTION, USAGE
from glue_jobs.missing import Missing, days_missing, is_certain
from glue_jobs.plural import counted, verb
from glue_jobs.price_book import STORED
from glue_jobs.records import KIND, MESSAGES_OF

USED: Final = (
    *("requests", "units", "messages", "bytes", "empty_receives", "throttled", "refused", "failed"),
)
"""What a statement adds up for each queue, operation and day; units are those charged for."""

SECTIONS: Final = {
    "day": "date",
    "queue": "queue",
    "operation": "operation",
    "account": "account",
    "tag": "tag",
}
ROWS_MAX: Final = 50
"""Rows of a table of the page; what is beyond them is added up. The CSV has all."""

_CSV: Final = (
    *("date", "kind", "of_period", "region", "queue", "queue_type", "operation", "sku", "tier"),
    *("quantity", "price", "cost", "list_price"),
)
CORRECTION_WORDS: Final = (
    "A correction is what records that came after an invoice was final change of it, at the prices"
    " of its month. That invoice stays as it is."
)
SUM_WORDS: Final = (
    "Each row is rounded by itself, so rows may not add up to the total, which is rounded once."
    " Corrections, credits and tax are in the charges alone."
)

_NOTE: Final = "note"
_MISSING_MAX: Final = 12
_HYPHEN: Final = re.compile(r"-(?=\d)")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def facts(usage: DataFrame, lines: DataFrame, billed: Billed) -> DataFrame:
    """For each holder of a statement, what it is made of: rows of (section, fact), fact in JSON.

    `usage` is hourly usage of the period with its `date`; `lines` are all lines of its invoices.
    """
    charged = f.when(billed.terms.is_billed(), f.col("units")).otherwise(f.lit(0).cast("bigint"))
    usage = billed.held(usage.where("account != ''").withColumn("units", charged))
    lines = billed.held(lines)
    keys = [(section, key) for section, key in SECTIONS.items() if section != "tag"]
    used = [_used(usage, section, key) for section, key in keys]
    costs = [_costs(lines, section, key) for section, key in keys]
    if billed.tags:
        used.append(_used(_by_tag(usage, billed), "tag", "tag"))
        costs.append(_costs(_by_tag(lines, billed), "tag", "tag"))
    each = lines.select("holder", f.lit("line").alias("section"), _as_json(*_CSV).alias("fact"))
    rows = each
    for its in (*used, *costs):
        rows = rows.unionByName(its)
    packed = f.sort_array(f.collect_list(f.struct("section", "fact")))
    return rows.groupBy("holder").agg(packed.alias("rows"))


def _by_tag(table: DataFrame, billed: Billed) -> DataFrame:
    """A row once for each tag of its queue; without those of queues that have none."""
    tags = f.from_json("tags", "map<string,string>")
    return (
        billed.tagged(table)
        .select("*", f.explode(tags).alias("tag_key", "tag_value"))
        .withColumn("tag", f.concat_ws(": ", "tag_key", "tag_value"))
    )


def _used(usage: DataFrame, section: str, key: str) -> DataFrame:
    requests = f.col("requests")
    throttled = f.col("code").isin(*THROTTLED)
    none, is_stored = f.lit(0).cast("bigint"), f.col("operation") == STORED
    asked_for = f.substring_index("operation", KIND, 1)
    counted = usage.withColumns(
        {
            "throttled": f.when(throttled, requests).otherwise(none),
            "refused": f.when(~throttled & (f.col("status") == "4xx"), requests).otherwise(none),
            "failed": f.when(f.col("status") == "5xx", requests).otherwise(none),
            "messages": f.when(asked_for.isin(*sorted(MESSAGES_OF)), f.col("messages")).otherwise(
                none
            ),
        }
    )
    summed = (
        counted.withColumn("bytes", f.when(is_stored, none).otherwise(f.col("bytes")))
        .groupBy("holder", f.col(key).alias("key"))
        .agg(*(f.sum(name).alias(name) for name in USED))
    )
    return summed.select(
        "holder", f.lit(f"used-{section}").alias("section"), _as_json("key", *USED).alias("fact")
    )


def _costs(lines: DataFrame, section: str, key: str) -> DataFrame:
    summed = (
        lines.where(f.col("kind") == USAGE)
        .groupBy("holder", f.col(key).alias("key"))
        .agg(f.sum("cost").cast(MONEY).alias("cost"))
    )
    return summed.select(
        "holder", f.lit(f"cost-{section}").alias("section"), _as_json("key", "cost").alias("fact")
    )


def _as_json(*names: str) -> Column:
    """Values as texts: decimals keep their digits that way."""
    return f.to_json(f.struct(*(f.col(name).cast("string").alias(name) for name in names)))


@dataclass(slots=True)
class Row:
    """Sums of a queue, an operation or a day."""

    key: str
    used: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USED, 0))
    cost: Decimal = Decimal(0)

    def add(self, other: "Row") -> None:
        """Add another's sums."""
        self.cost += other.cost
        for name in USED:
            self.used[name] += other.used[name]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement's contents, ready to be set: `sections` by their names, largest charge first.

    It is of a payer, or of an account that another pays for: then it is `part_of` an invoice.
    `invoice` has the fields of invoice_terms.Invoice, amounts as decimals.
    """

    account: str
    name: str
    period: str
    state: str
    invoice: Mapping[str, Any]
    sections: Mapping[str, Sequence[Row]]
    lines: Sequence[Mapping[str, str]]
    skus: Mapping[str, tuple[str, str, int]]
    missing: Sequence[Missing]
    seller: Mapping[str, Any] = field(default_factory=dict)
    """Name, address and tax id; so has the `buyer`."""
    buyer: Mapping[str, Any] = field(default_factory=dict)
    part_of: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of accounts."""
    footnotes: Sequence[str] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is said of counts, by their names."""
    sealed_by: str = ""
    """The newest digest of usage (sealed.py): printed, it binds all digests before it."""

    @property
    def total(self) -> Row:
        """All of the account's usage."""
        total = Row("")
        for row in self.sections["day"]:
            total.add(row)
        return total

    @property
    def charges(self) -> list[dict[str, Any]]:
        """Charges by SKU and tier, in the book's terms."""
        found: dict[tuple[str, int, str], dict[str, Any]] = {}
        for line in self.lines:
            if line["kind"] != USAGE:
                continue
            title, unit, size = self.skus[line["sku"]]
            tier = int(line["tier"])
            its = found.setdefault(
                (line["sku"], tier, line["price"]),
                {"title": title, "unit": unit, "tier": tier}
                | {"price": price(Decimal(line["price"]), size, unit)}
                | {"quantity": Decimal(0), "cost": Decimal(0)},
            )
            its["quantity"] += Decimal(line["quantity"]) / size
            its["cost"] += Decimal(line["cost"])
        return [its for _, its in sorted(found.items())]

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """What closed periods are corrected by, by SKU."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for line in self.lines:
            if line["kind"] != CORRECTION:
                continue
            title, unit, size = self.skus.get(line["sku"], (line["sku"], "", 1))
            its = found.setdefault(
                (line["of_period"], line["sku"]),
                {"month": _month(line["of_period"]), "title": title, "unit": unit}
                | {"quantity": Decimal(0), "cost": Decimal(0)},
            )
            its["quantity"] += Decimal(line["quantity"]) / size
            its["cost"] += Decimal(line["cost"])
        return [its for _, its in sorted(found.items())]

    @property
    def title(self) -> str:
        """What it is, and its number; what is open has none."""
        if self.part_of:
            return f"Part of {self.part_of}"
        if self.state != "closed":
            return "Statement so far"
        kind = str(self.invoice["kind"]).capitalize()
        return f"{kind} {self.invoice['number'] or self.invoice['id']}"

    @property
    def due_words(self) -> str:
        """What the sum is."""
        if self.part_of:
            return "Share, before tax"
        so_far = "" if self.state == "closed" else " so far"
        return f"To be paid{' back' if self.invoice['payable'] < 0 else ''}{so_far}"

    def label(self, section: str, key: str) -> str:
        """What a row is called: accounts with their names."""
        name = self.names.get(key, "") if section == "account" else ""
        return f"{name} ({key})" if name else key

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return str(self.invoice["currency"])

    @property
    def discount(self) -> Decimal:
        """What usage would cost more at list prices."""
        saved = Decimal(0)
        for line in self.lines:
            if line["kind"] == USAGE and line["list_price"] != line["price"]:
                more = Decimal(line["list_price"]) - Decimal(line["price"])
                saved += Decimal(line["quantity"]) * more / self.skus[line["sku"]][2]
        return saved

    @property
    def discount_words(self) -> str:
        """What is said of it, rounded as the invoice is; "" where there is none."""
        if self.discount <= 0:
            return ""
        least = Decimal(1).scaleb(-places_of(self.currency))
        saved = rounded(self.discount, self.currency)
        more = amount(saved) if saved else f"less than {amount(least)}"
        return (
            f"Prices are less a discount: at list prices usage would cost {more} {self.currency}"
            " more."
        )

    @property
    def missing_words(self) -> str:
        """What is said above the times of which something is missing."""
        later = "" if self.state == "closed" else "; what comes later is in a later bill"
        return (
            f"Of these times not all usage is known, UTC. What is not known is not charged{later}."
        )

    @property
    def corrected_months(self) -> list[str]:
        """The months that it corrects."""
        return sorted({its["month"] for its in self.corrections})

    @property
    def month(self) -> str:
        """The period as people say it."""
        return _month(self.period)

    @property
    def peak(self) -> int:
        """Requests of the busiest day."""
        return max((row.used["requests"] for row in self.sections["day"]), default=0)

    @property
    def days(self) -> list[Day]:
        """The chart of days."""
        of_days = {row.key: row for row in self.sections["day"]}
        found = {key: (row.used["requests"], row.cost) for key, row in of_days.items()}
        return days_of(self.period, found, days_missing(self.missing, self.period))

    @property
    def lacks_something(self) -> bool:
        """Whether its reader should know at once that something is missing."""
        return is_certain(self.missing)

    @property
    def missing_first(self) -> Sequence[Missing]:
        """What the page says of what is missing; of very much the first. The CSV has all."""
        return self.missing[:_MISSING_MAX]

    @property
    def more_missing(self) -> str:
        """What the page leaves of it to the table."""
        more = len(self.missing) - len(self.missing_first)
        return f"{more} more {verb(more)}"

    @property
    def seal(self) -> str:
        """What its reader can hold the chain of usage records to; "" where there is none."""
        if not self.sealed_by:
            return ""
        number, hour, its_hash = self.sealed_by.split()
        return f"Usage records are chained: digest {number} of {hour}, UTC, is {its_hash}."

    def bars(self, section: str) -> list[Bar]:
        """The chart of queues, or of operations."""
        return bars((row.key, row.used["requests"], row.cost) for row in self.rows(section))

    def rows(self, section: str) -> list[Row]:
        """Rows of a table, the smallest of many in one."""
        rows = list(self.sections[section])
        if len(rows) <= ROWS_MAX:
            return rows
        rest = Row(counted(len(rows) - ROWS_MAX + 1, "other"))
        for row in rows[ROWS_MAX - 1 :]:
            rest.add(row)
        return [*rows[: ROWS_MAX - 1], rest]


def sections_of(
    rows: Iterable[tuple[str, str]],
) -> tuple[dict[str, list[Row]], list[dict[str, str]]]:
    """Sections and lines from an account's rows of `facts`."""
    sections: dict[str, dict[str, Row]] = {section: {} for section in SECTIONS}
    lines = []
    for kind, fact in rows:
        its = json.loads(fact)
        what, _, section = kind.partition("-")
        if what == "line":
            lines.append({"list_price": its["price"], **its})
            continue
        row = sections[section].setdefault(its["key"], Row(its["key"]))
        if what == "used":
            row.used = {name: int(its[name]) for name in USED}
        else:
            row.cost = Decimal(its["cost"])
    ordered = {
        section: sorted(found.values(), key=lambda row: (-row.cost, -row.used["requests"], row.key))
        for section, found in sections.items()
    }
    return ordered, sorted(lines, key=lambda its: tuple(its[name] for name in _CSV))


def as_csv(statement: Statement) -> bytes:
    """The statement's lines as a table, in UTF-8, and what is missing, as lines without a charge.

    The `kind` of those says what became of it, `quantity` how many records, the `note` when.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_CSV, _NOTE))
    for line in statement.lines:
        writer.writerow([*(_cell(name, line[name]) for name in _CSV), ""])
    for its in statement.missing:
        said = {
            "date": its.date or f"{statement.period}-01",
            "kind": its.state,
            "of_period": statement.period,
            "quantity": its.records,
            "price": 0,
            "cost": 0,
            "list_price": 0,
        }
        writer.writerow([*(said.get(name, "") for name in _CSV), its.when])
    return text.getvalue().encode()


def _cell(name: str, value: str) -> str:
    if name in {"quantity", "price", "cost", "list_price"}:
        return value
    return f"'{value}" if value.startswith(_FORMULA) else value


def as_page(statement: Statement) -> bytes:
    """The statement as one page of HTML, in UTF-8."""
    page: str = _template().render(
        statement=statement, correction_words=CORRECTION_WORDS, sum_words=SUM_WORDS
    )
    return page.encode()


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("glue_jobs", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = (count, size, money, exact, units, amount, percent)
    environment.filters.update({its.__name__: _with_minus(its) for its in figures})
    return environment.get_template("statement.html.j2")


def _with_minus(figure: Callable[..., str]) -> Callable[..., str]:
    """A figure with the sign of a number below zero, which is no hyphen."""

    @wraps(figure)
    def signed(*given: Any) -> str:
        return _HYPHEN.sub("\u2212", figure(*given))

    return signed


def _month(period: str) -> str:
    year, month = period.split("-")
    return f"{month_name[int(month)]} {year}"

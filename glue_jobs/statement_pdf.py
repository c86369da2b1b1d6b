"""The statement as a PDF: the same figures as the page, for whoever files or prints it.

Its bytes depend on the statement alone: the time in it is that of the issue, or the month's end.
Where names have letters beyond Latin-1, which the standard fonts lack, it is set in Noto Sans, of
which it has the letters that it needs: Latin, Greek and Cyrillic ones. For others there are
question marks, and the page has them as they are.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import as_file, files
from typing import Any, Final

from fpdf import FPDF
from fpdf.enums import XPos, YPos

from glue_jobs.figures import amount, exact, money, percent, units
from glue_jobs.invoice_terms import next_month
from glue_jobs.statement import CORRECTION_WORDS, SUM_WORDS, Statement

_STANDARD: Final = "Helvetica"
_WIDE: Final = "Noto Sans"
_WIDE_FILE: Final = ("fontpkg_noto_sans", "files/NotoSans[wdth,wght].ttf")
_LATIN_1_END: Final = 0x100
_SIZE: Final = 9
_LINE_MM: Final = 5
_WIDTH_MM: Final = 180
_MARGIN_MM: Final = 15
_ROWS_MAX: Final = 40
_COLUMNS_MM: Final = (62, 24, 34, 34, 26)
_PRODUCER: Final = "Tidegate"


def as_pdf(statement: Statement) -> bytes:
    """The statement as one PDF."""
    paper = _set(statement, _Paper(format="A4"))
    if paper.lacks_letters:
        paper = _set(statement, WidePaper(format="A4"))
    return bytes(paper.output())


class _Paper(FPDF):  # type: ignore[misc]
    """Pages with their numbers below, in a standard font."""

    face = _STANDARD
    foot = ""
    lacks_letters = False

    def has(self, letter: str) -> bool:
        """Whether the font has it."""
        return ord(letter) < _LATIN_1_END

    def shown(self, text: str) -> str:
        """The text with what the font has."""
        text = unicodedata.normalize("NFC", text)
        shown = "".join(letter if self.has(letter) else "?" for letter in text)
        self.lacks_letters = self.lacks_letters or shown != text
        return shown

    def footer(self) -> None:
        """Set below each page by the library."""
        self.set_y(-12)
        self.set_font(self.face, size=7)
        self.cell(_WIDTH_MM, 4, f"{self.foot}   {self.page_no()} of {{nb}}", align="R")


class WidePaper(_Paper):
    """The same in a font with more letters, and none that is bold."""

    face = _WIDE

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        package, name = _WIDE_FILE
        with as_file(files(package) / name) as path:
            for style in ("", "B"):
                self.add_font(_WIDE, style, path)
        self._letters = self.fonts[next(iter(self.fonts))].cmap

    def has(self, letter: str) -> bool:
        """See _Paper."""
        return letter.isspace() or ord(letter) in self._letters


def _set(statement: Statement, pdf: _Paper) -> _Paper:
    pdf.set_creation_date(_made(statement))
    pdf.set_producer(_PRODUCER)
    pdf.set_title(pdf.shown(f"{statement.title}, {statement.month}"))
    pdf.set_margins(_MARGIN_MM, _MARGIN_MM)
    pdf.set_auto_page_break(auto=True, margin=_MARGIN_MM)
    pdf.alias_nb_pages()
    pdf.foot = pdf.shown(f"{statement.title}, {statement.month}")
    pdf.add_page()
    _head(pdf, statement)
    _charges(pdf, statement)
    if statement.missing:
        _missing(pdf, statement)
    for section, title in (
        ("account", "Accounts"),
        ("queue", "Queues, streams and groups"),
        ("tag", "Tags of queues"),
    ):
        if len(statement.sections[section]) > (1 if section == "account" else 0):
            _section(pdf, statement, section, title)
    _notes(pdf, statement)
    return pdf


def _made(statement: Statement) -> datetime:
    issued = statement.invoice["issued"] or f"{next_month(statement.period)}-01"
    return datetime.fromisoformat(issued).replace(tzinfo=UTC)


def _line(pdf: _Paper, text: str, style: str = "", size: float = _SIZE) -> None:
    pdf.set_font(pdf.face, style, size)
    pdf.multi_cell(_WIDTH_MM, _LINE_MM, pdf.shown(text), new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _head(pdf: _Paper, statement: Statement) -> None:
    invoice = statement.invoice
    _line(pdf, statement.title, "B", 16)
    state = "" if statement.state == "closed" else " (no invoice yet)"
    _line(pdf, f"{statement.month}{state}")
    if invoice["issued"] and not statement.part_of:
        _line(pdf, f"Issued {invoice['issued']}, due {invoice['due']}")
    if not statement.part_of and statement.corrected_months and invoice["payable"] < 0:
        _line(pdf, f"Corrects invoices of {', '.join(statement.corrected_months)}")
    pdf.ln(2)
    for who, party in (("Seller", statement.seller), ("Buyer", statement.buyer)):
        name = party.get("name") or (statement.name if who == "Buyer" else "")
        if who == "Buyer" and not party:
            name = f"{name} ({statement.account})" if name else statement.account
        if name:
            tax_id = [f"Tax id {party['tax_id']}"] if party.get("tax_id") else []
            _line(pdf, f"{who}: {', '.join([name, *party.get('address', ()), *tax_id])}")
    pdf.ln(2)
    due = f"{statement.due_words}: {amount(invoice['payable'])} {statement.currency}"
    _line(pdf, due, "B", 13)
    pdf.ln(2)


def _charges(pdf: _Paper, statement: Statement) -> None:
    invoice = statement.invoice
    rows = [
        (
            its["title"],
            str(its["tier"] or "free"),
            units(its["quantity"], its["unit"]),
            its["price"] if its["tier"] else "",
            exact(its["cost"]),
        )
        for its in statement.charges
    ]
    rows += [
        (
            f"Correction of {its['month']}: {its['title']}",
            "",
            units(its["quantity"], its["unit"]),
            "",
            exact(its["cost"]),
        )
        for its in statement.corrections
    ]
    rows += [(what, "", "", "", cost) for what, cost in _sums(statement, invoice)]
    _table(pdf, "Charges", ("What", "Tier", "Quantity", "Price", statement.currency), rows)


def _sums(statement: Statement, invoice: Any) -> Iterable[tuple[str, str]]:
    if invoice["rounding"]:
        yield "Rounding, half up", exact(invoice["rounding"])
    for its in invoice["credits"]:
        yield f"Credit {its['id']}: {its['reason']}", f"-{amount(its['amount'])}"
    tax = invoice["tax"]
    if tax["name"] and not statement.part_of:
        yield "Net", amount(invoice["net"])
        note = f": {tax['note']}" if tax["note"] else ""
        yield f"{tax['name']}, {percent(tax['rate'])}{note}", amount(invoice["tax_cost"])
    yield statement.due_words, amount(invoice["payable"])


def _section(pdf: _Paper, statement: Statement, section: str, title: str) -> None:
    rows: list[tuple[str, ...]] = [
        (
            statement.label(section, its.key) or f"no {section}",
            f"{its.used['requests']:,}",
            f"{its.used['units']:,}",
            f"{its.used['messages']:,}",
            money(its.cost),
        )
        for its in statement.rows(section)[:_ROWS_MAX]
    ]
    total = statement.total
    if section != "tag":
        sums = (total.used[name] for name in ("requests", "units", "messages"))
        rows.append(("Total", *(f"{its:,}" for its in sums), money(total.cost)))
    heads = ("Name", "Requests", "Chargeable units", "Messages", statement.currency)
    _table(pdf, title, heads, rows)
    if section != "tag":
        _line(pdf, SUM_WORDS, size=_SIZE - 1)


def _missing(pdf: _Paper, statement: Statement) -> None:
    rows = [
        (
            f"{its.state.capitalize()}: {its.means}",
            its.when,
            f"{its.records:,}" if its.records else "",
        )
        for its in statement.missing_first
    ]
    _table(pdf, "What is missing", ("What", "When", "Records"), rows, (92, 62, 26))
    _line(pdf, statement.missing_words)
    if len(statement.missing) > len(statement.missing_first):
        _line(pdf, f"{statement.more_missing} in the table beside this page.")


def _table(
    pdf: _Paper,
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    widths_mm: Sequence[int] = _COLUMNS_MM,
) -> None:
    pdf.ln(3)
    _line(pdf, title, "B", 11)
    pdf.set_font(pdf.face, size=_SIZE - 1)
    with pdf.table(
        width=_WIDTH_MM,
        col_widths=tuple(widths_mm),
        text_align=("LEFT", *["RIGHT"] * (len(heads) - 1)),
        borders_layout="HORIZONTAL_LINES",
        line_height=4.5,
    ) as table:
        for cells in (heads, *rows):
            table.row([pdf.shown(cell) for cell in cells])


def _notes(pdf: _Paper, statement: Statement) -> None:
    pdf.ln(3)
    if statement.discount_words:
        _line(pdf, statement.discount_words)
    if statement.corrections:
        _line(pdf, CORRECTION_WORDS)
    if statement.lacks_something:
        _line(pdf, "Not all usage of this month is known: what is missing is not charged.")
    _line(pdf, " ".join(("All times are UTC.", *statement.footnotes)), size=_SIZE - 1)
    if statement.seal:
        _line(pdf, statement.seal, size=_SIZE - 1)

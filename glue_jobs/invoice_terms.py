"""Invoices in exact decimals: what charges, credits and tax come to. Needs Python alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any, Final

from glue_jobs.currencies import rounded

EXACT: Final = Context(prec=76)
"""Sums of charges, of 38 digits each, lose nothing in it."""

_RATE_PLACES: Final = 4
INVOICE, CREDIT_NOTE = "invoice", "credit note"


@dataclass(frozen=True, slots=True)
class Tax:
    """A tax on what an invoice comes to before it: `rate` of it. `note` is said on the invoice."""

    name: str
    rate: Decimal
    note: str = ""


NO_TAX: Final = Tax("", Decimal(0))


def tax_of(said: Mapping[str, Any]) -> Tax:
    """A tax from a file's words. Raises ValueError."""
    rate = Decimal(said["rate"]) if isinstance(said["rate"], str) else None
    exponent = rate.as_tuple().exponent if rate is not None else None
    if rate is None or not isinstance(exponent, int) or not 0 <= rate <= 1:
        raise ValueError(f"tax: {said['rate']!r} is no rate from 0 to 1 in text")
    if -exponent > _RATE_PLACES:
        raise ValueError(f"tax: {rate} has more than {_RATE_PLACES} places")
    return Tax(str(said["name"]), rate, str(said.get("note", "")))


@dataclass(frozen=True, slots=True)
class CreditUsed:
    """How much of a credit an invoice takes."""

    id: str
    amount: Decimal
    reason: str


@dataclass(frozen=True, slots=True)
class Invoice:
    """What a payer's lines come to, and what is to be paid.

    usage_cost + correction_cost + rounding - credits = net; net + tax = payable. The first three
    are exact; the sum of the first two is rounded once, half up to the currency's places, and the
    tax once. One that is to be paid back is a credit note.
    """

    id: str
    payer: str
    period: str
    currency: str
    usage_cost: Decimal
    correction_cost: Decimal
    rounding: Decimal
    credits: tuple[CreditUsed, ...]
    net: Decimal
    tax: Tax
    tax_cost: Decimal
    payable: Decimal
    number: str = ""
    issued: str = ""
    due: str = ""

    @property
    def kind(self) -> str:
        """An invoice, or a credit note."""
        return CREDIT_NOTE if self.payable < 0 else INVOICE

    @property
    def credit_cost(self) -> Decimal:
        """What credits come to, as a cost: at most 0."""
        return -sum((its.amount for its in self.credits), Decimal(0))


def invoice_of(  # noqa: PLR0913 - what an invoice is made of, part by part
    payer: str,
    period: str,
    currency: str,
    tax: Tax,
    *,
    usage_cost: Decimal,
    correction_cost: Decimal,
    credits_left: Iterable[CreditUsed] = (),
) -> Invoice:
    """The invoice of exact costs; credits are taken in their order, as far as there are charges."""
    with localcontext(EXACT):
        exact = usage_cost + correction_cost
        charges = rounded(exact, currency)
        rounding = charges - exact
        left, used = charges, []
        for its in credits_left:
            taken = rounded(min(its.amount, max(left, Decimal(0))), currency)
            if taken > 0:
                used.append(CreditUsed(its.id, taken, its.reason))
                left -= taken
        tax_cost = rounded(left * tax.rate, currency)
    return Invoice(
        id=f"{payer}-{period}",
        payer=payer,
        period=period,
        currency=currency,
        usage_cost=usage_cost,
        correction_cost=correction_cost,
        rounding=rounding,
        credits=tuple(used),
        net=left,
        tax=tax,
        tax_cost=tax_cost,
        payable=left + tax_cost,
    )


def next_month(period: str) -> str:
    """The month after one, YYYY-MM."""
    year, month = map(int, period.split("-"))
    return f"{year + month // 12:04}-{month % 12 + 1:02}"


def dates_of(after: str, issue_day: int, due_days: int) -> tuple[str, str]:
    """When an invoice is issued, and due; `after` is the month after its period, YYYY-MM."""
    issued = date.fromisoformat(f"{after}-{issue_day:02}")
    return str(issued), str(issued + timedelta(days=due_days))


def numbers_of(prefix: str, last: int, invoices: Sequence[str]) -> dict[str, str]:
    """Numbers of a closing's invoices, in order of their ids, behind the last one that was given.

    They depend on what is closed alone. That each is given once rests on the pointer: it holds
    them, and is put only if the month has no closed one.
    """
    return {
        its: f"{prefix}{number:06}" for number, its in enumerate(sorted(invoices), start=last + 1)
    }


def last_number(closed: Iterable[Mapping[str, Any]], seller: str) -> int:
    """The last number that a seller has given; `closed` is what pointers say of closed months."""
    numbering = (its.get("numbering", {}) for its in closed)
    return max((its["last"] for its in numbering if its.get("seller") == seller), default=0)


def credits_used(closed: Iterable[Mapping[str, Any]]) -> dict[str, Decimal]:
    """How much of each credit closed months have taken."""
    used: dict[str, Decimal] = {}
    for its in closed:
        for id_, amount in its.get("credits_used", {}).items():
            used[id_] = used.get(id_, Decimal(0)) + Decimal(amount)
    return used

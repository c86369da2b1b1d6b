"""Who sells and who pays, on what terms: the customers file, where there is one.

    {"schema": "tidegate.customers/1",
     "seller": {"id": "tide", "name": "Tide GmbH", "address": ["Kai 1", "20457 Hamburg"],
                "tax_id": "DE123456789", "prefix": "TG-", "issue_day": 4, "due_days": 30},
     "customers": {"acme": {"name": "ACME Ltd", "accounts": ["111122223333", "222233334444"],
                            "prices": "prices/acme.json", "discounts": {"*": "0.1"},
                            "tax": {"name": "VAT", "rate": "0", "note": "Reverse charge"}}},
     "credits": [{"id": "c-1", "customer": "acme", "amount": "50.00", "from": "2026-11",
                  "to": "2027-05", "reason": "Outage of 3 October"}]}

A customer pays for its accounts with one invoice. Other accounts pay for themselves, by their id.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Final

from glue_jobs.arguments import JobError, json_of
from glue_jobs.invoice_terms import Tax, tax_of
from glue_jobs.places import read_url
from glue_jobs.price_book import PriceBook
from glue_jobs.records import ACCOUNT

SCHEMA: Final = "tidegate.customers/1"
ALL_SKUS: Final = "*"

_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9/-]{0,16}")
_PERIOD: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_RATE_PLACES: Final = 4
_AMOUNT_PLACES: Final = 2
_PRICE_PLACES: Final = Decimal("1e-10")
_DAY_MAX: Final = 28
_DUE_DAYS_MAX: Final = 365


@dataclass(frozen=True, slots=True)
class Party:
    """A seller or a buyer, as an invoice names it."""

    id: str
    name: str
    address: tuple[str, ...] = ()
    tax_id: str = ""


@dataclass(frozen=True, slots=True)
class Seller:
    """Who sells.

    Its invoices have numbers with its prefix, are issued on a day of the month after the period,
    and due so many days later.
    """

    party: Party
    prefix: str = ""
    issue_day: int = 1
    due_days: int = 30


NO_SELLER: Final = Seller(Party("tidegate", ""))
"""Where no file names one."""


@dataclass(frozen=True, slots=True)
class Customer:
    """Who pays, for which accounts, on what terms; None and "" are those of the price book.

    `discounts` are shares of list prices by SKU, or of all by `ALL_SKUS`.
    """

    party: Party
    accounts: tuple[str, ...]
    prices: str = ""
    discounts: Mapping[str, Decimal] = field(default_factory=dict)
    tax: Tax | None = None
    due_days: int | None = None

    def discount(self, sku: str) -> Decimal:
        """The share of a SKU's list price that it need not pay."""
        return self.discounts.get(sku, self.discounts.get(ALL_SKUS, Decimal(0)))


@dataclass(frozen=True, slots=True)
class Credit:
    """An amount, before tax, that charges of a customer are lessened by until it is used up.

    It counts in the periods from `since`, up to `until` and with it; "": for good.
    """

    id: str
    customer: str
    amount: Decimal
    since: str
    until: str
    reason: str

    def covers(self, period: str) -> bool:
        """Whether it counts in a period."""
        return self.since <= period and (not self.until or period <= self.until)


@dataclass(frozen=True, slots=True)
class Customers:
    """All that a customers file says; `sha256` is that of its text, "" where there is none."""

    seller: Seller = NO_SELLER
    of: Mapping[str, Customer] = field(default_factory=dict)
    credits: Sequence[Credit] = ()
    sha256: str = ""
    text: bytes = b""

    def payers(self) -> dict[str, str]:
        """The customer that pays for an account."""
        return {account: id_ for id_, its in self.of.items() for account in its.accounts}


NO_CUSTOMERS: Final = Customers()
"""Where there is no file."""


def contracted_price(price: Decimal, discount: Decimal) -> Decimal:
    """A list price less its discount, rounded half up to ten places."""
    return (price * (1 - discount)).quantize(_PRICE_PLACES, ROUND_HALF_UP)


def contracted_book(book: PriceBook, customer: Customer) -> PriceBook:
    """The book with the prices that hold for a customer, and everything else as it was."""
    skus = {}
    for name, sku in book.skus.items():
        rate = customer.discount(name)
        regions = {
            region: tuple(replace(its, price=contracted_price(its.price, rate)) for its in tiers)
            for region, tiers in sku.regions.items()
        }
        skus[name] = replace(sku, regions=regions) if rate else sku
    return replace(book, skus=skus)


def customers_at(url: str) -> Customers:
    """The customers file of that name, or none for "". Raises JobError."""
    if not url:
        return NO_CUSTOMERS
    try:
        return read_customers(read_url(url), url)
    except OSError as error:
        raise JobError(f"customers {url}: {error.strerror or 'it is not there'}") from error


def read_customers(text: bytes, name: str) -> Customers:
    """A customers file from its text. Raises JobError that says what is wrong."""
    try:
        said = json_of(text)
        if said["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        seller = _seller(said["seller"])
        customers = {id_: _customer(id_, its) for id_, its in said["customers"].items()}
        _check_accounts(customers)
        granted = tuple(_credit(its) for its in said.get("credits", []))
        _check_credits(granted, customers)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise JobError(f"customers {name}: {reason}") from error
    return Customers(seller, customers, granted, sha256(text).hexdigest(), text)


def _seller(said: Mapping[str, Any]) -> Seller:
    prefix = said.get("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"prefix {prefix!r} is not of at most 16 letters, digits, - and /")
    return Seller(
        _party(said["id"], said),
        prefix,
        _days(said.get("issue_day", 1), 1, _DAY_MAX, "issue_day"),
        _days(said.get("due_days", 30), 0, _DUE_DAYS_MAX, "due_days"),
    )


def _customer(id_: str, said: Mapping[str, Any]) -> Customer:
    for account in said["accounts"]:
        if not account or not ACCOUNT.fullmatch(account):
            raise ValueError(f"{account!r} is no account id of 12 digits")
    due_days = said.get("due_days")
    tax = said.get("tax")
    return Customer(
        _party(id_, said),
        tuple(said["accounts"]),
        str(said.get("prices", "")),
        {sku: _share(rate) for sku, rate in said.get("discounts", {}).items()},
        None if tax is None else tax_of(tax),
        None if due_days is None else _days(due_days, 0, _DUE_DAYS_MAX, "due_days"),
    )


def _party(id_: str, said: Mapping[str, Any]) -> Party:
    if not _ID.fullmatch(id_):
        raise ValueError(f"{id_!r} is no id: small letters, digits and -, a letter first")
    lines = said.get("address", [])
    if not isinstance(lines, list):
        raise ValueError(f"{id_}: its address is no list of lines")  # noqa: TRY004 - a wrong file
    return Party(id_, str(said["name"]), tuple(map(str, lines)), str(said.get("tax_id", "")))


def _credit(said: Mapping[str, Any]) -> Credit:
    since, until = said["from"], said.get("to", "")
    for period in filter(None, (since, until)):
        if not _PERIOD.fullmatch(period):
            raise ValueError(f"{period!r} is no period, YYYY-MM")
    amount = _decimal(said["amount"], _AMOUNT_PLACES)
    if amount <= 0:
        raise ValueError(f"credit {said['id']}: its amount is not above 0")
    return Credit(said["id"], said["customer"], amount, since, until, str(said["reason"]))


def _share(text: Any) -> Decimal:
    share = _decimal(text, _RATE_PLACES)
    if not 0 <= share <= 1:
        raise ValueError(f"{text} is no share from 0 to 1")
    return share


def _decimal(text: Any, places: int) -> Decimal:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no number in text")  # noqa: TRY004 - a wrong file
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > places:
        raise ValueError(f"{text} has more than {places} places")
    return number


def _days(number: Any, least: int, most: int, name: str) -> int:
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{name} {number!r} is no whole number from {least} to {most}")
    return number


def _check_accounts(customers: Mapping[str, Customer]) -> None:
    seen: dict[str, str] = {}
    for id_, its in customers.items():
        for account in its.accounts:
            if account in seen:
                raise ValueError(f"{seen[account]} and {id_} both pay for {account}")
            seen[account] = id_


def _check_credits(granted: Sequence[Credit], customers: Mapping[str, Customer]) -> None:
    ids = [its.id for its in granted]
    if len(ids) != len(set(ids)):
        raise ValueError("two credits have one id")
    for its in granted:
        if its.customer not in customers and not ACCOUNT.fullmatch(its.customer):
            raise ValueError(f"credit {its.id}: there is no customer {its.customer!r}")

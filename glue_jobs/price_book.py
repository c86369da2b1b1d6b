"""Price books: what is charged for what, as data with a date, checked before anything is billed.

A book is a JSON file; `price_books/` has those that come with Tidegate. Prices are decimals in
text, with at most ten places, for `unit_size` of what is counted; sizes are powers of ten. So the
price of a single thing counted has at most 19 places, and a charge is exact.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from importlib.resources import files as files_of
from typing import Any, Final

from glue_jobs.arguments import JobError, json_of
from glue_jobs.currencies import places_of
from glue_jobs.invoice_terms import NO_TAX, Tax, tax_of
from glue_jobs.places import is_missing, place_of, read_url
from glue_jobs.records import SUMS

SCHEMA: Final = "tidegate.prices/1"
BOOKS: Final = files_of("glue_jobs") / "price_books"
QUEUE_TYPES: Final = ("standard", "fair", "fifo")
ANY: Final = "*"
STORED: Final = "StoredMessages"
"""The operation of what was stored: `bytes` of its usage are byte-hours."""

PLACES: Final = 19
"""Decimal places of a price of one thing counted, and of a charge."""

_PRICE_PLACES: Final = 10
_SPREADS: Final = {"in order": False, "in proportion": True}
_UNIT_SIZE_MAX: Final = 10**9
_PERIOD: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Tier:
    """The part of a month's quantity from `start`, before `end` (None: all of the rest)."""

    start: int
    end: int | None
    price: Decimal
    """For `unit_size` of it, in the book's currency."""


@dataclass(frozen=True, slots=True)
class Sku:
    """What has a price: a quantity of hourly usage (`of`), by region."""

    name: str
    title: str
    unit: str
    unit_size: int
    of: str
    regions: Mapping[str, tuple[Tier, ...]]


@dataclass(frozen=True, slots=True)
class PriceBook:
    """A book for the periods from `since`, before `until` ("": no end).

    `free_quantity` a month of the `free_skus` together costs an account nothing. `charges` name
    the SKUs of each operation by the type of the queue. Usage whose status, code or operation is
    among the `unbilled` costs nothing, and is no charge of any SKU.
    """

    id: str
    title: str
    currency: str
    since: str
    until: str
    tax: Tax
    """The tax on what an invoice comes to, unless its customer has another."""
    is_proportional: bool
    """Whether free quantity and tiers are spread in proportion; else what comes first has them."""
    free_quantity: int
    free_skus: tuple[str, ...]
    unbilled_statuses: tuple[str, ...]
    unbilled_codes: tuple[str, ...]
    unbilled_operations: tuple[str, ...]
    skus: Mapping[str, Sku]
    charges: Mapping[str, Mapping[str, tuple[str, ...]]]
    sha256: str
    text: bytes

    def covers(self, period: str) -> bool:
        """Whether its prices hold in a period, `YYYY-MM`."""
        return self.since <= period and (not self.until or period < self.until)

    def skus_of(self, queue_type: str, operation: str) -> tuple[str, ...]:
        """Names of what an operation is charged as. Raises JobError where the book has none."""
        of_type = self.charges[queue_type]
        found = of_type.get(operation, of_type.get(ANY))
        if found is None:
            raise JobError(f"price book {self.id}: no price for {operation} on {queue_type} queues")
        return found

    def tiers(self, sku: str, region: str) -> tuple[Tier, ...]:
        """Tiers of a SKU in a region. Raises JobError where the book has none."""
        regions = self.skus[sku].regions
        found = regions.get(region, regions.get(ANY))
        if found is None:
            raise JobError(f"price book {self.id}: no price of {sku} in region {region!r}")
        return found

    def storage_skus(self) -> list[str]:
        """Those with a price that are charged for `STORED` alone."""
        charged: dict[str, set[str]] = {}
        for operations in self.charges.values():
            for operation, skus in operations.items():
                for sku in skus:
                    charged.setdefault(sku, set()).add(operation)
        return sorted(
            sku
            for sku, operations in charged.items()
            if operations == {STORED}
            and any(its.price for tiers in self.skus[sku].regions.values() for its in tiers)
        )


def book_for(period: str, url: str = "") -> PriceBook:
    """The book of a period: a file, or that of a folder which covers it; "": those of this package.

    Raises JobError where there is none, or more than one.
    """
    books = _books(url)
    covering = [book for book in books if book.covers(period)]
    if len(covering) != 1:
        found = " and ".join(book.id for book in covering) or "none"
        known = ", ".join(f"{book.id} from {book.since}" for book in books)
        told = f" (there is {known})" if known and not covering else ""
        raise JobError(f"price book: {url or 'the package'} has {found} for {period}{told}")
    return covering[0]


def _books(url: str) -> list[PriceBook]:
    if not url:
        files = sorted(BOOKS.iterdir(), key=lambda its: its.name)
        return [read_book(file.read_bytes(), file.name) for file in files]
    try:
        if url.endswith(".json"):
            return [read_book(read_url(url), url)]
        if is_missing(url):
            raise JobError(f"price book {url}: there is no such folder, nor is it a .json file")
        place = place_of(url)
        names = [its.name for its in place.list("") if its.name.endswith(".json")]
        return [read_book(place.read(name), name) for name in names]
    except OSError as error:
        raise JobError(f"price book {url}: {error.strerror or 'it is not there'}") from error


def read_book(text: bytes, name: str) -> PriceBook:
    """A book from its text. Raises JobError with the name and what is wrong."""
    try:
        said = json_of(text)
        if said["schema"] != SCHEMA:
            raise JobError(f"price book {name}: its schema is not {SCHEMA}")
        return _book(said, text)
    except (KeyError, TypeError, ValueError, InvalidOperation, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise JobError(f"price book {name}: {reason}") from error


def _book(said: Mapping[str, Any], text: bytes) -> PriceBook:
    skus = {sku: _sku(sku, its) for sku, its in said["skus"].items()}
    charges = {
        # Named twice it is one charge, for all who rate.
        kind: {its: tuple(dict.fromkeys(names)) for its, names in said["charges"][kind].items()}
        for kind in QUEUE_TYPES
    }
    free, unbilled = said["free"], said["unbilled"]
    named = {
        *free["skus"],
        *(sku for its in charges.values() for skus_ in its.values() for sku in skus_),
    }
    if unknown := named - set(skus):
        raise ValueError(f"no SKU {min(unknown)}")
    places_of(said["currency"])
    for period in filter(None, (said["from"], said["to"])):
        if not _PERIOD.fullmatch(period):
            raise ValueError(f"{period!r} is no period, YYYY-MM")
    return PriceBook(
        id=said["id"],
        title=said["title"],
        currency=said["currency"],
        since=said["from"],
        until=said["to"],
        tax=tax_of(said["tax"]) if "tax" in said else NO_TAX,
        is_proportional=_spread(said.get("spread", "in order")),
        free_quantity=_whole(free["quantity"]),
        free_skus=tuple(free["skus"]),
        unbilled_statuses=tuple(unbilled["statuses"]),
        unbilled_codes=tuple(unbilled["codes"]),
        unbilled_operations=tuple(unbilled["operations"]),
        skus=skus,
        charges=charges,
        sha256=sha256(text).hexdigest(),
        text=text,
    )


def _spread(said: str) -> bool:
    if said not in _SPREADS:
        raise ValueError(f"spread is {said!r}, neither {' nor '.join(_SPREADS)}")
    return _SPREADS[said]


def _sku(name: str, said: Mapping[str, Any]) -> Sku:
    size = _whole(said["unit_size"])
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no SKU's name")
    if size not in {10**power for power in range(10)} or size > _UNIT_SIZE_MAX:
        raise ValueError(f"{name}: unit_size is no power of ten up to {_UNIT_SIZE_MAX}")
    if said["of"] not in SUMS:
        raise ValueError(f"{name}: usage has no {said['of']}")
    regions = {region: _tiers(name, rows, size) for region, rows in said["regions"].items()}
    return Sku(name, said["title"], said["unit"], size, said["of"], regions)


def _tiers(name: str, rows: Sequence[Sequence[Any]], size: int) -> tuple[Tier, ...]:
    starts = [_whole(start) * size for start, _ in rows]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)):
        raise ValueError(f"{name}: tiers do not begin at 0, or are not in order")
    ends = [*starts[1:], None]
    prices = [Decimal(price) for _, price in rows if isinstance(price, str)]
    if len(prices) != len(rows):
        raise ValueError(f"{name}: a price is no text")
    for price in prices:
        exponent = price.as_tuple().exponent
        if not isinstance(exponent, int) or -exponent > _PRICE_PLACES or not 0 <= price < size:
            raise ValueError(
                f"{name}: {price} is no price of at most {_PRICE_PLACES} places, or too high"
            )
    return tuple(Tier(*its) for its in zip(starts, ends, prices, strict=True))


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no whole number")
    return number

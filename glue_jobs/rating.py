"""Charges of one account without Spark: what billing.py and proportion.py say of its rows.

The server answers with it what a month has cost so far. Both take prices, tiers, the free quantity
and how that is spread from the same book, and a test compares them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from glue_jobs.price_book import ANY, PLACES, PriceBook, Tier
from glue_jobs.records import FIFO_SUFFIX

FREE_TIER: Final = 0


class Used(NamedTuple):
    """Usage of one hour of an account; `sums` has what is added up by its name."""

    region: str
    queue: str
    operation: str
    status: str
    code: str
    sums: Mapping[str, int]


class Quantity(NamedTuple):
    """How much of a SKU an operation on a queue came to in an hour; rows of a month sort so."""

    hour: int
    region: str
    sku: str
    queue: str
    operation: str
    quantity: int


class Charge(NamedTuple):
    """What a part of an hour's usage costs: `cost` counts 10^-19 of the book's currency."""

    hour: int
    region: str
    queue: str
    operation: str
    sku: str
    tier: int
    quantity: int
    cost: int


@dataclass(slots=True)
class Meter:
    """How far an account's month has come: what is rated next goes on from there.

    `pooled` is what the free quantity was offered to, `begun` the quantity by region and SKU.
    """

    pooled: int = 0
    begun: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> "Meter":
        """One that stays where this one is."""
        return Meter(self.pooled, dict(self.begun))


def is_billed(used: Used, book: PriceBook) -> bool:
    """Whether the book charges for it."""
    return not (
        used.status in book.unbilled_statuses
        or used.code in book.unbilled_codes
        or any(_is_named(used.operation, name) for name in book.unbilled_operations)
    )


def _is_named(operation: str, name: str) -> bool:
    if name.endswith(ANY):
        return operation.startswith(name.removesuffix(ANY))
    return operation == name


def quantities_of(
    hour: int, usage: Iterable[Used], book: PriceBook, fair: Collection[str]
) -> list[Quantity]:
    """What of an hour's usage is charged for, in order; `fair` are names of fair queues.

    Raises JobError where the book lacks a price.
    """
    found: dict[tuple[str, str, str, str], int] = {}
    for used in usage:
        if not is_billed(used, book):
            continue
        for sku in book.skus_of(_queue_type(used.queue, fair), used.operation):
            key = (used.region, sku, used.queue, used.operation)
            found[key] = found.get(key, 0) + used.sums[book.skus[sku].of]
    return [Quantity(hour, *key, quantity) for key, quantity in sorted(found.items()) if quantity]


def rate_in_order(rows: Iterable[Quantity], book: PriceBook, meter: Meter) -> Iterator[Charge]:
    """What the next rows of a month cost by a book that spreads in order; the meter goes on.

    Raises JobError where the book lacks a price.
    """
    for row in rows:
        begin = meter.begun.get((row.region, row.sku), 0)
        end = meter.begun[row.region, row.sku] = begin + row.quantity
        free = 0
        if row.sku in book.free_skus:
            free = min(max(book.free_quantity - meter.pooled, 0), row.quantity)
            meter.pooled += row.quantity
        if free:
            yield _charge(row, FREE_TIER, free, 0)
        for number, tier in enumerate(book.tiers(row.sku, row.region), start=1):
            stop = end if tier.end is None else min(end, tier.end)
            part = stop - max(begin + free, tier.start)
            if part > 0:
                yield _charge(row, number, part, _each(book, row.sku, tier))


def rate_in_proportion(rows: Sequence[Quantity], book: PriceBook) -> Iterator[Charge]:
    """What all rows of a month so far, in order, cost by a book that spreads in proportion.

    Raises JobError where the book lacks a price.
    """
    free = _free_of(rows, book)
    wholes: dict[tuple[str, str], int] = {}
    rests: dict[tuple[str, str], int] = {}
    for row, given in zip(rows, free, strict=True):
        key = (row.region, row.sku)
        wholes[key] = wholes.get(key, 0) + row.quantity
        rests[key] = rests.get(key, 0) + row.quantity - given
    reached = {key: _reached(book, key, whole, rests[key]) for key, whole in wholes.items()}
    begun = dict.fromkeys(wholes, 0)
    for row, given in zip(rows, free, strict=True):
        if given:
            yield _charge(row, FREE_TIER, given, 0)
        key = (row.region, row.sku)
        begin = begun[key]
        end = begun[key] = begin + row.quantity - given
        left = rests[key]
        for number, inside, each in reached[key]:
            first, last = begin * inside // left, end * inside // left
            if last > first:
                yield _charge(row, number, last - first, each)
            begin, end, left = begin - first, end - last, left - inside


def _free_of(rows: Sequence[Quantity], book: PriceBook) -> list[int]:
    """How much of each row is free: its share of what is given to all of them."""
    pool = sum(row.quantity for row in rows if row.sku in book.free_skus)
    given = min(book.free_quantity, pool)
    free: list[int] = []
    begin = 0
    for row in rows:
        end = begin + (row.quantity if row.sku in book.free_skus else 0)
        free.append(end * given // pool - begin * given // pool if end > begin else 0)
        begin = end
    return free


def _reached(
    book: PriceBook, key: tuple[str, str], whole: int, rest: int
) -> list[tuple[int, int, int]]:
    """The tiers that a SKU has something in, how much that is, and what one thing of it costs."""
    region, sku = key
    found = []
    for number, tier in enumerate(book.tiers(sku, region), start=1):
        stop = whole if tier.end is None else min(whole, tier.end)
        inside = stop - max(whole - rest, tier.start)
        if inside > 0:
            found.append((number, inside, _each(book, sku, tier)))
    return found


def _charge(row: Quantity, tier: int, part: int, each: int) -> Charge:
    return Charge(
        *(row.hour, row.region, row.queue, row.operation, row.sku),
        *(tier, part, part * each),
    )


def _each(book: PriceBook, sku: str, tier: Tier) -> int:
    """What one thing counted costs; sizes are powers of ten, so this is whole."""
    return int(tier.price.scaleb(PLACES)) // book.skus[sku].unit_size


def _queue_type(queue: str, fair: Collection[str]) -> str:
    if queue.endswith(FIFO_SUFFIX):
        return "fifo"
    return "fair" if queue in fair else "standard"

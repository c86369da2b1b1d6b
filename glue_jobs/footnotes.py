"""What a statement says below its figures of prices: read from the price book it was made by."""

from collections.abc import Sequence
from typing import Final

from glue_jobs.plural import counted
from glue_jobs.price_book import ANY, PriceBook

_STATUSES: Final = {
    "2xx": "that were answered",
    "4xx": "that were refused",
    "5xx": "that failed by the service's fault",
}
THROTTLED: Final = ("RequestThrottled", "ThrottlingException", "OverLimit")
"""Codes of requests that were throttled."""


def footnotes(book: PriceBook) -> list[str]:
    """Sentences about units, what is free, what costs nothing, and tiers."""
    counts = any(sku.of == "units" for sku in book.skus.values())
    said = ["Each 64 KiB of messages that a request carries, begun ones included, is a unit."]
    return [*(said if counts else []), *_free(book), *_unbilled(book), *_tiers(book)]


def _free(book: PriceBook) -> list[str]:
    if not book.free_quantity or not book.free_skus:
        return []
    titles = _and([book.skus[sku].title for sku in book.free_skus])
    units = counted(book.free_quantity, "unit")
    together = " together" if len(book.free_skus) > 1 else ""
    begins = "The first unit" if book.free_quantity == 1 else f"The first {units}"
    return [
        f"{begins} a month of {titles}{together} cost{'s' * (book.free_quantity == 1)} nothing."
    ]


def _unbilled(book: PriceBook) -> list[str]:
    kinds = [_STATUSES.get(status, f"of status {status}") for status in book.unbilled_statuses]
    if book.unbilled_codes:
        kinds.append(f"answered with {_and(book.unbilled_codes, 'or')}")
    if "" in book.unbilled_operations:
        kinds.append("of no known operation")
    begins = [its.removesuffix(ANY) for its in book.unbilled_operations if its.endswith(ANY)]
    if begins:
        kinds.append(f"of operations whose names begin with {_and(begins, 'or')}")
    if named := [its for its in book.unbilled_operations if its and not its.endswith(ANY)]:
        kinds.append(f"of the {'operation' if len(named) == 1 else 'operations'} {_and(named)}")
    if not kinds:
        return ["All requests cost what the price says, those that were refused or failed, too."]
    others = "" if "4xx" in book.unbilled_statuses else " Others that were refused cost the same."
    return [f"Requests {_and(kinds, 'or')} cost nothing.{others}"]


def _tiers(book: PriceBook) -> list[str]:
    tiered = any(len(tiers) > 1 for sku in book.skus.values() for tiers in sku.regions.values())
    if not book.free_quantity and not tiered:
        return []
    what = _and(
        [*(["free quantity"] if book.free_quantity else []), *(["tiers"] if tiered else [])]
    )
    if book.is_proportional:
        return [f"All usage of an account's month has its share of {what}."]
    return [f"Usage has its place in {what} by the hour: what came first counts first."]


def notes(book: PriceBook) -> dict[str, str]:
    """What is said beside the counts of requests that were throttled, and that failed."""
    free = [code for code in THROTTLED if code in book.unbilled_codes]
    throttled = {0: "", len(THROTTLED): "not charged"}.get(len(free), f"{_and(free)} not charged")
    failed = "not charged" if "5xx" in book.unbilled_statuses else ""
    return {"throttled": throttled, "failed": failed}


def _and(words: Sequence[str], last: str = "and") -> str:
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"

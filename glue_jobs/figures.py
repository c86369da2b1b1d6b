"""Figures as a statement shows them."""

from decimal import Decimal
from typing import Final

_MILLION: Final = 10**6


def price(each: Decimal, unit_size: int, unit: str) -> str:
    """A price as people compare it: of what is counted singly, for a million."""
    if unit_size == 1:
        return f"{exact(each * _MILLION)} for a million"
    return f"{exact(each)} for a {unit.removesuffix('s')}"


def count(number: int) -> str:
    """A whole number."""
    return f"{number:,}"


def quantity(number: Decimal) -> str:
    """A number with the places that it needs."""
    return f"{number.normalize():,f}"


def units(number: Decimal, unit: str) -> str:
    """A quantity and its unit, whose name is plural where it has one: Requests, GB."""
    return f"{quantity(number)} {unit.removesuffix('s') if number == 1 else unit}"


def size(number: int) -> str:
    """Bytes in powers of ten, as prices count them."""
    value = Decimal(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000:  # noqa: PLR2004 - units are a thousand apart
            return f"{value:.3g} {unit}" if unit != "B" else f"{number} B"
        value /= 1000
    return f"{value:,.3g} PB"


def money(amount: Decimal) -> str:
    """An amount to the hundredth; what is less shows as not nothing."""
    if 0 < abs(amount) < Decimal("0.01"):
        return "<0.01" if amount > 0 else ">-0.01"
    return f"{amount:,.2f}"


def amount(number: Decimal) -> str:
    """An amount that is to be paid, with the places of its currency."""
    return f"{number:,f}"


def percent(rate: Decimal) -> str:
    """A rate, as people say it."""
    return f"{(rate * 100).normalize():f} %"


def exact(cost: Decimal) -> str:
    """An exact amount: all places, two at least."""
    text = f"{cost:,f}"
    whole, _, places = text.partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"

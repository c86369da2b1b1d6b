"""Where the parts of a statement's charts stand: numbers that its template draws."""

from calendar import monthrange
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

DAYS_WIDTH: Final = 720
DAYS_HEIGHT: Final = 160
BARS_WIDTH: Final = 100
BARS_MAX: Final = 8
"""Bars of a chart: so many can be told apart at a glance."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day's bar: `x`, `y`, `width` and `height` in a drawing of `DAYS_WIDTH` x `DAYS_HEIGHT`.

    Of some days something is `missing`.
    """

    date: str
    number: int
    requests: int
    cost: Decimal
    x: float
    y: float
    width: float
    height: float
    missing: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: `share` of the longest, in hundredths."""

    name: str
    requests: int
    cost: Decimal
    share: float


def days_of(
    period: str, found: Mapping[str, tuple[int, Decimal]], missing: Collection[str]
) -> list[Day]:
    """All days of a period, with those that had nothing.

    Of the dates in `missing` not all is known.
    """
    year, month = map(int, period.split("-"))
    count = monthrange(year, month)[1]
    most = max((requests for requests, _ in found.values()), default=0) or 1
    step = DAYS_WIDTH / count
    days = []
    for number in range(1, count + 1):
        date = f"{period}-{number:02}"
        requests, cost = found.get(date, (0, Decimal(0)))
        # What there was shows, however little.
        height = max(2.0, DAYS_HEIGHT * requests / most) if requests else 0.0
        x, width = (number - 1) * step + step * 0.14, step * 0.72
        days.append(
            Day(
                date,
                number,
                requests,
                cost,
                round(x, 2),
                round(DAYS_HEIGHT - height, 2),
                round(width, 2),
                round(height, 2),
                date in missing,
            )
        )
    return days


def bars(rows: Iterable[tuple[str, int, Decimal]]) -> list[Bar]:
    """The longest of the rows (name, requests, cost), by requests."""
    longest = sorted(rows, key=lambda row: (-row[1], row[0]))[:BARS_MAX]
    most = max((requests for _, requests, _ in longest), default=0) or 1
    return [
        Bar(name, requests, cost, round(max(0.5, BARS_WIDTH * requests / most), 2))
        for name, requests, cost in longest
        if requests
    ]

"""What an account has used in a month, and what that costs: lines, groups of them, and pages."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

COST_PLACES: Final = 19
"""A cost is a whole number of so small parts of the currency: exact, as on the bill."""

_TOKEN_CHARS_MAX: Final = 2048
_MONTHS: Final = 12


class LineKey(NamedTuple):
    """What a line is about; `day` is `YYYY-MM-DD`, UTC."""

    day: str
    region: str
    queue: str
    operation: str


@dataclass(slots=True)
class Amounts:
    """What was used; `cost` counts 10^-19 of the currency."""

    requests: int = 0
    units: int = 0
    messages: int = 0
    bytes: int = 0
    cost: int = 0

    def add(self, other: "Amounts") -> None:
        """Add other amounts to these."""
        self.requests += other.requests
        self.units += other.units
        self.messages += other.messages
        self.bytes += other.bytes
        self.cost += other.cost


Lines = Mapping[LineKey, Amounts]


@dataclass(frozen=True, slots=True)
class MonthUsage:
    """An account's month so far. `as_of_us`: when the records were read that it is made from."""

    period: str
    currency: str
    book: str
    as_of_us: int
    lines: Lines


class NoPriceError(Exception):
    """The operator's price books do not say what a month costs."""


class TenantUsage(Protocol):
    """Knows what accounts have used."""

    async def month(self, account: str, period: str, /) -> MonthUsage:
        """A month (`YYYY-MM`) of an account. Raises CellUnavailableError, NoPriceError."""
        ...


class PageToken(NamedTuple):
    """The key of the last row of a page."""

    key: tuple[str, ...]

    def text(self) -> str:
        """As callers have it."""
        return json.dumps(self.key, separators=(",", ":"))


def read_token(text: str, width: int) -> PageToken:
    """The token that a text is, of rows with so many members. Raises ValueError."""
    if len(text) > _TOKEN_CHARS_MAX:
        raise ValueError("it is too long")
    key = json.loads(text)
    if not isinstance(key, list) or len(key) != width:
        raise ValueError("it is of other groups")
    if not all(isinstance(part, str) for part in key):
        raise ValueError("it has other members")
    return PageToken(tuple(key))


def total_of(amounts: Iterable[Amounts]) -> Amounts:
    """All of them added up."""
    total = Amounts()
    for each in amounts:
        total.add(each)
    return total


def grouped(
    lines: Lines, by: Sequence[str], tags: Mapping[tuple[str, str], str]
) -> list[tuple[tuple[str, ...], Amounts]]:
    """Lines added up by members of their keys, in order; `tag` is by `tags` of region and queue."""
    rows: dict[tuple[str, ...], Amounts] = {}
    for key, amounts in lines.items():
        told = {**key._asdict(), "tag": tags.get((key.region, key.queue), "")}
        rows.setdefault(tuple(told[name] for name in by), Amounts()).add(amounts)
    return sorted(rows.items(), key=lambda row: row[0])


def cost_text(cost: int) -> str:
    """A cost as a decimal in text: exact, without zeros at its end."""
    whole, rest = divmod(abs(cost), 10**COST_PLACES)
    places = f"{rest:0{COST_PLACES}}".rstrip("0")
    return f"{'-' if cost < 0 else ''}{whole}{'.' if places else ''}{places}"


def period_before(period: str, months: int) -> str:
    """The period so many months before one."""
    year, month = map(int, period.split("-"))
    count = year * _MONTHS + month - 1 - months
    return f"{count // _MONTHS:04}-{count % _MONTHS + 1:02}"

"""What accounts have used and what it costs, from the records that bills are made of.

What was read is kept by the day (of the present day by the hour). By books that spread tiers in
order, hours are rated in their order, and only what follows a change is rated again. By those that
spread in proportion each quantity can change the cost of all, so the month so far is rated anew
from its hourly quantities, which are kept; where nothing has changed the costs are kept, too.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from control_plane.billing_terms import BillingTerms
from control_plane.core.month_usage import Amounts, LineKey, MonthUsage, NoPriceError
from data_plane.core.utc import utc_time
from data_plane.ports import Clock
from data_plane.usage.hours import MINUTES_PER_HOUR, SUMS, Sums, add_numbers, add_up
from data_plane.usage.record import UsageRecord, asked_for
from data_plane.usage.summary import US_PER_HOUR, UsageSummary
from glue_jobs.arguments import JobError
from glue_jobs.price_book import PriceBook
from glue_jobs.rating import (
    Charge,
    Meter,
    Quantity,
    Used,
    quantities_of,
    rate_in_order,
    rate_in_proportion,
)
from glue_jobs.records import MESSAGES_OF

LOOK_EVERY_US: Final = 10_000_000
"""What others have written may be unseen so long."""

FOLLOW_EVERY_US: Final = 600_000_000
"""So often the place is looked at where nobody asks."""

LINES_KEPT_MAX: Final = 200_000
"""Lines and quantities of all accounts that are kept; beyond, those of accounts that nobody asked
for longest go."""

_LOOKS_MAX: Final = 4
_DECEMBER: Final = 12
_HOURS_PER_DAY: Final = 24
_S_PER_HOUR: Final = 3600

Pending = Callable[[], Awaitable[list[UsageRecord]]]
"""Records of what this server has counted, and not stored yet."""


@dataclass(slots=True)
class _Span:
    """Some hours that were rated together: from where on, to where, and what came out.

    `rows` are quantities that cost what their share of the whole month makes them cost.
    """

    versions: tuple[tuple[int, str], ...]
    before: Meter
    after: Meter
    lines: dict[LineKey, Amounts]
    rows: list[Quantity]


@dataclass(slots=True)
class _Month:
    """A month's spans in their order, and what all of them come to (None: not known yet)."""

    spans: list[_Span] = field(default_factory=list)
    lines: dict[LineKey, Amounts] | None = None

    @property
    def size(self) -> int:
        """How much of `LINES_KEPT_MAX` it takes."""
        return len(self.lines or ()) + sum(len(its.lines) + len(its.rows) + 1 for its in self.spans)


class MonthCosts:
    """Implements `TenantUsage` over a usage place. `written` counts what this server stored."""

    def __init__(
        self,
        summary: UsageSummary,
        pending: Pending,
        written: Callable[[], float],
        terms: BillingTerms,
        clock: Clock,
    ) -> None:
        self._summary = summary
        self._pending = pending
        self._written = written
        self._terms = terms
        self._clock = clock
        self._lock = asyncio.Lock()
        self._seen = -1.0
        self._kept: OrderedDict[tuple[str, str], _Month] = OrderedDict()

    async def month(self, account: str, period: str) -> MonthUsage:
        """A month (`YYYY-MM`) of an account. Raises CellUnavailableError, NoPriceError."""
        try:
            book = self._terms.book(account, period)
        except JobError as error:
            raise NoPriceError(f"no price book for {period}") from error
        async with self._lock:
            pending = await self._look()
            first, until = _hours_of(period)
            versions = await self._summary.versions(first, until)
            own = [
                its
                for its in pending
                if its.account == account and first <= its.minute // MINUTES_PER_HOUR < until
            ]
            try:
                lines = await self._rated(account, period, book, versions, _by_hour(own))
            except JobError as error:
                raise NoPriceError(str(error)) from error
            as_of_us = self._summary.looked_us
        return MonthUsage(period, book.currency, book.id, as_of_us, lines)

    async def step(self) -> None:
        """Follow the place: a question reads less then. Raises CellUnavailableError."""
        if self._clock.now_us() - self._summary.looked_us >= FOLLOW_EVERY_US:
            async with self._lock:
                await self._look()

    def gauges(self) -> dict[str, float]:
        """What was read, by names of metrics."""
        return {
            "summary_files_read_total": self._summary.files_read,
            "summary_files_refused_total": self._summary.refused,
        }

    async def _look(self) -> list[UsageRecord]:
        """Read what is new; what is counted, and not among what was read."""
        pending: list[UsageRecord] = []
        for _ in range(_LOOKS_MAX):
            written = self._written()
            pending = await self._pending()
            late = self._clock.now_us() - self._summary.looked_us >= LOOK_EVERY_US
            if late or written != self._seen:
                await self._summary.look()
                self._seen = written
            if self._written() == written:
                break  # Else records went from the one to the other meanwhile.
        return [its for its in pending if self._summary.is_pending(its)]

    async def _rated(
        self,
        account: str,
        period: str,
        book: PriceBook,
        versions: Mapping[int, str],
        pending: Mapping[int, Sums],
    ) -> dict[LineKey, Amounts]:
        kept = self._kept.pop((account, period), _Month())
        spans: list[_Span] = []
        meter = Meter()
        today = self._clock.now_us() // US_PER_HOUR // _HOURS_PER_DAY
        lines: dict[LineKey, Amounts] | None = None
        try:
            for hours in _spans_of(sorted({*versions, *pending}), today):
                told = tuple((hour, versions.get(hour, "")) for hour in hours)
                known = kept.spans[len(spans)] if len(spans) < len(kept.spans) else None
                changes = any(hour in pending for hour in hours)
                if changes or known is None or known.versions != told or known.before != meter:
                    known = await self._rate(account, book, told, pending, meter)
                    if changes:
                        known.versions = ()
                spans.append(known)
                meter = known.after
            lines = kept.lines
            if lines is None or [*map(id, spans)] != [*map(id, kept.spans)]:
                lines = None
                lines = await self._summary.offload(lambda: _lines_of(spans, book))
        finally:
            # Whose time is over goes on from here when it asks again.
            rest = kept.spans[len(spans) :] if lines is None else kept.spans[:0]
            self._keep(account, period, _Month([*spans, *rest], lines))
        return lines

    async def _rate(
        self,
        account: str,
        book: PriceBook,
        versions: Sequence[tuple[int, str]],
        pending: Mapping[int, Sums],
        before: Meter,
    ) -> _Span:
        meter = before.copy()
        span = _Span(tuple(versions), before, meter, {}, [])
        fair = self._terms.fair_queues.get(account, ())
        for hour, version in versions:
            stored = await self._summary.sums(hour, version) if version else {}
            own: Sums = {}
            for its in (stored, pending.get(hour, {})):
                for key, numbers in its.items():
                    if key.account == account:
                        add_numbers(own.setdefault(key, [0] * len(SUMS)), numbers)
            used = [Used(*key[1:], dict(zip(SUMS, its, strict=True))) for key, its in own.items()]
            _add_usage(span.lines, _day(hour), used)
            rows = quantities_of(hour, used, book, fair)
            if book.is_proportional:
                span.rows += rows
            else:
                _add_costs(span.lines, rate_in_order(rows, book, meter))
        return span

    def _keep(self, account: str, period: str, month: _Month) -> None:
        self._kept[account, period] = month
        size = sum(its.size for its in self._kept.values())
        while size > LINES_KEPT_MAX and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            size -= gone.size


def _lines_of(spans: Sequence[_Span], book: PriceBook) -> dict[LineKey, Amounts]:
    """What spans of a month come to. Raises JobError where the book lacks a price."""
    lines: dict[LineKey, Amounts] = {}
    for span in spans:
        for key, amounts in span.lines.items():
            lines.setdefault(key, Amounts()).add(amounts)
    rows = [row for span in spans for row in span.rows]
    _add_costs(lines, rate_in_proportion(rows, book))
    return lines


def _add_usage(lines: dict[LineKey, Amounts], day: str, used: Iterable[Used]) -> None:
    for one in used:
        key = LineKey(day, one.region, one.queue, one.operation)
        sums = one.sums
        messages = sums["messages"] if asked_for(one.operation) in MESSAGES_OF else 0
        amounts = Amounts(sums["requests"], sums["units"], messages, sums["bytes"])
        lines.setdefault(key, Amounts()).add(amounts)


def _add_costs(lines: Mapping[LineKey, Amounts], charges: Iterable[Charge]) -> None:
    days: dict[int, str] = {}
    for charge in charges:
        day = days.get(charge.hour) or days.setdefault(charge.hour, _day(charge.hour))
        lines[LineKey(day, charge.region, charge.queue, charge.operation)].cost += charge.cost


def _spans_of(hours: Sequence[int], today: int) -> Iterator[list[int]]:
    """Hours of the days before today, day by day; then each hour by itself."""
    days: dict[int, list[int]] = {}
    for hour in hours:
        days.setdefault(hour // _HOURS_PER_DAY, []).append(hour)
    for day, its in days.items():
        if day < today:
            yield its
        else:
            yield from ([hour] for hour in its)


def _by_hour(records: Iterable[UsageRecord]) -> dict[int, Sums]:
    hours: dict[int, list[UsageRecord]] = {}
    for record in records:
        hours.setdefault(record.minute // MINUTES_PER_HOUR, []).append(record)
    found: dict[int, Sums] = {}
    for hour, its in hours.items():
        add_up(its, found.setdefault(hour, {}))
    return found


def _hours_of(period: str) -> tuple[int, int]:
    """The first hour of a month, since the epoch, and that of the next one."""
    year, month = map(int, period.split("-"))
    after = (year + 1, 1) if month == _DECEMBER else (year, month + 1)
    first, until = (datetime(*its, 1, tzinfo=UTC).timestamp() for its in ((year, month), after))
    return int(first) // _S_PER_HOUR, int(until) // _S_PER_HOUR


def _day(hour: int) -> str:
    at = utc_time(hour * _S_PER_HOUR)
    return f"{at.year:04}-{at.month:02}-{at.day:02}"

"""What is missing of a period, in words: for whoever bills, and for the tenant who reads it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from glue_jobs.identities import (
    EXPIRED,
    LOST,
    NOT_METERED,
    NOT_YET,
    PERHAPS,
    PUT_ASIDE,
    STATES,
    STORAGE,
    Gap,
)
from glue_jobs.plural import counted, ranged

_DAY: Final = 24 * 60
"""Minutes of it."""

_MEANS: Final = {
    LOST: "Records are gone, or a server was cut off before it stored them.",
    EXPIRED: "The records were removed by their age.",
    PUT_ASIDE: "Records that cannot be those of a server or function of this service.",
    NOT_METERED: "Usage was switched off: nothing was counted.",
    NOT_YET: "A server has not stored it yet, or was cut off and no other took its place.",
    STORAGE: "No export says how much was stored. Requests are not affected.",
    PERHAPS: "{count} of functions: of the last minute of each a part may be missing.",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """A time of which something is missing: minutes, -1 where nobody knows since or until when.

    `records` is how many records are, where that is known; `count` the gaps that it stands for.
    """

    state: str
    from_minute: int
    to_minute: int
    records: int
    count: int

    @property
    def means(self) -> str:
        """What became of it."""
        return _MEANS[self.state].format(count=counted(self.count, "sandbox", "sandboxes"))

    @property
    def when(self) -> str:
        """When it was, UTC."""
        return between(self.from_minute, self.to_minute)

    @property
    def date(self) -> str:
        """The day on which it began, "" where nobody knows."""
        return _at(self.from_minute)[:10] if self.from_minute >= 0 else ""


def missing_of(gaps: Iterable[Gap]) -> list[Missing]:
    """Gaps by their state, times that overlap or touch as one; all ends of sandboxes as one."""
    found: list[Missing] = []
    for gap in sorted(gaps, key=lambda its: (STATES.index(its.state), its.from_minute)):
        last = found[-1] if found else None
        if last is None or last.state != gap.state or not _touches(last, gap):
            its = (gap.from_minute, gap.to_minute, gap.records, 1)
            found.append(Missing(gap.state, *its))
            continue
        until = -1 if -1 in {last.to_minute, gap.to_minute} else max(last.to_minute, gap.to_minute)
        its = (last.from_minute, until, last.records + gap.records, last.count + 1)
        found[-1] = Missing(gap.state, *its)
    return found


def is_certain(its: Iterable[Missing]) -> bool:
    """Whether usage is missing that will not come, for certain; exports may come."""
    return any(one.state not in {NOT_YET, STORAGE, PERHAPS, PUT_ASIDE} for one in its)


def days_missing(its: Iterable[Missing], period: str) -> set[str]:
    """Days of a period of which requests are missing for certain."""
    days: set[str] = set()
    for one in its:
        if one.state in {STORAGE, PERHAPS, PUT_ASIDE}:
            continue
        last = max(one.from_minute, one.to_minute)
        for day in range(max(one.from_minute, 0) // _DAY, last // _DAY + 1):
            days.add(_at(day * _DAY)[:10])
    return {day for day in days if day.startswith(f"{period}-")}


def _touches(last: Missing, gap: Gap) -> bool:
    return gap.state == PERHAPS or last.to_minute == -1 or gap.from_minute <= last.to_minute + 1


def lines_of(gaps: Sequence[Gap], bad_marks: Iterable[Sequence[str]] = ()) -> list[str]:
    """A line for each gap, for whoever bills; ends of sandboxes are told as one.

    What was put aside is told with its reason, elsewhere. `bad_marks` are names of marks that
    cannot be read, and why: what is lost of their writers is lost by that.
    """
    damaged = {writer_of(name): f"; its mark {name} cannot be read" for name, _ in bad_marks}
    return [
        f"{gap.state}: {_what(gap)}{damaged.get(gap.writer, '')}"
        for gap in gaps
        if gap.state not in {PERHAPS, PUT_ASIDE}
    ]


def writer_of(mark: str) -> str:
    """The writer of whom an object is the mark, by the object's name."""
    return mark.rpartition("/")[2].removesuffix(".json")


def ends_of(gaps: Iterable[Gap]) -> list[str]:
    """The line about ends of sandboxes, where there are such."""
    count = sum(1 for gap in gaps if gap.state == PERHAPS)
    sandboxes = counted(count, "sandbox", "sandboxes")
    return [f"{PERHAPS}: the last minute of each of {sandboxes} of functions"] if count else []


def _what(gap: Gap) -> str:
    when = between(gap.from_minute, gap.to_minute)
    if gap.state == NOT_METERED:
        return f"usage was off, {when}"
    if gap.state == STORAGE:
        return f"no export of {gap.writer} says what was stored, {when}"
    if gap.state == NOT_YET:
        return f"writer {gap.writer}, at work or cut off, {when}"
    numbers = ranged(gap.first, gap.last, "record") if gap.last else "what it answered last"
    if gap.requests_max >= 0:
        numbers += f", {counted(gap.requests_max, 'request')} at most"
    return f"writer {gap.writer}: {numbers}, {when}"


def between(from_minute: int, to_minute: int) -> str:
    """A time from one minute to another, both of them in it, UTC; -1 where it has no such end."""
    if from_minute < 0:
        return f"until {_at(to_minute)} UTC"
    first = _at(from_minute)
    if to_minute < 0:
        return f"from {first} UTC on"
    last = _at(to_minute)
    if last == first:
        return f"{first} UTC"
    return f"{first} to {last.removeprefix(first[:11])} UTC"


def _at(minute: int) -> str:
    return f"{datetime.fromtimestamp(minute * 60, UTC):%Y-%m-%d %H:%M}"

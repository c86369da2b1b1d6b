"""How much was stored for how long: byte-hours of queues, by samples of what was stored.

Docs: billing.md (*Stored messages*), ADR 13. What takes samples of exports is storage_samples.py.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from glue_jobs.identities import STORAGE, Gap, Window
from glue_jobs.outputs import Pointer, canonical
from glue_jobs.places import Place
from glue_jobs.price_book import STORED
from glue_jobs.records import SUMS
from glue_jobs.usage import KEYS

KEPT: Final = "stored_bytes.json"
"""The name of what a run keeps of samples, beside the list of its inputs."""

_US_PER_MINUTE: Final = 60_000_000
_US_PER_HOUR: Final = 60 * _US_PER_MINUTE
HOLD_US: Final = 75 * _US_PER_MINUTE
"""For so long a sample holds at most: an hour, and a quarter for an export that comes late."""

_ROW: Final = ", ".join(
    [*(f"{name} {'bigint' if name == 'hour' else 'string'}" for name in KEYS)]
    + [f"{name} bigint" for name in SUMS]
)

Queue = tuple[str, str, str]
"""Account, region and name."""

Sample = tuple[str, int]
"""The cell that was exported, and the moment, in microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What was stored at the moments of exports.

    `taken` are all that there are; `stored` has the bytes of a queue in those in which it had any.
    """

    taken: frozenset[Sample] = frozenset()
    stored: Mapping[Queue, Mapping[Sample, int]] = field(default_factory=dict)

    def of(self, windows: Iterable[Window]) -> "Samples":
        """Those that say something of these windows."""
        times = [
            (its.start * _US_PER_MINUTE - HOLD_US, its.end * _US_PER_MINUTE) for its in windows
        ]
        taken = {its for its in self.taken if any(a < its[1] < b for a, b in times)}
        return self.only(taken)

    def and_of(self, others: "Samples") -> "Samples":
        """These, and the others that were taken at other moments."""
        more = others.only(others.taken - self.taken)
        stored = {
            queue: {**self.stored.get(queue, {}), **more.stored.get(queue, {})}
            for queue in {*self.stored, *more.stored}
        }
        return Samples(self.taken | more.taken, stored)

    def only(self, taken: Iterable[Sample]) -> "Samples":
        """Those that were taken then."""
        chosen = frozenset(taken)
        stored = {
            queue: its
            for queue, all_of in self.stored.items()
            if (its := {at: level for at, level in all_of.items() if at in chosen})
        }
        return Samples(chosen, stored)


@dataclass(frozen=True, slots=True, order=True)
class StoredHour:
    """What a queue had stored in an hour since the epoch, in byte-hours."""

    hour: int
    queue: Queue
    byte_hours: int


def byte_hours(samples: Samples, window: Window) -> list[StoredHour]:
    """What was stored in a window, by hours.

    Exact for each queue and window but for less than one byte-hour at its end: what is left of an
    hour goes to the next one.
    """
    moments = _moments(samples)
    rows = []
    for queue, levels in sorted(samples.stored.items()):
        total = 0
        for hour, byte_us in sorted(_by_hour(levels, moments, window).items()):
            before = total // _US_PER_HOUR
            total += byte_us
            if total // _US_PER_HOUR > before:
                rows.append(StoredHour(hour, queue, total // _US_PER_HOUR - before))
    return sorted(rows)


def _moments(samples: Samples) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for cell, at_us in sorted(samples.taken):
        found.setdefault(cell, []).append(at_us)
    return found


def _until(moments: Sequence[int], at_us: int) -> int:
    """When a sample of a cell ends to hold: at the cell's next one, or before it."""
    after = bisect_right(moments, at_us)
    return min([at_us + HOLD_US, *moments[after : after + 1]])


def _by_hour(
    levels: Mapping[Sample, int], moments: Mapping[str, Sequence[int]], window: Window
) -> dict[int, int]:
    """Bytes times microseconds of one queue, by hours.

    Another cell's sample of the queue ends one, too: copies of it count once.
    """
    by_time = sorted((at_us, cell) for cell, at_us in levels)
    nexts = [at_us for at_us, _ in by_time[1:]]
    found: dict[int, int] = {}
    for (at_us, cell), next_us in zip(by_time, [*nexts, None], strict=True):
        until = min(_until(moments[cell], at_us), window.end * _US_PER_MINUTE)
        if next_us is not None:
            until = min(until, next_us)
        at = max(at_us, window.start * _US_PER_MINUTE)
        while at < until:
            hour = at // _US_PER_HOUR
            end = min(until, (hour + 1) * _US_PER_HOUR)
            found[hour] = found.get(hour, 0) + levels[cell, at_us] * (end - at)
            at = end
    return found


def uncovered(samples: Samples, window: Window, *, is_over: bool) -> list[Gap]:
    """Times of a window in which no sample holds, cell by cell.

    Where the window `is_over` its end is one, too; else nobody knows until when that is so.
    """
    found = []
    for cell, moments in _moments(samples).items():
        covered = window.start * _US_PER_MINUTE
        for at_us in moments:
            if covered < at_us < window.end * _US_PER_MINUTE:
                found.append(_gap(cell, covered, at_us))
            covered = max(covered, _until(moments, at_us))
        end = window.end * _US_PER_MINUTE
        if covered < end:
            found.append(_gap(cell, covered, end if is_over else None))
    return found


def _gap(cell: str, from_us: int, to_us: int | None) -> Gap:
    to_minute = -1 if to_us is None else (to_us - 1) // _US_PER_MINUTE
    return Gap(cell, 0, 0, from_us // _US_PER_MINUTE, to_minute, STORAGE)


def hourly(session: SparkSession, rows: Iterable[StoredHour]) -> DataFrame:
    """Them as hourly usage: `bytes` are byte-hours; of requests there are none."""
    none = dict.fromkeys(SUMS, 0)
    told = [
        {
            **none,
            **dict(zip(("account", "region", "queue"), its.queue, strict=True)),
            "hour": its.hour,
            "operation": STORED,
            "status": "2xx",
            "code": "",
            "bytes": its.byte_hours,
        }
        for its in rows
    ]
    return session.createDataFrame(
        [tuple(its[name] for name in (*KEYS, *SUMS)) for its in told], _ROW
    )


def encode(samples: Samples) -> bytes:
    """Samples as a run keeps them: exports may be gone when it is asked again. b"" for none."""
    if not samples.taken:
        return b""
    taken = sorted(samples.taken, key=lambda its: (its[1], its[0]))
    numbers = {its: number for number, its in enumerate(taken)}
    stored = [
        [*queue, sorted([numbers[at], level] for at, level in levels.items())]
        for queue, levels in sorted(samples.stored.items())
    ]
    return canonical({"samples": [list(its) for its in taken], "stored": stored}) + b"\n"


def _decode(content: bytes) -> Samples:
    said: dict[str, Any] = json.loads(content)
    taken = [(cell, at_us) for cell, at_us in said["samples"]]
    stored = {
        (account, region, queue): {taken[number]: level for number, level in levels}
        for account, region, queue, levels in said["stored"]
    }
    return Samples(frozenset(taken), stored)


def kept(out: Place, pointers: Iterable[Pointer]) -> Samples:
    """What the runs of these pointers keep."""
    found = Samples()
    for pointer in pointers:
        name = f"inputs/period={pointer.period}/run={pointer.run}/{KEPT}"
        # Only such runs keep samples as had a price for them.
        if any(its["name"] == name for its in pointer.said["files"]):
            found = found.and_of(_decode(out.read(name)))
    return found

"""What an hour's records come to, whatever files they are in: docs/usage.md, *Summaries*."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, Literal, NamedTuple

import msgspec
import zstandard

from data_plane.usage.record import Count, UsageRecord

HOUR_SCHEMA: Final = "tidegate.usage.hour/1"
MINUTES_PER_HOUR: Final = 60
SUMS: Final = (
    *("records", "requests", "units", "messages", "bytes", "failed_entries"),
    "empty_receives",
)
"""What is added up; the bill's hourly usage has the same columns."""

_RECEIVE: Final = "ReceiveMessage"
_LEVEL: Final = 3


class UsageKey(NamedTuple):
    """What a sum is about."""

    account: str
    region: str
    queue: str
    operation: str
    status: str
    code: str


Sums = dict[UsageKey, list[int]]
"""The numbers of each key, in the order of `SUMS`."""


class _StoredHour(msgspec.Struct, frozen=True):
    schema: Literal["tidegate.usage.hour/1"]
    hour: Count
    usage: list[tuple[str, str, str, str, str, str, list[Count]]]


class SeenNumbers:
    """Numbers of writers, as ranges."""

    def __init__(self) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def has(self, record: UsageRecord) -> bool:
        """Whether the record's identity is among them."""
        ranges = self._ranges.get(record.writer, ())
        return any(first <= record.number <= last for first, last in ranges)

    def add(self, records: Iterable[UsageRecord]) -> None:
        """Add identities."""
        for record in sorted(records, key=lambda its: (its.writer, its.number)):
            ranges = self._ranges.setdefault(record.writer, [])
            if ranges and ranges[-1][1] == record.number - 1:
                ranges[-1] = ranges[-1][0], record.number
            elif not self.has(record):
                ranges.append((record.number, record.number))


def add_up(records: Iterable[UsageRecord], sums: Sums) -> None:
    """Add records to sums."""
    for its in records:
        key = UsageKey(its.account, its.region, its.queue, its.operation, its.status, its.code)
        empty = its.operation == _RECEIVE and its.status == "2xx" and not its.messages
        numbers = (
            *(1, its.requests, its.units, its.messages, its.bytes, its.failed_entries),
            its.requests if empty else 0,
        )
        add_numbers(sums.setdefault(key, [0] * len(SUMS)), numbers)


def add_numbers(to: list[int], numbers: Iterable[int]) -> None:
    """Add each number to that in its place."""
    for place, number in enumerate(numbers):
        to[place] += number


def each_once(records: Iterable[UsageRecord]) -> list[UsageRecord]:
    """Records without their copies; of one identity that has several contents there is none."""
    found: dict[tuple[str, int], UsageRecord | None] = {}
    for record in records:
        identity = record.writer, record.number
        known = found.setdefault(identity, record)
        if known != record:
            found[identity] = None
    return [record for record in found.values() if record is not None]


def version_of(names: Iterable[str]) -> str:
    """What tells an hour's files from any others: their names say what they hold."""
    return sha256("\n".join(sorted(names)).encode()).hexdigest()


def encode_hour(hour: int, sums: Mapping[UsageKey, list[int]]) -> bytes:
    """A summary as it is stored: the same bytes for the same sums."""
    stored = _StoredHour(HOUR_SCHEMA, hour, [(*key, sums[key]) for key in sorted(sums)])
    return zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.json.encode(stored))


def decode_hour(content: bytes, hour: int) -> Sums:
    """The sums of a summary of this hour. Raises ValueError where it is none."""
    try:
        text = zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"it is no summary: {error}") from error
    stored = msgspec.json.decode(text, type=_StoredHour)
    if stored.hour != hour:
        raise ValueError(f"it is of the hour {stored.hour}")
    return {UsageKey(*row[:6]): row[6] for row in stored.usage}

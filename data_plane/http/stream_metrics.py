"""Metrics of streams, under the names that CloudWatch has for them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from data_plane.frontend.served import Served
from data_plane.http.prometheus_text import (
    COUNTER,
    GAUGE,
    Family,
    labelled,
    labels_text,
    number_text,
)
from data_plane.streams.lag import Lag

PREFIX: Final = "kinesis:"
"""Of operations on streams."""

STREAMS_MAX: Final = 1000
OTHER_STREAMS: Final = ("", "", "(other)")
"""Stands for all streams beyond STREAMS_MAX: the answer to a scrape stays bounded."""

_US_PER_MINUTE: Final = 60_000_000
_MS_PER_MINUTE: Final = 60_000

StreamKey = tuple[str, str, str]
"""Account, region and name."""
GroupStream = tuple[str, str, str, str]
"""Account, region, consumer group and stream."""


@dataclass(slots=True)
class StreamTotals:
    """What was done to one stream since the server started; `age_ms` is that of a `minute`."""

    put_record: int = 0
    put_record_bytes: int = 0
    put_records: int = 0
    put_records_bytes: int = 0
    put_records_stored: int = 0
    put_records_failed: int = 0
    get_records: int = 0
    get_records_bytes: int = 0
    get_records_read: int = 0
    minute: int = 0
    age_ms: int = 0
    age_before_ms: int = 0

    def saw_age(self, minute: int, age_ms: int) -> None:
        """Keep the greatest age of this minute, and of the one before."""
        if minute != self.minute:
            self.age_before_ms = self.age_ms if minute == self.minute + 1 else 0
            self.minute, self.age_ms = minute, 0
        self.age_ms = max(self.age_ms, age_ms)

    def greatest_age_ms(self, minute: int) -> int:
        """That of the last minute or two, as of a minute."""
        if minute > self.minute + 1:
            return 0
        return max(self.age_ms, self.age_before_ms if minute == self.minute else 0)


_COUNTERS: Final[tuple[tuple[str, str, Callable[[StreamTotals], float]], ...]] = (
    (
        *("incoming_bytes", "IncomingBytes (bytes)"),
        lambda totals: totals.put_record_bytes + totals.put_records_bytes,
    ),
    (
        *("incoming_records", "IncomingRecords (count)"),
        lambda totals: totals.put_record + totals.put_records_stored,
    ),
    ("put_record_bytes", "PutRecord.Bytes (bytes)", lambda totals: totals.put_record_bytes),
    ("put_record_success", "PutRecord.Success (count)", lambda totals: totals.put_record),
    ("put_records_bytes", "PutRecords.Bytes (bytes)", lambda totals: totals.put_records_bytes),
    ("put_records_success", "PutRecords.Success (count)", lambda totals: totals.put_records),
    (
        *("put_records_total_records", "PutRecords.TotalRecords (count)"),
        lambda totals: totals.put_records_stored + totals.put_records_failed,
    ),
    (
        *("put_records_successful_records", "PutRecords.SuccessfulRecords (count)"),
        lambda totals: totals.put_records_stored,
    ),
    (
        *("put_records_failed_records", "PutRecords.FailedRecords (count)"),
        lambda totals: totals.put_records_failed,
    ),
    ("get_records_bytes", "GetRecords.Bytes (bytes)", lambda totals: totals.get_records_bytes),
    ("get_records_records", "GetRecords.Records (count)", lambda totals: totals.get_records_read),
    ("get_records_success", "GetRecords.Success (count)", lambda totals: totals.get_records),
)
"""Name, that of CloudWatch, and what it is."""

_AGE: Final = "tidegate_kinesis_get_records_iterator_age_milliseconds"


class StreamMetrics:
    """Counts what requests on streams did."""

    def __init__(self) -> None:
        self._streams: dict[StreamKey, StreamTotals] = {}

    def served(self, served: Served) -> None:
        """Count a call on a stream that succeeded; one that deletes it ends its series."""
        key = (served.account, served.region, served.queue)
        match served.operation:
            case "kinesis:PutRecord":
                totals = self._totals(key)
                totals.put_record += 1
                totals.put_record_bytes += served.bytes
            case "kinesis:PutRecords":
                totals = self._totals(key)
                totals.put_records += served.messages > 0
                totals.put_records_bytes += served.bytes
                totals.put_records_stored += served.messages
                totals.put_records_failed += served.failed_entries
            case "kinesis:GetRecords":
                totals = self._totals(key)
                totals.get_records += 1
                totals.get_records_bytes += served.bytes
                totals.get_records_read += served.messages
                totals.saw_age(served.finished_us // _US_PER_MINUTE, served.behind_ms)
            case "kinesis:DeleteStream":
                self._streams.pop(key, None)

    def _totals(self, key: StreamKey) -> StreamTotals:
        totals = self._streams.get(key)
        if totals is None:
            key = key if len(self._streams) < STREAMS_MAX else OTHER_STREAMS
            totals = self._streams.setdefault(key, StreamTotals())
        return totals

    def families(self, now_ms: int) -> Iterator[Family]:
        """The metrics as of now."""
        # Requests go on between two pieces: what they add must not change what is walked over.
        streams = list(self._streams.items())

        def lines(name: str, read: Callable[[StreamTotals], float]) -> Iterator[str]:
            return (
                f"{name}{_labels(key)} {number_text(read(totals))}\n" for key, totals in streams
            )

        for short, says, read in _COUNTERS:
            name = f"tidegate_kinesis_{short}_total"
            yield Family(name, COUNTER, says, lines(name, read))
        minute = now_ms // _MS_PER_MINUTE
        says = "GetRecords.IteratorAgeMilliseconds (milliseconds), the greatest of a minute or two"
        yield Family(_AGE, GAUGE, says, lines(_AGE, lambda one: one.greatest_age_ms(minute)))


def of_groups(lags: Mapping[GroupStream, Lag]) -> Iterator[Family]:
    """How far consumer groups are behind."""
    labels = [
        ({"account": account, "group": group, "region": region, "stream": stream}, lag)
        for (account, region, group, stream), lag in lags.items()
    ]
    yield labelled(
        "tidegate_kinesis_group_lag_records",
        "Records of a stream that a consumer group has not committed",
        ((named, lag.records) for named, lag in labels),
    )
    yield labelled(
        "tidegate_kinesis_group_lag_milliseconds",
        "For how long the first of those has been there",
        ((named, lag.behind_ms) for named, lag in labels),
    )


@lru_cache(maxsize=2 * STREAMS_MAX)
def _labels(key: StreamKey) -> str:
    account, region, name = key
    return labels_text({"account": account, "region": region, "stream": name})

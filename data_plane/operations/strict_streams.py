"""Streams as strict as AWS's, for test beds: iterators that expire, and rates of each shard.

Sources: API reference of GetRecords and PutRecords; developer guide, "Quotas and limits". Every
server counts for itself.
"""

from collections import OrderedDict
from typing import Final

from data_plane.core.errors import EXPIRED_ITERATOR, THROUGHPUT_EXCEEDED, RefusedError
from data_plane.core.stream import Shard, Stream
from data_plane.core.token_bucket import Rate, TokenBucket
from data_plane.core.utc import utc_time
from data_plane.operations.stream_address import shard_id

ITERATOR_MS: Final = 300_000
READS: Final = Rate(5, 5)
READ_BYTES: Final = Rate(2 * 1_048_576, 2 * 1_048_576)
WRITTEN_RECORDS: Final = Rate(1_000, 1_000)
WRITTEN_BYTES: Final = Rate(1_048_576, 1_048_576)
"""A record that is longer waits for a whole second without any, and takes that."""

_BUCKETS_MAX: Final = 16_384
_DAYS: Final = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_DAY_S: Final = 86_400

_Name = tuple[str, int, str]
"""Uid of a stream, shard, and what is counted."""


class StrictStreams:
    """What one server lets through; `settling_us` is how long a stream is CREATING or UPDATING."""

    def __init__(self, settling_us: int = 0) -> None:
        self.settling_us = settling_us
        self._buckets: OrderedDict[_Name, TokenBucket] = OrderedDict()

    def check_iterator(self, made_ms: int, now_us: int) -> None:
        """Raise RefusedError (ExpiredIterator) for one that is too old; 0: it never is."""
        now_ms = now_us // 1_000
        if made_ms and now_ms - made_ms > ITERATOR_MS:
            raise RefusedError(
                EXPIRED_ITERATOR,
                f"Iterator expired. The iterator was created at time {_date(made_ms)} while right"
                f" now it is {_date(now_ms)} which is further in the future than the tolerated"
                f" delay of {ITERATOR_MS} milliseconds.",
            )

    def check_read(self, stream: Stream, shard: Shard, now_us: int) -> None:
        """Count a read. Raises RefusedError beyond five a second, and after too many bytes."""
        read = self._bucket(stream, shard, "read bytes", READ_BYTES, now_us)
        if read.take(READ_BYTES, now_us, 0) or self._bucket(
            stream, shard, "reads", READS, now_us
        ).take(READS, now_us):
            raise RefusedError(
                THROUGHPUT_EXCEEDED,
                f"Rate exceeded for Shard - {stream.account}/{stream.name}/"
                f"{shard_id(shard.number)}",
            )

    def note_read(self, stream: Stream, shard: Shard, size_bytes: int, now_us: int) -> None:
        """Count what a read has answered: it may be more than there was, and the next ones wait."""
        read = self._bucket(stream, shard, "read bytes", READ_BYTES, now_us)
        read.charge(READ_BYTES, now_us, size_bytes)

    def refuse_write(
        self, stream: Stream, shard: Shard, size_bytes: int, now_us: int
    ) -> RefusedError | None:
        """Count a record that is to be put; why it is not to be."""
        records = self._bucket(stream, shard, "records", WRITTEN_RECORDS, now_us)
        written = self._bucket(stream, shard, "written bytes", WRITTEN_BYTES, now_us)
        if not records.take(WRITTEN_RECORDS, now_us):
            if not written.take(WRITTEN_BYTES, now_us, size_bytes):
                return None
            records.give_back(1)
        return RefusedError(
            THROUGHPUT_EXCEEDED,
            f"Rate exceeded for shard {shard_id(shard.number)} in stream {stream.name} under"
            f" account {stream.account}.",
        )

    def _bucket(
        self, stream: Stream, shard: Shard, what: str, rate: Rate, now_us: int
    ) -> TokenBucket:
        name = (stream.uid, shard.number, what)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(rate, now_us)
            if len(self._buckets) > _BUCKETS_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        return bucket


def _date(time_ms: int) -> str:
    """A time as AWS writes it: Thu Jan 22 01:22:02 UTC 2015."""
    time_s = time_ms // 1_000
    at = utc_time(time_s)
    day = _DAYS[time_s // _DAY_S % len(_DAYS)]
    clock = f"{at.hour:02}:{at.minute:02}:{at.second:02}"
    return f"{day} {_MONTHS[at.month - 1]} {at.day:02} {clock} UTC {at.year}"

"""Streams as strict as AWS's, for test beds: iterators that expire, and rates of each shard.

Sources: API reference of GetRecords and PutRecords; developer guide, "Quotas and limits". Every
server counts for itself.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from data_plane.core.errors import EXPIRED_ITERATOR, THROUGHPUT_EXCEEDED, RefusedError
from data_plane.core.stream import Shard, Stream
from data_plane.core.token_bucket import Rate, TokenBucket
from data_plane.core.utc import utc_time
from data_plane.operations.stream_address import shard_id
from data_plane.ports import Clock

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

    def __init__(self, clock: Clock, settling_us: int) -> None:
        self.settling_us = settling_us
        self._clock = clock
        self._buckets: OrderedDict[_Name, TokenBucket] = OrderedDict()

    def now_ms(self) -> int:
        """When an iterator is made that is made now."""
        return self._clock.now_us() // 1_000

    def check_iterator(self, made_ms: int) -> None:
        """Raise RefusedError (ExpiredIterator) for one that is too old; 0: it never is."""
        now_ms = self.now_ms()
        if made_ms and now_ms - made_ms > ITERATOR_MS:
            raise RefusedError(
                EXPIRED_ITERATOR,
                f"Iterator expired. The iterator was created at time {_date(made_ms)} while right"
                f" now it is {_date(now_ms)} which is further in the future than the tolerated"
                f" delay of {ITERATOR_MS} milliseconds.",
            )

    def check_read(self, stream: Stream, shard: Shard) -> None:
        """Count a read. Raises RefusedError beyond five a second, and after too many bytes."""
        now_us = self._clock.now_us()
        read = self._bucket(stream, shard, "read bytes", READ_BYTES, now_us)
        reads = self._bucket(stream, shard, "reads", READS, now_us)
        if read.take(READ_BYTES, now_us, 0) or reads.take(READS, now_us):
            raise RefusedError(
                THROUGHPUT_EXCEEDED,
                f"Rate exceeded for Shard - {stream.account}/{stream.name}/"
                f"{shard_id(shard.number)}",
            )

    def note_read(self, stream: Stream, shard: Shard, size_bytes: int) -> None:
        """Count what a read has answered: it may be more than there was, and the next ones wait."""
        now_us = self._clock.now_us()
        read = self._bucket(stream, shard, "read bytes", READ_BYTES, now_us)
        read.charge(READ_BYTES, now_us, size_bytes)

    def take_writes(
        self, stream: Stream, shard: Shard, sizes_bytes: Sequence[int]
    ) -> tuple[int, RefusedError | None]:
        """Count records that are to be put: how many of them may be, and why no more."""
        now_us = self._clock.now_us()
        records = self._bucket(stream, shard, "records", WRITTEN_RECORDS, now_us)
        written = self._bucket(stream, shard, "written bytes", WRITTEN_BYTES, now_us)
        for taken, size_bytes in enumerate(sizes_bytes):
            if not records.take(WRITTEN_RECORDS, now_us):
                if not written.take(WRITTEN_BYTES, now_us, size_bytes):
                    continue
                records.give_back(1)
            return taken, RefusedError(
                THROUGHPUT_EXCEEDED,
                f"Rate exceeded for shard {shard_id(shard.number)} in stream {stream.name} under"
                f" account {stream.account}.",
            )
        return len(sizes_bytes), None

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

"""Records that wait to be put, and the batches of those that are under way.

Nothing here does I/O or looks at a clock. Hash keys are cut into lanes, one for each open shard.
One batch of a lane is under way at a time, until all of it is stored or given up; so no record
overtakes another one of its key.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import md5
from itertools import count
from typing import Final, NamedTuple

HASH_KEY_MAX: Final = 2**128 - 1

BATCH_RECORDS_MAX: Final = 500
"""Of PutRecords."""

RECORD_OVERHEAD_BYTES: Final = 2048
"""What Python takes for a record beside its data, most of it for its future (measured: 1,920)."""


class StoredRecord(NamedTuple):
    """Where a record is: its shard, and its sequence number there."""

    shard_id: str
    sequence_number: str


class HashRange(NamedTuple):
    """The hash keys of an open shard, both ends included."""

    first: int
    last: int
    shard_id: str = ""


WHOLE: Final = HashRange(0, HASH_KEY_MAX)
"""While nobody knows the shards."""


def hash_key_of(partition_key: str) -> int:
    """Which hash key a partition key has (Kinesis: its MD5)."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest())


@dataclass(slots=True, eq=False)
class WaitingRecord:
    """A record that was put into the outbox at `put_s`, as the `order`-th."""

    data: bytes
    partition_key: str | None
    explicit_hash_key: int | None
    size_bytes: int
    stored: "Future[StoredRecord]"
    put_s: float = 0.0
    order: int = 0

    @property
    def held_bytes(self) -> int:
        """About what it takes of memory."""
        return self.size_bytes + RECORD_OVERHEAD_BYTES

    @property
    def hash_key(self) -> int:
        """It goes to the shard that has this."""
        if self.explicit_hash_key is not None:
            return self.explicit_hash_key
        return hash_key_of(self.partition_key) if self.partition_key is not None else 0


@dataclass(slots=True, eq=False)
class PutBatch:
    """Records of one call, which is repeated as it is, under its name, until they are stored."""

    name: str
    range: HashRange
    records: Sequence[WaitingRecord]
    put_s: float
    """When the eldest of its records was put."""
    held_bytes: int
    attempts: int = 0
    may_be_stored: bool = False
    """An attempt was made of which nobody knows what it stored."""
    refused: int = 0
    """So many records were refused, of this and of the parts before it."""
    refusal: Exception | None = None
    again_s: float | None = None
    """When to repeat it; None: it is being sent, or waits to be another one's `rest`."""
    rest: "PutBatch | None" = None
    """What is sent once this one is stored or given up."""


@dataclass(slots=True)
class _Lane:
    range: HashRange
    waiting: deque[WaitingRecord] = field(default_factory=deque)
    waiting_bytes: int = 0

    def add(self, record: WaitingRecord) -> None:
        self.waiting.append(record)
        self.waiting_bytes += record.size_bytes

    def take(self, bytes_max: int) -> Iterator[WaitingRecord]:
        """The next records of a batch."""
        taken = size_bytes = 0
        while self.waiting and taken < BATCH_RECORDS_MAX:
            record = self.waiting[0]
            if taken and size_bytes + record.size_bytes > bytes_max:
                return
            self.waiting.popleft()
            self.waiting_bytes -= record.size_bytes
            taken += 1
            size_bytes += record.size_bytes
            yield record


class Outbox:
    """What waits and what is under way; it tells which batch is next, and when.

    A batch is ripe with 500 records or `batch_bytes_max`, or when its first record has waited for
    `linger_s`, or is to be flushed, or somebody waits for room.
    """

    def __init__(self, *, linger_s: float, batch_bytes_max: int) -> None:
        self._linger_s = linger_s
        self._batch_bytes_max = batch_bytes_max
        self._lanes = [_Lane(WHOLE)]
        self._under_way: list[PutBatch] = []
        self._given_up: list[Sequence[WaitingRecord]] = []
        self._orders = count(1)
        self._flushed_order = 0
        self._hurries = False
        self.last_order = 0
        self.taken_bytes = 0
        """Of memory, by all records that ever came in."""
        self.settled_bytes = 0
        """Of those that are stored or given up."""

    @property
    def held_bytes(self) -> int:
        """Of memory, by all records that are not stored or given up yet."""
        return self.taken_bytes - self.settled_bytes

    @property
    def shard_ids(self) -> set[str]:
        """The shards that the lanes are cut by."""
        return {lane.range.shard_id for lane in self._lanes}

    def add(self, record: WaitingRecord) -> None:
        """Take a record in, behind all others."""
        self.last_order = record.order = next(self._orders)
        self.taken_bytes += record.held_bytes
        self._lane_of(record).add(record)

    def hurry(self) -> None:
        """Somebody waits for room: let nothing linger until there is some."""
        self._hurries = True

    def flush(self, order: int) -> None:
        """Let everything up to this one be ripe at once."""
        self._flushed_order = max(self._flushed_order, order)

    def is_stored(self, order: int) -> bool:
        """Whether nothing up to this one waits or is under way any more."""
        return not any(record.order <= order for record in self._records())

    def recut(self, ranges: Iterable[HashRange]) -> None:
        """Cut new lanes; what waits keeps its order, what is under way stays as it is."""
        waiting = sorted(
            (record for lane in self._lanes for record in lane.waiting),
            key=lambda record: record.order,
        )
        self._lanes = [_Lane(each) for each in sorted(ranges)] or [_Lane(WHOLE)]
        for record in waiting:
            self._lane_of(record).add(record)

    def next_batch(self, now_s: float, new_name: Callable[[], str]) -> PutBatch | None:
        """The batch to send now, which counts as being sent; None: there is none."""
        for batch in self._under_way:
            if batch.again_s is not None and batch.again_s <= now_s:
                batch.again_s = None
                return batch
        for lane in self._lanes:
            if lane.waiting and self._ripe_s(lane) <= now_s and not self._is_blocked(lane):
                records = list(lane.take(self._batch_bytes_max))
                held_bytes = sum(record.held_bytes for record in records)
                batch = PutBatch(new_name(), lane.range, records, records[0].put_s, held_bytes)
                self._under_way.append(batch)
                return batch
        return None

    def next_s(self) -> float | None:
        """When a batch is next that is not now; None: not before something happens."""
        times_s = [batch.again_s for batch in self._under_way if batch.again_s is not None]
        times_s += [
            self._ripe_s(lane)
            for lane in self._lanes
            if lane.waiting and not self._is_blocked(lane)
        ]
        return min(times_s, default=None)

    def put_again(self, batch: PutBatch, again_s: float) -> None:
        """The batch is to be repeated."""
        batch.again_s = again_s

    def done(self, batch: PutBatch) -> None:
        """All of the batch is stored or given up."""
        self._under_way.remove(batch)
        if batch.rest is not None:
            batch.rest.refused, batch.rest.refusal = batch.refused, batch.refusal
            batch.rest.again_s = batch.rest.put_s
        self._settle(batch.held_bytes)

    def split(self, batch: PutBatch, new_name: Callable[[], str]) -> None:
        """Send it as two, one after the other: nothing of it is stored."""
        middle = len(batch.records) // 2
        records = batch.records[middle:]
        held_bytes = sum(record.held_bytes for record in records)
        rest = PutBatch(new_name(), batch.range, records, batch.put_s, held_bytes, rest=batch.rest)
        self._under_way.append(rest)
        batch.name, batch.records, batch.rest = new_name(), batch.records[:middle], rest
        # What was cancelled of it counts here.
        batch.held_bytes -= held_bytes
        batch.attempts, batch.again_s = 0, batch.put_s

    def oldest_s(self) -> float | None:
        """When the eldest of what has never been sent was put; None: there is nothing."""
        return min((lane.waiting[0].put_s for lane in self._lanes if lane.waiting), default=None)

    def take_older(self, put_s: float) -> list[WaitingRecord]:
        """Take out what was put before, and has never been sent. It counts until `forget`."""
        older: list[WaitingRecord] = []
        for lane in self._lanes:
            while lane.waiting and lane.waiting[0].put_s <= put_s:
                older.append(lane.waiting.popleft())
                lane.waiting_bytes -= older[-1].size_bytes
        if older:
            self._given_up.append(older)
        return older

    def forget(self, records: Sequence[WaitingRecord]) -> None:
        """Those that were taken out know that they are given up."""
        self._given_up.remove(records)
        self._settle(sum(record.held_bytes for record in records))

    def take_batches(self) -> list[PutBatch]:
        """Take out what was sent, and is not answered for good."""
        batches, self._under_way = self._under_way, []
        return batches

    def _settle(self, held_bytes: int) -> None:
        self.settled_bytes += held_bytes
        self._hurries = False

    def _ripe_s(self, lane: _Lane) -> float:
        first = lane.waiting[0]
        if (
            self._hurries
            or first.order <= self._flushed_order
            or len(lane.waiting) >= BATCH_RECORDS_MAX
            or lane.waiting_bytes >= self._batch_bytes_max
        ):
            return first.put_s
        return first.put_s + self._linger_s

    def _is_blocked(self, lane: _Lane) -> bool:
        """Whether something of these hash keys is under way, perhaps of a lane of before."""
        return any(
            batch.range.first <= lane.range.last and lane.range.first <= batch.range.last
            for batch in self._under_way
        )

    def _lane_of(self, record: WaitingRecord) -> _Lane:
        if len(self._lanes) == 1:
            return self._lanes[0]
        hash_key = record.hash_key
        low, high = 0, len(self._lanes) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._lanes[middle].range.first <= hash_key:
                low = middle
            else:
                high = middle - 1
        return self._lanes[low]

    def _records(self) -> Iterator[WaitingRecord]:
        for lane in self._lanes:
            yield from lane.waiting
        for records in (*(batch.records for batch in self._under_way), *self._given_up):
            yield from records

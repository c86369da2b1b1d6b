"""What writes do inside one transaction of the store.

Each method works out everything that can fail by the caller's mistake before it touches the store,
so an exception other than lmdb.Error leaves the transaction as it was.
"""

from collections.abc import Callable, Iterable, Sequence

import lmdb

from data_plane.core.conditions import apply, holds
from data_plane.embedded.bodies import Bodies
from data_plane.embedded.encoding import (
    PRESENT_KEY,
    decode_item,
    encode_item,
    encode_key,
    partition_prefix,
    time_to_live_s,
)
from data_plane.embedded.traces import (
    EXPIRED,
    FINISHED,
    QUEUE_DELETED,
    Trace,
    leaves_trace,
    traces_of,
)
from data_plane.ports import (
    Append,
    Appended,
    Attributes,
    CellFullError,
    Condition,
    Key,
    Tallies,
    Tally,
    Update,
    Value,
    Written,
)

Change = Callable[[Attributes | None], Attributes]

_PAGES_PER_WRITE_BYTES = 16 * 1024
"""Copied tree pages of one write, generously."""


class WriteTransaction:
    """Some writes that become durable together.

    `now_us` is the clock at its beginning, `present_us` the highest stamp or time given out so far,
    `room_bytes` what the disk has left and `reserve_bytes` how much of that appends must leave;
    puts and updates leave half of it, so that what is stored can still be received and deleted.
    """

    def __init__(  # noqa: PLR0913 - what a transaction starts from
        self,
        txn: lmdb.Transaction,
        bodies: Bodies,
        *,
        now_us: int,
        present_us: int,
        room_bytes: int,
        reserve_bytes: int,
    ) -> None:
        self.present_us = present_us
        self.keys_written: list[bytes] = []
        self.bytes_written = 0
        self.writes = 0
        self._txn = txn
        self._bodies = bodies
        self._now_us = now_us
        self._room_bytes = room_bytes
        self._reserve_bytes = reserve_bytes

    def finish(self) -> lmdb.Transaction:
        """Note how far time has come, and hand the transaction over to be committed."""
        self._txn.put(PRESENT_KEY, self.present_us.to_bytes(8, "big"))
        return self._txn

    def abort(self) -> None:
        """Forget it."""
        self._txn.abort()

    def append(self, record: Append) -> Appended:
        """Store a new item. Raises CellFullError, ValueError."""
        stamp_us = max(self.present_us + 1, self._now_us)
        key = _key_of(record, stamp_us)
        while self._txn.get(encode_key(key)) is not None:
            # A delayed item may hold the key already, if somebody uses one suffix twice.
            stamp_us += 1
            key = _key_of(record, stamp_us)
        encoded = encode_item({**record.attributes, "t": stamp_us})
        counters = self._counters(record.tallies(stamp_us))
        self._spend(len(encoded), self._reserve_bytes)
        self.present_us = stamp_us
        self._store(encode_key(key), encoded, counters)
        return Appended(key, stamp_us, self._now_us // 1000)

    def put(
        self, key: Key, attributes: Attributes, condition: Condition, tallies: Tallies
    ) -> Written:
        """Replace an item. Raises CellFullError, ValueError."""
        return self._write(key, lambda _before: attributes, condition, tallies)

    def update(self, key: Key, change: Update, condition: Condition, tallies: Tallies) -> Written:
        """Change an item. Raises CellFullError, ValueError, TypeError."""
        return self._write(key, lambda before: apply(change, before), condition, tallies)

    def delete(self, key: Key, condition: Condition, tallies: Tallies) -> Written:
        """Remove an item."""
        stored_key = encode_key(key)
        before = self._read(stored_key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_us // 1000)
        counters = self._counters(tallies(before))
        if before is not None or counters:
            self._store(stored_key, None, counters)
        return Written(applied=True, before=before, time_ms=self._now_us // 1000)

    def expire(self, keys: Sequence[bytes], cause: str = FINISHED) -> None:
        """Remove the items under these stored keys, and leave traces of messages."""
        removed = [
            (key, self._bodies.join(self._txn, stored))
            for key in keys
            if leaves_trace(key) and (stored := self._txn.get(key)) is not None
        ]
        for key in keys:
            self._store(key, None, ())
        self._leave(traces_of(removed, cause, self._now_us // 1_000_000))

    def _leave(self, traces: Iterable[Trace]) -> None:
        """Store them under one stamp, above all before: so an export's time says which it has."""
        stamp_us = max(self.present_us + 1, self._now_us)
        for trace in traces:
            self.present_us = stamp_us
            key = Key(trace.partition, stamp_us.to_bytes(8, "big") + trace.suffix)
            self._store(encode_key(key), encode_item(trace.attributes), ())

    def collect(self, keys: Sequence[bytes], now_s: int) -> int:
        """Remove those of the items whose time to live is still over; answers how many."""
        dead = [
            key
            for key in keys
            if (stored := self._txn.get(key)) is not None and 0 < time_to_live_s(stored) < now_s
        ]
        self.expire(dead, EXPIRED)
        return len(dead)

    def drop(self, partition: str, budget: int) -> int:
        """Remove the first items of a partition; answers how many there were."""
        prefix = partition_prefix(partition)
        keys: list[bytes] = []
        with self._txn.cursor() as cursor:
            found = cursor.set_range(prefix)
            while found and len(keys) < budget:
                key = bytes(cursor.key())
                if not key.startswith(prefix):
                    break
                keys.append(key)
                found = cursor.next()
        self.expire(keys, QUEUE_DELETED)
        return len(keys)

    def _write(self, key: Key, change: Change, condition: Condition, tallies: Tallies) -> Written:
        stored_key = encode_key(key)
        before = self._read(stored_key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_us // 1000)
        encoded = encode_item(change(before))
        counters = self._counters(tallies(before))
        self._spend(len(encoded), self._reserve_bytes // 2)
        self._store(stored_key, encoded, counters)
        return Written(applied=True, before=before, time_ms=self._now_us // 1000)

    def _read(self, stored_key: bytes) -> dict[str, Value] | None:
        stored = self._txn.get(stored_key)
        return None if stored is None else decode_item(self._bodies.join(self._txn, stored))

    def _spend(self, size_bytes: int, kept_bytes: int) -> None:
        cost_bytes = size_bytes + size_bytes // 32 + _PAGES_PER_WRITE_BYTES
        if self._room_bytes - cost_bytes < kept_bytes:
            raise CellFullError("the disk that holds the cell is full")
        self._room_bytes -= cost_bytes

    def _counters(self, moved: Iterable[Tally]) -> list[tuple[bytes, bytes | None]]:
        """The counter items as they will be, None for those that are to go."""
        sums: dict[Key, dict[str, int]] = {}
        for key, amount, name in moved:
            added = sums.setdefault(key, {})
            added[name] = added.get(name, 0) + amount
        counters: list[tuple[bytes, bytes | None]] = []
        for key, added in sums.items():
            stored_key = encode_key(key)
            counter = apply(Update(add=added), self._read(stored_key))
            counters.append((stored_key, encode_item(counter) if any(counter.values()) else None))
        return counters

    def _store(
        self,
        stored_key: bytes,
        encoded: bytes | None,
        counters: Iterable[tuple[bytes, bytes | None]],
    ) -> None:
        self.writes += 1
        for key, value in ((stored_key, encoded), *counters):
            self.keys_written.append(key)
            if value is None:
                self._bodies.drop(self._txn, self._txn.pop(key))
            else:
                stored = self._bodies.split(self._txn, key, value, time_to_live_s(value))
                self._bodies.drop(self._txn, self._txn.replace(key, stored))
                self.bytes_written += len(key) + len(value)


def _key_of(record: Append, stamp_us: int) -> Key:
    return Key(record.partition, (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix)

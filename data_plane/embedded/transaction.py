"""What writes do inside one transaction of the store.

Each method works out everything that can fail by the caller's mistake before it touches the store,
so an exception other than lmdb.Error leaves the transaction as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import lmdb

from data_plane.core.conditions import added_to, apply, holds
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.embedded.bodies import CHECKED_MARK, Bodies, value_bytes
from data_plane.embedded.damage import DamagedItems
from data_plane.embedded.encoding import (
    COUNTERS,
    ERAS_KEY,
    PRESENT_KEY,
    decode_item,
    encode_item,
    encode_key,
    partition_prefix,
    time_to_live_s,
)
from data_plane.embedded.growth import (
    GROWTH_PREFIXES,
    Growth,
    grown,
    is_counted,
    is_definition,
    is_live,
)
from data_plane.embedded.room import (
    cost_bytes,
    grade_of_append,
    grade_of_put,
    grade_of_update,
    kept_bytes,
)
from data_plane.embedded.traces import (
    EXPIRED,
    FINISHED,
    PURGED,
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
    DamagedItemError,
    Key,
    Tallies,
    Tally,
    Update,
    Value,
    Written,
)
from data_plane.stored.superfluous import (
    DROP_BYTES_MAX,
    DROP_ITEMS_MAX,
    Verdict,
    stripped,
    verdict,
)

_COUNTS: Final = (COUNTERS, *GROWTH_PREFIXES)
Change = Callable[[Attributes | None], Attributes]
Encoded = bytes | memoryview | None
Grade = Callable[[int, int], int]
"""Of a write, from the bytes of the item before (0: none) and after."""


class WriteTransaction:
    """Some writes that become durable together.

    `now_us` is the clock at its beginning, `present_us` the highest stamp or time given out so far,
    `room_bytes` what the disk has left and `reserve_bytes` how much of that is kept for what must
    go on when it is full: who may use how much of it says room.py.
    """

    def __init__(  # noqa: PLR0913 - what a transaction starts from
        self,
        txn: lmdb.Transaction,
        bodies: Bodies,
        damaged: DamagedItems,
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
        self._growth = Growth()
        self._txn = txn
        self._bodies = bodies
        self._damaged = damaged
        self._now_us = now_us
        self._room_bytes = room_bytes
        self._reserve_bytes = reserve_bytes

    def finish(self, eras: bytes | None = None) -> lmdb.Transaction:
        """Note how far time has come, and hand the transaction over to be committed.

        With new `eras`, what the world's time was by then.
        """
        for key, added in self._growth.items().items():
            after = grown(self._read(key), added)
            if after:
                stored = self._bodies.split(self._txn, key, encode_item(after), time_to_live_s)
                self._txn.put(key, stored)
            else:
                self._txn.pop(key)
            self.keys_written.append(key)
        # Also where nothing was stamped: of several cells the latest present is the last write's.
        present_us = max(self.present_us, self._now_us)
        self._txn.put(PRESENT_KEY, present_us.to_bytes(8, "big"))
        if eras is not None:
            self._txn.put(ERAS_KEY, eras)
        return self._txn

    def abort(self) -> None:
        """Forget it."""
        self._txn.abort()

    def append(self, record: Append) -> Appended:
        """Store a new item. Raises CellFullError, ValueError."""
        stamp_us = max(self.present_us + 1, self._now_us)
        key = _key_of(record, stamp_us)
        stored_key = encode_key(key)
        while self._txn.get(stored_key) is not None:
            # A delayed item may hold the key already, if somebody uses one suffix twice.
            stamp_us += 1
            key = _key_of(record, stamp_us)
            stored_key = encode_key(key)
        encoded = encode_item({**record.attributes, "t": stamp_us})
        counters = self._counters(record.tallies(stamp_us))
        self._spend(len(encoded), grade_of_append(record))
        self.present_us = stamp_us
        self._store(stored_key, encoded, counters)
        return Appended(key, stamp_us, self._now_us // 1000)

    def put(
        self, key: Key, attributes: Attributes, condition: Condition, tallies: Tallies
    ) -> Written:
        """Replace an item. Raises CellFullError, ValueError."""

        def grade(before_bytes: int, after_bytes: int) -> int:
            return grade_of_put(key, attributes, before_bytes, after_bytes)

        return self._write(key, lambda _before: attributes, condition, tallies, grade)

    def update(self, key: Key, change: Update, condition: Condition, tallies: Tallies) -> Written:
        """Change an item. Raises CellFullError, ValueError, TypeError."""

        def grade(before_bytes: int, after_bytes: int) -> int:
            return grade_of_update(key, change, before_bytes, after_bytes)

        return self._write(key, lambda before: apply(change, before), condition, tallies, grade)

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
            (key, self._value(key, stored))
            for key in keys
            if leaves_trace(key) and (stored := self._txn.get(key)) is not None
        ]
        for key in keys:
            self._store(key, None, ())
        self._leave(traces_of(removed, cause, self._now_us // 1_000_000))

    def _value(self, key: bytes, stored: bytes | memoryview) -> bytes | memoryview:
        """What a trace is made of: nothing, where it is damaged."""
        try:
            return self._bodies.join(self._txn, key, stored)
        except DamagedItemError:
            self._damaged.add(key)
            return b""

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
        keys, _ = self._next_keys(partition, b"", budget)
        self.expire(keys, QUEUE_DELETED)
        return len(keys)

    def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Remove what a purge has made superfluous among the next items of a partition."""
        keys, is_end = self._next_keys(part.partition, after, DROP_ITEMS_MAX)
        prefix_bytes = len(partition_prefix(part.partition))
        removed: list[bytes] = []
        cut: list[tuple[bytes, Attributes]] = []
        for key in keys:
            sort = key[prefix_bytes:]
            if part.below and sort >= part.below:
                is_end = True
                break
            try:
                item: Attributes = self._read(key) or {}
            except DamagedItemError:
                continue  # Nobody knows what it is: it is left to its time to live.
            match verdict(part, sort, item):
                case Verdict.REMOVE:
                    removed.append(key)
                case Verdict.STRIP:
                    cut.append((key, stripped(item)))
        self.expire(removed, PURGED)
        for key, left in cut:
            self._store(key, encode_item(left), ())
        position = b"" if is_end else keys[-1][prefix_bytes:]
        return Dropped(position, len(removed) + len(cut))

    def _next_keys(self, partition: str, after: bytes, items_max: int) -> tuple[list[bytes], bool]:
        """Stored keys of the next items of a partition, and whether these are the last.

        So many that what is under them can be removed in one step.
        """
        prefix = partition_prefix(partition)
        low = prefix + after
        keys: list[bytes] = []
        size_bytes = 0
        with self._txn.cursor() as cursor:
            found = cursor.set_range(low)
            while found:
                key = bytes(cursor.key())
                if not key.startswith(prefix):
                    break
                if len(keys) == items_max or size_bytes > DROP_BYTES_MAX:
                    return keys, False
                if key != low:
                    keys.append(key)
                    size_bytes += value_bytes(cursor.value())
                found = cursor.next()
        return keys, True

    def _write(
        self, key: Key, change: Change, condition: Condition, tallies: Tallies, grade: Grade
    ) -> Written:
        stored_key = encode_key(key)
        before, before_bytes = self._found(stored_key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_us // 1000)
        encoded = encode_item(change(before))
        counters = self._counters(tallies(before))
        self._spend(len(encoded), grade(before_bytes, len(encoded)))
        self._store(stored_key, encoded, counters)
        return Written(applied=True, before=before, time_ms=self._now_us // 1000)

    def _read(self, stored_key: bytes) -> dict[str, Value] | None:
        return self._found(stored_key)[0]

    def _found(self, stored_key: bytes) -> tuple[dict[str, Value] | None, int]:
        """The item under a key, and the size of its value (0: there is none)."""
        stored = self._txn.get(stored_key)
        if stored is None:
            # A count is approximate in any case: where it is damaged it begins anew.
            if stored_key.startswith(_COUNTS) or not self._damaged:
                return None, 0
            if self._damaged.may_have(stored_key):
                raise DamagedItemError("an item that may have been this one is damaged")
            return None, 0
        try:
            value = self._bodies.join(self._txn, stored_key, stored)
            return decode_item(value), len(value)
        except DamagedItemError:
            self._damaged.add(stored_key)
            if stored_key.startswith(_COUNTS):
                return None, 0
            raise

    def _spend(self, size_bytes: int, grade: int) -> None:
        spent_bytes = cost_bytes(size_bytes)
        if self._room_bytes - spent_bytes < kept_bytes(grade, self._reserve_bytes):
            raise CellFullError("the disk that holds the cell is full")
        self._room_bytes -= spent_bytes

    def _counters(self, moved: Iterable[Tally]) -> list[tuple[bytes, bytes | None]]:
        """The counter items as they will be, None for those that are to go."""
        sums: dict[Key, dict[str, int]] = {}
        for key, amount, name in moved:
            added = sums.setdefault(key, {})
            added[name] = added.get(name, 0) + amount
        counters: list[tuple[bytes, bytes | None]] = []
        for key, added in sums.items():
            stored_key = encode_key(key)
            counter = added_to(self._read(stored_key), added)
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
                before = self._txn.pop(key)
            else:
                stored = self._bodies.split(self._txn, key, value, time_to_live_s)
                before = self._txn.replace(key, stored)
                self.bytes_written += len(key) + len(value)
            if key is stored_key and is_counted(key):
                self._note_growth(key, before, value)
            if before and before[0] != CHECKED_MARK:
                self._bodies.drop(self._txn, key, before)

    def _note_growth(self, key: bytes, before: Encoded, after: bytes | None) -> None:
        """Count what it changes of what messages, records, or an account's definitions take."""
        size_bytes = 0 if after is None else len(key) + len(after)
        if before is not None:
            size_bytes -= len(key) + value_bytes(before)
        defined = 0
        if is_definition(key):
            known = None if before is None else self._value(key, before)
            defined = is_live(key, after) - is_live(key, known)
        self._growth.note(key, size_bytes, defined)


def _key_of(record: Append, stamp_us: int) -> Key:
    return Key(record.partition, (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix)

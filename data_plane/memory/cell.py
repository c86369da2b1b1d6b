"""A cell in memory, for tests and for simulation: exact, deterministic, counted."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence

from data_plane.core.cell_clock import eras_of
from data_plane.core.conditions import apply, holds
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import Eras
from data_plane.ports import (
    ALWAYS,
    SETTLE_US,
    Append,
    Appended,
    Attributes,
    Clock,
    Condition,
    Item,
    Key,
    Tallies,
    Tally,
    Update,
    Value,
    Written,
    no_tallies,
)
from data_plane.stored import superfluous
from data_plane.stored.superfluous import (
    Verdict,
    stripped,
    verdict,
)

PAGE_BYTES = 1024 * 1024
GET_MANY_KEYS_MAX = 100


class _Partition:
    """The items of one partition, with their sort keys in order."""

    __slots__ = ("items", "sorts")

    def __init__(self) -> None:
        self.sorts: list[bytes] = []
        self.items: dict[bytes, Attributes] = {}

    def put(self, sort: bytes, attributes: Attributes) -> None:
        if sort not in self.items:
            insort(self.sorts, sort)
        self.items[sort] = attributes

    def remove(self, sort: bytes) -> None:
        if self.items.pop(sort, None) is not None:
            del self.sorts[bisect_left(self.sorts, sort)]


class MemoryCell:
    """Implements `data_plane.ports.Cell`; no call suspends, so each is atomic.

    `requests` counts calls by method name, `items_read` the items that reads returned: budgets are
    tested with them. With `stamps` the cell chooses the stamps of appends, as the embedded cell
    does; without, it takes the proposed ones, as DynamoDB cells do.
    """

    def __init__(self, clock: Clock, *, stamps: bool = True) -> None:
        self.requests: Counter[str] = Counter()
        self.items_read = 0
        self._clock = clock
        self._stamps = stamps
        self._present_us = 0
        self._partitions: dict[str, _Partition] = {}

    @property
    def chooses_stamps(self) -> bool:
        """As it was made."""
        return self._stamps

    @property
    def eras(self) -> Eras:
        """Those of its clock."""
        return eras_of(self._clock)

    def has_room(self, size_bytes: int) -> bool:  # noqa: ARG002 - as others'
        """Always."""
        return True

    def settled_us(self) -> int:
        """The present, or as far before it as late writes reach."""
        return self.now_us() if self._stamps else self._clock.now_us() - SETTLE_US

    def now_us(self) -> int:
        """The present, which no later stamp of this cell will be below (where it chooses them)."""
        self._present_us = max(self._present_us, self._clock.now_us())
        return self._present_us

    async def append(self, record: Append) -> Appended:
        """Store a new item under a key of its own."""
        self.requests["append"] += 1
        stamp_us = self._free_stamp_us(record) if self._stamps else record.proposed_us
        self._present_us = max(self._present_us, stamp_us)
        key = _key_of(record, stamp_us)
        self._put(key, {**record.attributes, "t": stamp_us})
        self._count(record.tallies(stamp_us))
        return Appended(key, stamp_us, self._now_ms())

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds."""
        self.requests["put"] += 1
        before = self._find(key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_ms())
        return self._apply(key, before, dict(attributes), tallies)

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds."""
        self.requests["update"] += 1
        before = self._find(key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_ms())
        return self._apply(key, before, apply(change, before), tallies)

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds. Removing an absent item is applied."""
        self.requests["delete"] += 1
        before = self._find(key)
        if not holds(condition, before):
            return Written(applied=False, before=before, time_ms=self._now_ms())
        return self._apply(key, before, None, tallies)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:  # noqa: ARG002
        """Read one item."""
        self.requests["get"] += 1
        found = self._find(key)
        self.items_read += found is not None
        return found

    async def get_many(
        self,
        keys: Sequence[Key],
        *,
        strong: bool = True,  # noqa: ARG002
    ) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        if len(keys) > GET_MANY_KEYS_MAX:
            raise ValueError(f"get_many reads at most {GET_MANY_KEYS_MAX} items, not {len(keys)}")
        self.requests["get_many"] += 1
        found = {key: item for key in keys if (item := self._find(key)) is not None}
        self.items_read += len(found)
        return found

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,  # noqa: ARG002
    ) -> list[Item]:
        """Read items with `after < sort <= until` in order of `sort`, at most `limit` of them."""
        if limit < 1:
            raise ValueError(f"a query reads at least one item, not {limit}")
        self.requests["query"] += 1
        stored = self._partitions.get(partition)
        if stored is None:
            return []
        low = bisect_right(stored.sorts, after)
        high = len(stored.sorts) if until is None else bisect_right(stored.sorts, until)
        chosen = range(low, min(high, low + limit))
        if reverse:
            chosen = range(high - 1, max(low, high - limit) - 1, -1)
        page: list[Item] = []
        size_bytes = 0
        for index in chosen:
            sort = stored.sorts[index]
            page.append(Item(Key(partition, sort), stored.items[sort]))
            size_bytes += _size_bytes(stored.items[sort])
            if size_bytes > PAGE_BYTES:
                break
        self.items_read += len(page)
        return page

    def expire(self, keys: Sequence[Key]) -> None:
        """Remove items that nobody needs any more."""
        for key in keys:
            self._remove(key)

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Remove what a purge has made superfluous among the next items of a partition."""
        self.requests["drop"] += 1
        stored = self._partitions.get(part.partition)
        sorts = (
            stored.sorts[bisect_right(stored.sorts, after) :][: superfluous.DROP_ITEMS_MAX]
            if stored
            else []
        )
        count = 0
        for sort in sorts:
            key = Key(part.partition, sort)
            item = self._find(key) or {}
            match verdict(part, sort, item):
                case Verdict.KEEP:
                    continue
                case Verdict.REMOVE:
                    self._remove(key)
                case Verdict.STRIP:
                    self._put(key, stripped(item))
            count += 1
        return Dropped(sorts[-1] if len(sorts) == superfluous.DROP_ITEMS_MAX else b"", count)

    def items(self) -> list[Item]:
        """Everything that is stored, counters included, in the order of the keys; not counted."""
        return [
            Item(Key(name, sort), stored.items[sort])
            for name, stored in sorted(self._partitions.items())
            for sort in stored.sorts
        ]

    def _now_ms(self) -> int:
        return self._clock.now_us() // 1000

    def _free_stamp_us(self, record: Append) -> int:
        stamp_us = max(self._present_us + 1, self._clock.now_us())
        # A delayed item may hold the key already, if somebody uses one suffix twice.
        while self._find(_key_of(record, stamp_us)) is not None:
            stamp_us += 1
        return stamp_us

    def _find(self, key: Key) -> Attributes | None:
        stored = self._partitions.get(key.partition)
        return None if stored is None else stored.items.get(key.sort)

    def _put(self, key: Key, attributes: Attributes) -> None:
        self._partitions.setdefault(key.partition, _Partition()).put(key.sort, attributes)

    def _remove(self, key: Key) -> None:
        stored = self._partitions.get(key.partition)
        if stored is None:
            return
        stored.remove(key.sort)
        if not stored.sorts:
            del self._partitions[key.partition]

    def _apply(
        self, key: Key, before: Attributes | None, after: dict[str, Value] | None, tallies: Tallies
    ) -> Written:
        if after is None:
            self._remove(key)
        else:
            self._put(key, after)
        self._count(tallies(before))
        return Written(applied=True, before=before, time_ms=self._now_ms())

    def _count(self, moved: Iterable[Tally]) -> None:
        for key, amount, name in moved:
            counter = apply(Update(add={name: amount}), self._find(key))
            if not any(counter.values()):
                self._remove(key)
            else:
                self._put(key, counter)


def _key_of(record: Append, stamp_us: int) -> Key:
    return Key(record.partition, (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix)


def _size_bytes(attributes: Attributes) -> int:
    return sum(len(name) + _value_bytes(value) for name, value in attributes.items())


def _value_bytes(value: Value) -> int:
    if isinstance(value, int):
        return 8
    if isinstance(value, frozenset):
        return 8 * len(value)
    return len(value)

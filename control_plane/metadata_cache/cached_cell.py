"""The registry's cell behind the shared cache.

Only `recent` looks into the cache. All other reads, and every write with its condition, go to the
cell; what is written is marked in the cache, so that others look at the cell sooner than they must.

How old `recent` may be is bounded thrice: by the time in the entry, by memcached's own clock
(ENTRY_TTL_S), and for what this front end has written itself, by not looking at all. An item that
expires by itself, or is absent, is never cached.
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from control_plane.metadata_cache.entries import Entries, Entry
from control_plane.metadata_cache.nodes import CacheNodes, Found
from control_plane.recent_items import Recent, read_items
from data_plane.core.eras import Eras
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    Cell,
    Clock,
    Condition,
    Entropy,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)

SERVES_US: Final = 3_000_000
"""An entry that is older does not serve."""
SPREAD_US: Final = 900_000
"""Front ends read anew after SERVES_US and up to this more, each after a time of its own: the first
reads the cell, and the others find what it has read."""
AHEAD_US_MAX: Final = 250_000
"""An entry may be from so much later than now: clocks differ. Others do not serve."""

ENTRY_TTL_S: Final = 4
"""memcached may forget up to a second early."""
MARK_TTL_S: Final = 10
"""Longer than a read of the cell takes that began before the write which the mark stands for."""

OWN_WRITE_US: Final = 10_000_000
"""For how long what this front end has written is read from the cell alone: longer than an entry
from before may serve, whatever the clocks say."""
OWN_WRITES_MAX: Final = 10_000

_EXPIRES: Final = "x"


class CachedCell:
    """Implements the ports Cell and RecentItems."""

    def __init__(
        self, cell: Cell, nodes: CacheNodes, entries: Entries, clock: Clock, entropy: Entropy
    ) -> None:
        self._cell = cell
        self._nodes = nodes
        self._entries = entries
        self._clock = clock
        drawn = int.from_bytes(entropy.random_bytes(4), "big")
        self.refresh_after_us = SERVES_US + SPREAD_US * drawn // 2**32
        self._own_writes_us: dict[Key, int] = {}
        self._forgotten_write_us = 0

    # Reading

    async def recent(self, keys: Sequence[Key]) -> Recent:
        """Up to 100 items as of at most SERVES_US ago, from the cache as far as it has them."""
        asked_us = self._clock.now_us()
        names = {self._entries.name(key): key for key in keys if self._may_look(key, asked_us)}
        found = await self._nodes.find(names)
        items: dict[Key, Attributes] = {}
        oldest_us = asked_us
        for name, place in found.items():
            entry = self._opened(name, place, asked_us)
            if entry is not None and entry.item is not None:
                items[names[name]] = entry.item
                oldest_us = min(oldest_us, entry.asked_us)
        missing = [key for key in keys if key not in items]
        if missing:
            asked_us = self._clock.now_us()
            read = await read_items(self._cell, missing)
            items.update(read)
            for name, place in found.items():
                if names[name] in read:
                    await self._fill(name, read[names[name]], asked_us, place)
        return Recent(items, oldest_us)

    def _opened(self, name: str, found: Found, now_us: int) -> Entry | None:
        """The entry if it serves."""
        held, counters = found.held, found.node.counters
        if held is None:
            counters.absent += 1
            return None
        entry = self._entries.open(name, held.value)
        if entry is None:
            counters.damaged += 1
        elif entry.item is None or not -AHEAD_US_MAX <= now_us - entry.asked_us < SERVES_US:
            counters.outdated += 1
        else:
            counters.hits += 1
            return entry
        return None

    async def _fill(self, name: str, item: Attributes, asked_us: int, found: Found) -> None:
        if _EXPIRES in item:
            return
        sealed = self._entries.seal(name, asked_us, item)
        if sealed is None:
            return

        def is_newer(value: bytes) -> bool:
            entry = self._entries.open(name, value)
            return entry is not None and entry.asked_us >= asked_us

        await self._nodes.fill(name, sealed, found, is_newer, ENTRY_TTL_S)

    # Own writes

    def _may_look(self, key: Key, now_us: int) -> bool:
        """Whether the cache has nothing from before a write of this front end."""
        written_us = self._own_writes_us.get(key, self._forgotten_write_us)
        return now_us - written_us >= OWN_WRITE_US

    def _note_write(self, key: Key) -> None:
        now_us = self._clock.now_us()
        writes = self._own_writes_us
        writes.pop(key, None)
        writes[key] = now_us
        while True:
            oldest = next(iter(writes))
            if len(writes) > OWN_WRITES_MAX:
                self._forgotten_write_us = max(self._forgotten_write_us, writes[oldest])
            elif now_us - writes[oldest] < OWN_WRITE_US:
                return
            del writes[oldest]

    async def _noted(self, key: Key, write: Awaitable[Written]) -> Written:
        """Make a write known, also one that failed: it may have been applied all the same."""
        self._note_write(key)
        try:
            return await write
        finally:
            self._note_write(key)
            name = self._entries.name(key)
            mark = self._entries.seal(name, self._clock.now_us(), None)
            assert mark is not None  # noqa: S101 - it is a few bytes
            await self._nodes.put(name, mark, MARK_TTL_S)

    # The port Cell

    @property
    def chooses_stamps(self) -> bool:
        """As the cell."""
        return self._cell.chooses_stamps

    @property
    def eras(self) -> Eras:
        """As of the cell."""
        return self._cell.eras

    def has_room(self, size_bytes: int) -> bool:
        """As the cell."""
        return self._cell.has_room(size_bytes)

    def settled_us(self) -> int:
        """As the cell."""
        return self._cell.settled_us()

    def now_us(self) -> int:
        """As the cell."""
        return self._cell.now_us()

    async def append(self, record: Append) -> Appended:
        """As the cell; nobody knows the item's key before, so there is no entry of it."""
        return await self._cell.append(record)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell."""
        return await self._noted(key, self._cell.put(key, attributes, condition, tallies))

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell."""
        return await self._noted(key, self._cell.update(key, change, condition, tallies))

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """As the cell."""
        return await self._noted(key, self._cell.delete(key, condition, tallies))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """As the cell."""
        return await self._cell.get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As the cell."""
        return await self._cell.get_many(keys, strong=strong)

    async def query(  # noqa: PLR0913 - the port's
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        """As the cell."""
        return await self._cell.query(
            partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
        )

    def expire(self, keys: Sequence[Key]) -> None:
        """As the cell."""
        self._cell.expire(keys)

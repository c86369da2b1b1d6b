"""A group's cell as engines see it: while a member fails, calls wait for the take-over.

The manager gives up a cell that fails within seconds. Until then a request waits, looks for a new
map, and asks again, as the adapter of a remote store does that does not answer: every write
recognises its own traces.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from control_plane.places.cached import CachedMap
from data_plane.core.deadline import deadline_at_most, deadline_us
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import Eras
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    CellFullError,
    CellThrottledError,
    CellUnavailableError,
    Clock,
    Condition,
    DeadlinePassedError,
    Item,
    Key,
    Tallies,
    Update,
    Waits,
    Written,
    no_tallies,
)
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.giving import IsNeeded
from data_plane.replication.member_cell import LeftGroupError, StalePlacementError
from data_plane.replication.placement import uid_of
from data_plane.stored.coalescing import coalesce

T = TypeVar("T")


class Interruptible(Protocol):
    """Makes a call to a group, and ends it where the group loses a member meanwhile."""

    async def __call__(self, name: str, call: Callable[[], Awaitable[T]], /) -> T:
        """What the call answers or raises. Raises StalePlacementError where it was ended."""
        ...


async def at_length(_name: str, call: Callable[[], Awaitable[T]]) -> T:
    """Wait for a call, however long it takes."""
    return await call()


TAKE_OVER_US_MAX: Final = 10_000_000
"""Twice the bound for a take-over: for so long a request waits, if its own time allows it."""

LOOK_EVERY_US: Final = 200_000
ANSWER_US: Final = 500_000
"""What a request keeps of its time to say that it has failed."""

_STALE_MAX: Final = 3


class _Desk(NamedTuple):
    """What shared looks at the map take."""

    waits: Waits
    clock: Clock


class WaitingCell:
    """Implements `data_plane.ports.Cell` over the chain or fan-out of this group.

    `heir` answers the cell of a queue that has left the group for one of its own: what is asked of
    such a queue is asked there.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a group's cell, and what it waits with
        self,
        group: str,
        inner: Chain | Fanout,
        known: CachedMap,
        clock: Clock,
        waits: Waits,
        interruptible: Interruptible = at_length,
        heir: Callable[[str], "WaitingCell"] | None = None,
    ) -> None:
        self.inner = inner
        self._heir = heir
        self._group = group
        self._interruptible = interruptible
        self._known = known
        self._clock = clock
        self._waits = waits
        self._decider = ""

    def of_queue(self, uid: str) -> "WaitingCell":
        """The cell that has this queue by now, where it is one of this group's."""
        if self._heir is None or uid not in self._known.alone(self._group):
            return self
        return self._heir(uid)

    @property
    def chooses_stamps(self) -> bool:
        """As the cell within."""
        return self.inner.chooses_stamps

    @property
    def eras(self) -> Eras:
        """As of the cell."""
        return self.inner.eras

    def has_room(self, size_bytes: int) -> bool:
        """As the cell within."""
        return self.inner.has_room(size_bytes)

    def settled_us(self) -> int:
        """As the cell within."""
        return self.inner.settled_us()

    def now_us(self) -> int:
        """As the cell within."""
        return self.inner.now_us()

    async def append(self, record: Append) -> Appended:
        """As the cell within."""
        return await self._asked(record.partition, lambda inner: inner.append(record))

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell within."""
        return await self._asked(
            key.partition, lambda inner: inner.put(key, attributes, condition, tallies)
        )

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """As the cell within."""
        return await self._asked(
            key.partition, lambda inner: inner.update(key, change, condition, tallies)
        )

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """As the cell within."""
        return await self._asked(key.partition, lambda inner: inner.delete(key, condition, tallies))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """As the cell within."""
        return await self._asked(key.partition, lambda inner: inner.get(key, strong=strong))

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """As the cell within. Keys may be of queues of which some lie alone."""
        found: dict[Key, Attributes] = {}
        for some in self._by_group(keys):
            at = self.of_queue(uid_of(some[0].partition))
            try:
                found |= await at.patiently(partial(at.inner.get_many, some, strong=strong))
            except LeftGroupError:
                if all(self.of_queue(uid_of(key.partition)) is at for key in some):
                    raise
                # One of these queues has left meanwhile, and is asked for apart by now.
                found |= await self.get_many(some, strong=strong)
        return found

    def _by_group(self, keys: Sequence[Key]) -> list[list[Key]]:
        """The keys of each queue that lies alone, and those of all others."""
        alone = self._known.alone(self._group)
        asked: dict[str, list[Key]] = {}
        for key in keys:
            uid = uid_of(key.partition) if alone else ""
            asked.setdefault(uid if uid in alone else "", []).append(key)
        return list(asked.values())

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        """As the cell within."""
        return await self._asked(
            partition,
            lambda inner: inner.query(
                partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
            ),
        )

    def expire(self, keys: Sequence[Key]) -> None:
        """As the cell within; what is unneeded of one queue is told at once."""
        if keys:
            self.of_queue(uid_of(keys[0].partition)).inner.expire(keys)

    async def drop(self, partition: str, budget: int) -> int:
        """As the cell within."""
        return await self._asked(partition, lambda inner: inner.drop(partition, budget))

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """As the cell within."""
        return await self._asked(part.partition, lambda inner: inner.drop_superfluous(part, after))

    async def complete(self, key: Key, state: Key, is_needed: IsNeeded) -> bool:
        """As `Fanout.complete`; what a chain shows is complete."""

        async def ask(inner: Chain | Fanout) -> bool:
            return not isinstance(inner, Fanout) or await inner.complete(key, state, is_needed)

        return await self._asked(key.partition, ask)

    def collects(self) -> bool:
        """As the cell within."""
        return self.inner.collects()

    async def share(self, key: Key) -> Attributes | None:
        """As `Fanout.share`; what a chain shows all members know."""

        async def ask(inner: Chain | Fanout) -> Attributes | None:
            return await (inner.share(key) if isinstance(inner, Fanout) else inner.get(key))

        return await self._asked(key.partition, ask)

    async def get_now(self, key: Key) -> Attributes | None:
        """Read an item by a map that is read now.

        By an older one a member may be asked that was dropped, and lacks what was written since.
        """

        async def ask(inner: Chain | Fanout) -> Attributes | None:
            await coalesce(_Desk(self._waits, self._clock), self._known, key, self._read_map)
            return await inner.get(key)

        return await self._asked(key.partition, ask)

    async def _read_map(self, asked: list[object]) -> list[object]:
        """One read for all who ask by then."""
        await self._known.refresh_anew()
        return asked

    async def tell(self) -> None:
        """As `Fanout.tell`, once nobody else tells it; what a chain shows all members know."""
        inner = self.inner
        if isinstance(inner, Fanout):
            with deadline_at_most(self._clock.now_us() + TAKE_OVER_US_MAX):
                await self.patiently(inner.tell)

    def decider(self) -> str:
        """As `Fanout.decider`, the last one known; what a chain shows does not depend on it."""
        if isinstance(self.inner, Fanout):
            with suppress(StalePlacementError):
                self._decider = self.inner.decider()
        return self._decider

    async def _asked(self, partition: str, ask: Callable[[Chain | Fanout], Awaitable[T]]) -> T:
        """Ask the group that has this partition's queue, and once more where it left meanwhile."""
        uid = uid_of(partition)
        at = self.of_queue(uid)
        try:
            return await at.patiently(lambda: ask(at.inner))
        except LeftGroupError:
            heir = self.of_queue(uid)
            if heir is at:
                raise
            return await heir.patiently(lambda: ask(heir.inner))

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call again while its group fails and its request has time.

        Work that no request waits for is made again by whoever does it.
        """
        begun_us = self._clock.now_us()
        stale = 0
        while True:
            try:
                return await self._interruptible(self._group, call)
            except (CellFullError, CellThrottledError, DeadlinePassedError, LeftGroupError):
                raise
            except StalePlacementError:
                stale += 1
                if stale > _STALE_MAX and not await self._wait(begun_us):
                    raise
            except CellUnavailableError:
                if not await self._wait(begun_us):
                    raise
            await self._known.try_refresh()

    async def _wait(self, begun_us: int) -> bool:
        """Let some time pass; False where the request has none."""
        until_us = deadline_us()
        now_us = self._clock.now_us()
        if until_us is None:
            return False
        if now_us + LOOK_EVERY_US >= min(until_us - ANSWER_US, begun_us + TAKE_OVER_US_MAX):
            return False
        await self._waits.sleep_until(now_us + LOOK_EVERY_US)
        return True

"""What messages and records take in tables, for quotas: as of some seconds ago.

A look at a queue reads its counters, one at a stream the ends of some of its shards
(docs/storage.md), and nothing else. It is taken only where a quota asks for it, and not again
within seconds, so what it costs does not grow with sends.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Final

from control_plane.counted_definitions import CountedDefinitions, counted
from control_plane.registry import Registry
from control_plane.service import RunningService, ServicePorts
from control_plane.streams import StreamRegistry
from data_plane.core.deadline import deadline_at_most
from data_plane.core.owned import Owned
from data_plane.core.queue import Queue
from data_plane.core.stream import Shard, Stream
from data_plane.ports import Cell, CellUnavailableError, Clock
from data_plane.stored.counting import MINUTE_US, SETTLED_US, stored_bytes
from data_plane.streams.measuring import EXPIRED_EVERY_US, Measured

LOOK_EVERY_US: Final = 10_000_000
"""So old may be what is known of a queue that is sent to."""

WHOLE_EVERY_US: Final = 60_000_000
"""Older minutes only shrink: they are read so often, and queues that nobody sends to here, too."""

KEPT_US: Final = 600_000_000
"""What was not looked at for so long counts no more."""

QUEUES_PER_STEP: Final = 10
"""Queues, or looks at streams, of a step."""

SHARDS_PER_LOOK: Final = 10
QUEUES_MAX: Final = 20_000
SHARDS_MAX: Final = 100_000
"""So many queues and streams are known, and shards of all of these."""

_PATIENCE_US: Final = 1_000_000
_PAGE: Final = 500

_Name = tuple[bool, str, str, str]
"""Whether it is a stream; its account, region and name."""

Measure = Callable[[Stream, Mapping[Shard, Measured]], Awaitable[None]]
"""Looks anew at shards of a stream. Raises CellUnavailableError."""


@dataclass(slots=True)
class _Known:
    """What is known of a queue: bytes sent before `recent_us` and in all, as of `looked_us`.

    Of a stream it is what is known of its `shards`, by number; of some of those that there are
    where it is `partial`.
    """

    account: str
    looked_us: int
    shards: dict[int, Measured] = field(default_factory=dict)
    partial: bool = False
    whole_us: int = 0
    purged_us: int = 0
    recent_us: int = 0
    older_bytes: int = 0
    total_bytes: int = 0


class StoredOnTables:
    """Implements `data_plane.frontend.storing.StorageUse` over tables.

    `cell_of` is where a queue's messages lie, `regions_of` where an account has queues, or streams;
    shards are looked at by `look_at`. Without `measure`, an account has what lies in those that
    were sent to here.
    """

    capacity_bytes = 0

    def __init__(  # noqa: PLR0913, PLR0917 - ports
        self,
        cell_of: Callable[[Queue], Cell],
        registry: Callable[[], Registry],
        streams: Callable[[], StreamRegistry],
        look_at: Measure,
        regions_of: Callable[[str], Awaitable[Iterable[str]]],
        clock: Clock,
    ) -> None:
        self._cell_of = cell_of
        self._registry = registry
        self._streams = streams
        self._look_at = look_at
        self._regions_of = regions_of
        self._clock = clock
        # The one that was looked at longest ago comes first.
        self._known: dict[str, _Known] = {}
        self._shards = 0
        self._of_accounts: dict[str, int] = {}
        self._asked: dict[str, tuple[int, set[str]]] = {}
        self._round: deque[_Name] = deque()
        self._round_us = 0

    def met(self, owned: Owned) -> None:
        """Nothing: who may store without a limit is not looked at."""

    async def of_one(self, owned: Queue | Stream) -> int:
        """What its messages, or records, take; at first, and where it is long ago, by a look."""
        await self._look_after(owned)
        known = self._known.get(owned.uid)
        return known.total_bytes if known is not None else 0

    async def of_account(self, owned: Queue | Stream) -> int:
        """What all queues and streams of its account have, as far as is known."""
        _, regions = self._asked.get(owned.account, (0, set()))
        regions.add(owned.region)
        self._asked[owned.account] = (self._clock.now_us(), regions)
        await self._look_after(owned)
        return self._of_accounts.get(owned.account, 0)

    async def measure(self) -> None:
        """Look at some of what accounts have that are held to a quota; due every second.

        Raises CellUnavailableError.
        """
        now_us = self._clock.now_us()
        if not self._round and not 0 <= now_us - self._round_us < WHOLE_EVERY_US:
            self._round_us = now_us
            self._round.extend(await self._asked_for(now_us))
        for _ in range(QUEUES_PER_STEP):
            if not self._round:
                return
            is_stream, *name = one = self._round.popleft()
            found = await (self._streams() if is_stream else self._registry()).find(*name)
            if found is not None:
                await self._look_after(found)
                if self._is_partial(found):
                    self._round.append(one)

    def _is_partial(self, owned: Queue | Stream) -> bool:
        known = self._known.get(owned.uid)
        return known is not None and known.partial

    async def _asked_for(self, now_us: int) -> list[_Name]:
        found: list[_Name] = []
        for account, (asked_us, seen) in list(self._asked.items()):
            if not 0 <= now_us - asked_us < KEPT_US:
                del self._asked[account]
                continue
            for region in sorted(seen.union(await self._regions_of(account))):
                after = ""
                while names := await self._registry().names(
                    account, region, prefix="", after=after, limit=_PAGE
                ):
                    found += [(False, account, region, name) for name in names]
                    after = names[-1]
                after = ""
                while names := await self._streams().names(
                    account, region, after=after, limit=_PAGE
                ):
                    found += [(True, account, region, name) for name in names]
                    after = names[-1]
        return found

    async def _look_after(self, owned: Queue | Stream) -> None:
        """Look at it unless somebody did, or does, within LOOK_EVERY_US."""
        now_us = self._clock.now_us()
        known = self._known.get(owned.uid)
        is_recent = known is not None and 0 <= now_us - known.looked_us < LOOK_EVERY_US
        if is_recent and not self._is_partial(owned):
            return
        self._forget(now_us)
        known = self._known.pop(owned.uid, None) or _Known(owned.account, now_us)
        known.looked_us = now_us
        self._known[owned.uid] = known
        try:
            with deadline_at_most(now_us + _PATIENCE_US):
                if isinstance(owned, Stream):
                    await self._look_at_shards(owned, known, now_us)
                else:
                    await self._look(owned, known, now_us)
        except CellUnavailableError:
            return  # what was known serves, and the send finds out by itself

    async def _look(self, queue: Queue, known: _Known, now_us: int) -> None:
        cell, since_us = self._cell_of(queue), known.recent_us
        is_whole = not 0 <= now_us - known.whole_us < WHOLE_EVERY_US
        if is_whole or known.purged_us != queue.purged_us:
            since_us = cell.eras.before_us(now_us, queue.retention_s * 1_000_000)
            is_whole = True
        minutes = await stored_bytes(cell, queue, since_us)
        if is_whole:
            known.whole_us, known.purged_us = now_us, queue.purged_us
            known.recent_us = now_us - SETTLED_US
            first = known.recent_us // MINUTE_US
            known.older_bytes = sum(size for minute, size in minutes.items() if minute < first)
        first = known.recent_us // MINUTE_US
        recent_bytes = sum(size for minute, size in minutes.items() if minute >= first)
        if self._known.get(queue.uid) is known:
            self._set(known, known.older_bytes + recent_bytes)

    async def _look_at_shards(self, stream: Stream, known: _Known, now_us: int) -> None:
        """Look at some shards of the stream: first at those that nobody has looked at."""
        there = {one.number: one for one in stream.shards if not one.was_never_open}
        for number in known.shards.keys() - there.keys():
            del known.shards[number]
            self._shards -= 1

        def looked_us(shard: Shard) -> int:
            measured = known.shards.get(shard.number)
            return measured.looked_us if measured is not None else 0

        chosen: dict[Shard, Measured] = {}
        # Those of which nothing is due keep nobody from being looked at.
        due = [one for one in there.values() if _is_due(one, looked_us(one), now_us)]
        for shard in nsmallest(SHARDS_PER_LOOK, due, key=looked_us):
            self._shards += shard.number not in known.shards
            chosen[shard] = known.shards.setdefault(shard.number, Measured())
            chosen[shard].looked_us = now_us
        known.partial = len(known.shards) < len(there)
        try:
            await self._look_at(stream, chosen)
        finally:
            if self._known.get(stream.uid) is known:
                self._set(known, sum(one.stored_bytes for one in known.shards.values()))

    def _set(self, known: _Known, total_bytes: int) -> None:
        held = self._of_accounts.get(known.account, 0) + total_bytes - known.total_bytes
        known.total_bytes = total_bytes
        if held:
            self._of_accounts[known.account] = held
        else:
            self._of_accounts.pop(known.account, None)

    def _forget(self, now_us: int) -> None:
        """Let go of what was looked at too long ago, and of the oldest where that is too much."""
        while self._known:
            uid, oldest = next(iter(self._known.items()))
            has_room = len(self._known) < QUEUES_MAX and self._shards < SHARDS_MAX
            if has_room and 0 <= now_us - oldest.looked_us < KEPT_US:
                return
            self._set(oldest, 0)
            self._shards -= len(oldest.shards)
            del self._known[uid]


def _is_due(shard: Shard, looked_us: int, now_us: int) -> bool:
    # Of a closed shard nothing changes but what expires, once all that came to it was seen.
    has_settled = not shard.is_open and looked_us >= shard.closed_us + LOOK_EVERY_US
    age_us = EXPIRED_EVERY_US if has_settled else LOOK_EVERY_US
    return not 0 <= now_us - looked_us < age_us


def held_on_tables(ground: ServicePorts, service: Callable[[], RunningService]) -> ServicePorts:
    """The ground of a service on tables, with what holds accounts to their quotas."""
    fifo_cells = ground.fifo_cells or ground.cells

    async def regions_of(account: str) -> Iterable[str]:
        return await counted(ground.control, account)

    async def look_at(stream: Stream, known: Mapping[Shard, Measured]) -> None:
        await service().streams.engine.measure(stream, known)

    return replace(
        ground,
        stored=StoredOnTables(
            lambda queue: (fifo_cells if queue.is_log else ground.cells)[queue.cell],
            lambda: service().registry,
            lambda: service().streams.registry,
            look_at,
            regions_of,
            ground.clock,
        ),
        room_by=lambda quotas: CountedDefinitions(quotas, ground.control),
    )

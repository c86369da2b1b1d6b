"""What messages take in tables, for quotas: by counters of queues, as of some seconds ago.

A look at a queue reads its counters (docs/storage.md) and nothing else. It is taken only where a
quota asks for it, and not again within seconds, so what it costs does not grow with sends.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from control_plane.counted_definitions import CountedDefinitions, counted
from control_plane.registry import Registry
from control_plane.service import ServicePorts
from data_plane.core.deadline import deadline_at_most
from data_plane.core.owned import Owned
from data_plane.core.queue import Queue
from data_plane.core.stream import Stream
from data_plane.ports import Cell, CellUnavailableError, Clock
from data_plane.stored.counting import MINUTE_US, SETTLED_US, stored_bytes

LOOK_EVERY_US: Final = 10_000_000
"""So old may be what is known of a queue that is sent to."""

WHOLE_EVERY_US: Final = 60_000_000
"""Older minutes only shrink: they are read so often, and queues that nobody sends to here, too."""

KEPT_US: Final = 600_000_000
"""What was not looked at for so long counts no more."""

QUEUES_PER_STEP: Final = 10
QUEUES_MAX: Final = 20_000
_PATIENCE_US: Final = 1_000_000
_PAGE: Final = 500

_Name = tuple[str, str, str]


@dataclass(slots=True)
class _Known:
    """What is known of a queue: bytes sent before `recent_us` and in all, as of `looked_us`."""

    account: str
    looked_us: int
    whole_us: int = 0
    purged_us: int = 0
    recent_us: int = 0
    older_bytes: int = 0
    total_bytes: int = 0


class StoredOnTables:
    """Implements `data_plane.frontend.storing.StorageUse` over tables.

    `cell_of` is where a queue's messages lie, `regions_of` where an account has queues. Without
    `measure`, an account has what lies in the queues that were sent to here.
    """

    capacity_bytes = 0

    def __init__(
        self,
        cell_of: Callable[[Queue], Cell],
        registry: Callable[[], Registry],
        regions_of: Callable[[str], Awaitable[Iterable[str]]],
        clock: Clock,
    ) -> None:
        self._cell_of = cell_of
        self._registry = registry
        self._regions_of = regions_of
        self._clock = clock
        # The one that was looked at longest ago comes first.
        self._known: dict[str, _Known] = {}
        self._of_accounts: dict[str, int] = {}
        self._asked: dict[str, tuple[int, set[str]]] = {}
        self._round: deque[_Name] = deque()
        self._round_us = 0

    def met(self, owned: Owned) -> None:
        """Nothing: who may store without a limit is not looked at."""

    async def of_one(self, owned: Queue | Stream) -> int:
        """What the queue's messages take; at first, and where it is long ago, by a look.

        Nobody counts what streams have in tables.
        """
        if isinstance(owned, Stream):
            return 0
        await self._look_after(owned, LOOK_EVERY_US)
        return self._known[owned.uid].total_bytes

    async def of_account(self, owned: Queue | Stream) -> int:
        """What the messages of all queues of its account take, as far as is known."""
        _, regions = self._asked.get(owned.account, (0, set()))
        regions.add(owned.region)
        self._asked[owned.account] = (self._clock.now_us(), regions)
        if not isinstance(owned, Stream):
            await self._look_after(owned, LOOK_EVERY_US)
        return self._of_accounts.get(owned.account, 0)

    async def measure(self) -> None:
        """Look at some of the queues of accounts that are held to a quota; due every second.

        Raises CellUnavailableError.
        """
        now_us = self._clock.now_us()
        if not self._round and not 0 <= now_us - self._round_us < WHOLE_EVERY_US:
            self._round_us = now_us
            self._round.extend(await self._queues_asked_for(now_us))
        for _ in range(min(QUEUES_PER_STEP, len(self._round))):
            queue = await self._registry().find(*self._round.popleft())
            if queue is not None:
                await self._look_after(queue, LOOK_EVERY_US)

    async def _queues_asked_for(self, now_us: int) -> list[_Name]:
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
                    found += [(account, region, name) for name in names]
                    after = names[-1]
        return found

    async def _look_after(self, queue: Queue, age_us: int) -> None:
        """Look at the queue unless somebody did, or does, within this time."""
        now_us = self._clock.now_us()
        known = self._known.get(queue.uid)
        if known is not None and 0 <= now_us - known.looked_us < age_us:
            return
        self._forget(now_us)
        known = self._known.pop(queue.uid, None) or _Known(queue.account, now_us)
        known.looked_us = now_us
        self._known[queue.uid] = known
        try:
            with deadline_at_most(now_us + _PATIENCE_US):
                await self._look(queue, known, now_us)
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

    def _set(self, known: _Known, total_bytes: int) -> None:
        held = self._of_accounts.get(known.account, 0) + total_bytes - known.total_bytes
        known.total_bytes = total_bytes
        if held:
            self._of_accounts[known.account] = held
        else:
            self._of_accounts.pop(known.account, None)

    def _forget(self, now_us: int) -> None:
        """Let go of what was looked at too long ago, and of the oldest beyond QUEUES_MAX."""
        while self._known:
            uid, oldest = next(iter(self._known.items()))
            if 0 <= now_us - oldest.looked_us < KEPT_US and len(self._known) < QUEUES_MAX:
                return
            self._set(oldest, 0)
            del self._known[uid]


def held_on_tables(ground: ServicePorts, registry: Callable[[], Registry]) -> ServicePorts:
    """The ground of a service on tables, with what holds accounts to their quotas."""
    fifo_cells = ground.fifo_cells or ground.cells

    async def regions_of(account: str) -> Iterable[str]:
        return await counted(ground.control, account)

    return replace(
        ground,
        stored=StoredOnTables(
            lambda queue: (fifo_cells if queue.is_log else ground.cells)[queue.cell],
            registry,
            regions_of,
            ground.clock,
        ),
        room_by=lambda quotas: CountedDefinitions(quotas, ground.control),
    )

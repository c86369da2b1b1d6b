"""The sweep: what deleted queues and purges leave behind in cells goes, a bounded step at a time.

What is to go is stored (docs/storage.md, "Deleted queue", "Purge"), so a step may be cut off
anywhere, and any server may make the next one.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.core.to_drop import ToDrop, was_sent_to
from control_plane.drop_turn import DropTurn
from control_plane.last_known import LAST_KNOWN_US_MAX
from control_plane.registry import Registry
from data_plane.core.dropping import Dropping, DroppingAll, Superfluous
from data_plane.core.errors import QUEUE_DOES_NOT_EXIST, RefusedError
from data_plane.core.queue import Queue
from data_plane.ports import Cell, CellUnavailableError, Clock, Waits
from data_plane.stored.keys import (
    log_partitions,
    marks,
    partitions,
    reader_states_named,
    stream_partitions,
)
from data_plane.stored.sent_minutes import ALWAYS_US, SentTo, sent_to
from data_plane.stored.superfluous import superfluous

SWEPT_AFTER_US: Final = LAST_KNOWN_US_MAX + 300_000_000
"""Until then a front end that cannot reach the registry may still write to the queue."""

ITEMS_PER_STEP_MAX: Final = 1_000
WORK_US: Final = 500_000
"""For so long a server drops, of every second; between two writes it lets requests pass."""

PAUSE_US: Final = 5_000
PAID_WORK_US: Final = 1_000_000
"""As WORK_US, where a step waits for another machine and holds up nobody."""

IDLE_US: Final = 30_000_000
"""Where looking is paid for and nothing was due, the next look is so much later."""

AGAIN_US: Final = 60_000_000
"""When a purge of which not all could be dropped is gone over once more."""

_QUEUES_PER_STEP_MAX: Final = 10
_MARKS: Final = 100

Restamp = Callable[[Queue], Awaitable[None]]
"""Lets what a queue has stored live as long as its retention asks for."""

NoteSent = Callable[[SentTo, int], Awaitable[int]]
"""Sees that what was sent to a queue up to a stamp is known without its messages; up to where it
is."""


async def note_nothing(_to: SentTo, _until_us: int) -> int:
    """Where nobody counts what is sent."""
    return ALWAYS_US


async def restamp_nothing(_queue: Queue) -> None:
    """Where there are no messages."""


class DeletedQueues:
    """Removes what queues that were deleted `after_us` ago, or before, left behind in `cells`.

    Until then a front end may still write to them. Several servers may do it, and be cut off
    anywhere.
    """

    def __init__(
        self, registry: Registry, cells: Mapping[str, Cell], after_us: int = SWEPT_AFTER_US
    ) -> None:
        self._registry = registry
        self._cells = cells
        self._after_us = after_us
        self._position = b""
        self.failed: dict[str, CellUnavailableError] = {}
        """What cells answered that are not asked until this is cleared."""

    async def remove(
        self,
        now_us: int,
        items_max: int = ITEMS_PER_STEP_MAX,
        note_sent: NoteSent = note_nothing,
    ) -> int:
        """Remove up to `items_max` items of the next few queues; how many it were.

        A queue whose cell has no ledger waits until it is noted what was sent to it. One that has
        to wait, or whose cell does not answer, holds up no other one. Raises CellUnavailableError
        where the registry does not answer.
        """
        removed = 0
        page = await self._registry.dropped(_QUEUES_PER_STEP_MAX, self._position)
        due = [queue for queue in page if now_us - queue.since_us >= self._after_us]
        for queue in due:
            try:
                removed += await self._remove(queue, items_max - removed, note_sent)
            except CellUnavailableError as error:
                self.failed[queue.cell] = error
            if removed >= items_max:
                return removed
        self._position = due[-1].key.sort if len(due) == _QUEUES_PER_STEP_MAX else b""
        return removed

    async def _remove(self, queue: ToDrop, items_max: int, note_sent: NoteSent) -> int:
        if queue.cell in self.failed:
            return 0
        removed = 0
        if not await self._registry.is_there(queue):
            cell = self._cells[queue.cell]
            if not (cell.chooses_stamps or queue.is_stream):
                known_us = await note_sent(was_sent_to(queue), ALWAYS_US)
                if known_us < queue.since_us + self._after_us:
                    return 0  # What requests under way have sent until then may not be known yet.
            removed = await _empty(cell, queue, items_max)
        if removed < items_max:
            # Where the queue is still there its deletion was cut off at the start: all is as was.
            await self._registry.swept(queue)
        return removed


async def _empty(cell: Cell, queue: ToDrop, budget: int) -> int:
    """Remove items of the queue; fewer than `budget` means that none is left."""
    removed = 0
    for partition in (*await _of_shards(cell, queue), *_partitions_of(queue)):
        while removed < budget:
            count = await _drop(cell, partition, budget - removed)
            if count == 0:
                break
            removed += count
    return removed


async def _of_shards(cell: Cell, queue: ToDrop) -> tuple[str, ...]:
    """What a queue over a stream has for the shards of which it has a low-water mark."""
    if not queue.reads_stream:
        return ()
    partitions: list[str] = []
    after = b""
    while page := await cell.query(marks(queue.uid), after=after, limit=_MARKS):
        partitions += [reader_states_named(queue.uid, item.key.sort.decode()) for item in page]
        after = page[-1].key.sort
    return tuple(partitions)


def _partitions_of(queue: ToDrop) -> tuple[str, ...]:
    if queue.is_stream:
        return stream_partitions(queue.uid, queue.shards)
    return (*partitions(queue.uid), *log_partitions(queue.uid, queue.generations))


async def _drop(cell: Cell, partition: str, budget: int) -> int:
    if isinstance(cell, DroppingAll):
        return await cell.drop(partition, budget)
    items = await cell.query(partition, limit=budget)
    for item in items:
        await cell.delete(item.key)
    return len(items)


@dataclass(slots=True)
class _Pass:
    """One going over what a purge has made superfluous: what is left of it."""

    parts: list[Superfluous]
    until_us: int
    after: bytes = b""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Paid:
    """How items are dropped from cells that charge for each.

    `items_per_s` of what purges have made superfluous, and of deleted queues; with 0 the former is
    left to its time to live. Only who has the `turn` drops.
    """

    items_per_s: int
    turn: DropTurn

    @property
    def rate(self) -> int:
        """Items a second."""
        return self.items_per_s or ITEMS_PER_STEP_MAX


class Sweep:
    """What one front end drops beside requests.

    `cells` and `fifo_cells` are those of standard and of FIFO queues. It waits for `after_us`, when
    no request of before is under way any more. `paid` is for cells that charge for what is dropped.
    `restamp` is asked once no front end sends by the definition of before a raised retention.
    """

    def __init__(  # noqa: PLR0913 - its ports, and when it may begin
        self,
        registry: Registry,
        cells: Mapping[str, Cell],
        fifo_cells: Mapping[str, Cell],
        clock: Clock,
        waits: Waits,
        *,
        after_us: int = SWEPT_AFTER_US,
        paid: Paid | None = None,
        restamp: Restamp = restamp_nothing,
    ) -> None:
        self._registry = registry
        self._deleted = DeletedQueues(registry, fifo_cells, after_us)
        self._cells = cells
        self._fifo_cells = fifo_cells
        self._clock = clock
        self._waits = waits
        self._after_us = after_us
        self._passes: dict[bytes, _Pass] = {}
        self._again_us: dict[bytes, int] = {}
        self._position = b""
        self._met: set[bytes] = set()
        self._paid = paid
        self._restamp = restamp
        self._room = 0
        self._idle_until_us = 0
        self.note_sent: NoteSent = note_nothing
        """Asked before anything is dropped from a cell without a ledger of sends."""
        self.next_us = 0
        """When the pace allows the next step."""
        self.is_cut_off = False
        """Whether the last step ended because its time or its items were used up."""

    async def step(self) -> int:
        """Drop for a bounded time, at the pace where it is paid for; how many. Due every second.

        Raises CellUnavailableError, when it has looked after what others could be dropped of.
        """
        paid = self._paid
        if paid is None:
            return await self._step(self._clock.now_us() + WORK_US)
        began_us = self._clock.now_us()
        if began_us < self.next_us:
            return 0
        self.is_cut_off = False
        if began_us < self._idle_until_us <= began_us + IDLE_US:
            return 0
        if not await self.has_work():
            self._idle_until_us = began_us + IDLE_US
            return 0
        if not await paid.turn.take():
            return 0
        self._room = paid.rate
        try:
            return await self._step(began_us + PAID_WORK_US)
        finally:
            spent = paid.rate - self._room
            self.next_us = began_us + spent * 1_000_000 // paid.rate

    async def has_work(self) -> bool:
        """Whether anything may be dropped by now. Raises CellUnavailableError."""
        now_us = self._clock.now_us()
        firsts = [*await self._registry.dropped(1), *await self._registry.purges(1)]
        return any(now_us - one.since_us >= self._after_us for one in firsts)

    async def _step(self, until_us: int) -> int:
        failure: CellUnavailableError | None = None
        dropped = 0
        try:
            dropped += await self._drop_deleted(until_us)
        except CellUnavailableError as error:
            failure = error
        purges = await self._registry.purges(_QUEUES_PER_STEP_MAX, self._position)
        self._met.update(purge.key.sort for purge in purges)
        due = [p for p in purges if self._clock.now_us() - p.since_us >= self._after_us]
        for purge in due:
            now_us = self._clock.now_us()
            if now_us >= until_us or self._is_spent():
                self.is_cut_off = True
                break
            if now_us < self._again_us.get(purge.key.sort, 0):
                continue
            try:
                dropped += await self._purged(purge, until_us)
            except CellUnavailableError as error:
                self._again(purge)
                failure = error
            except RefusedError as refusal:
                if refusal.fault != QUEUE_DOES_NOT_EXIST:
                    raise
                self._again(purge)  # It is being deleted.
        else:
            # The others have their turn, too, where these have to wait.
            self._position = due[-1].key.sort if len(due) == _QUEUES_PER_STEP_MAX else b""
            if not self._position:
                self._forget_others()
        if failure is not None:
            raise failure
        return dropped

    async def _drop_deleted(self, until_us: int) -> int:
        dropped = 0
        self._deleted.failed.clear()
        while (now_us := self._clock.now_us()) < until_us and not self._is_spent():
            items_max = ITEMS_PER_STEP_MAX if self._paid is None else self._room
            count = await self._deleted.remove(now_us, items_max, self.note_sent)
            dropped += count
            self._room -= count
            if count == 0:
                break
            if self._paid is None:
                await self._waits.sleep_until(self._clock.now_us() + PAUSE_US)
        else:
            self.is_cut_off = True
        for failure in self._deleted.failed.values():
            raise failure
        return dropped

    def _is_spent(self) -> bool:
        return self._paid is not None and self._room <= 0

    async def _purged(self, purge: ToDrop, until_us: int) -> int:
        """Go on with a purge; how many items were dropped."""
        registry = self._registry
        definition = await registry.read(purge.account, purge.region, purge.name)
        if definition is None or definition.uid != purge.uid:
            await registry.purge_dropped(purge)  # its messages go as those of a deleted queue
            return 0
        if purge.was_raised:
            await self._restamp(registry.queue(definition))
            await registry.purge_dropped(purge)
            return 0
        cell = (self._fifo_cells if definition.is_log else self._cells)[definition.cell]
        is_left = self._paid is not None and not self._paid.items_per_s
        if is_left or not isinstance(cell, Dropping):
            await registry.purge_dropped(purge)  # they are left to their time to live
            return 0
        # Requests of before a later purge may be under way still: it has its own turn.
        purged_us = min(definition.purged_us, purge.purged_us)
        under_way = self._passes.get(purge.key.sort)
        if under_way is None:
            queue, limit_us = registry.queue(definition), purged_us
            if not cell.chooses_stamps:
                limit_us = min(purged_us, await self.note_sent(sent_to(queue), purged_us))
            parts = await superfluous(cell, queue, limit_us)
            under_way = self._passes[purge.key.sort] = _Pass(parts, limit_us)
        dropped = await self._go_on(cell, under_way, until_us)
        if not under_way.parts:
            del self._passes[purge.key.sort]
            if under_way.whole and under_way.until_us == purged_us:
                await registry.purge_dropped(purge)
            else:
                self._again(purge)
        return dropped

    async def _go_on(self, cell: Dropping, under_way: _Pass, until_us: int) -> int:
        items = 0
        while under_way.parts and self._clock.now_us() < until_us and not self._is_spent():
            step = await cell.drop_superfluous(under_way.parts[0], under_way.after)
            items += step.items
            under_way.after = step.position
            under_way.whole &= step.whole
            # Keeping costs a read unit for 4 KB, and dropping a write unit for one.
            self._room -= step.items or 1
            if not step.position:
                del under_way.parts[0]
            if self._paid is None:
                await self._waits.sleep_until(self._clock.now_us() + PAUSE_US)
        if under_way.parts:
            self.is_cut_off = True
        return items

    def _again(self, purge: ToDrop) -> None:
        self._again_us[purge.key.sort] = self._clock.now_us() + AGAIN_US

    def _forget_others(self) -> None:
        """What was not met since this was done last is a purge no more."""
        for memory in (self._passes, self._again_us):
            for sort in memory.keys() - self._met:
                del memory[sort]
        self._met.clear()

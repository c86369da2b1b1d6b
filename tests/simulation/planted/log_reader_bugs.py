"""Planted bugs of FIFO queues' logs, those of readers: claims, groups, handles, collection."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from data_plane.core.eras import Eras
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import (
    attempts,
    claims,
    deleting,
    leases,
    reader,
    reading,
    receiving,
    visibility,
    window,
)
from data_plane.log.block import Block, Finished, Pending
from data_plane.log.bounds import COLLECT_AFTER_US, FOREIGN_LEASE_GUARD_MS
from data_plane.log.claims import Claims
from data_plane.log.desk import Access
from data_plane.log.held_slots import HeldSlots
from data_plane.log.reader import Reader
from data_plane.ports import Attributes, Update
from data_plane.stored.lease import Lease, from_bytes
from data_plane.stored.segment import number
from tests.simulation.fifo.plan import make_fifo_plan
from tests.simulation.planted.log_bugs import FifoBug

DELIVERED = frozenset({"acknowledged is delivered"})
DELETED = frozenset({"deletes last"})
VISIBILITY = frozenset({"visibility is respected"})
COUNTS = frozenset({"receive counts grow"})
HELD = frozenset({"a group is held"})
ORDER = frozenset({"groups stay in order"})
INTACT = frozenset({"messages are intact"})
DELAYS = frozenset({"delays are respected"})
EXPIRED = frozenset({"the expired stay away"})
PURGED = frozenset({"the purged stay away"})
GOOD = frozenset({"good handles are accepted"})
OLD = frozenset({"old handles are refused"})
BUDGETS = frozenset({"budgets are kept"})
BREAKS = frozenset({"nothing breaks"})

NEVER: Final = 1 << 62
OPEN_SLOTS_MAX: Final = 4

_take_of = Reader._take_of
_take = Reader.take
_closed_ranges = Reader.closed_ranges
_claim = receiving._claim
_lease_of = Claims._lease
_delete = deleting.delete


# Claims


def _no_condition(*_: object) -> tuple[()]:
    return ()


def _claimable_past_others(
    at: Access, wanted: list[Pending], loaded: dict[int, Message]
) -> list[Pending]:
    """A message is left out where it is not free; those behind it are not."""
    now_ms = at.now_ms()
    return [
        message
        for message in wanted
        if not message.done
        and message.index in loaded
        and receiving._free_ms(at, message) <= now_ms
    ]


def _take_around(  # noqa: PLR0913 - as Reader._take_of
    self: Reader, queue: Queue, group: bytes, count: int, now_ms: int, *, across: bool
) -> list[Pending]:
    """What is in flight of a group holds nothing."""
    taken: list[Pending] = []
    for message in self.groups.get(group, ()):
        if message.done or message.taken or self.free_ms(queue, message) > now_ms:
            continue
        if len(taken) == count:
            break
        message.taken = True
        taken.append(message)
    if not taken:
        _take_of(self, queue, group, count, now_ms, across=across)
    return taken


def _take_beside_earlier(
    self: Reader, queue: Queue, count: int, now_us: int, _earlier: Sequence[Reader] = ()
) -> list[Pending]:
    return _take(self, queue, count, now_us)


async def _claim_backwards(*args: Any) -> list[Delivery]:
    return (await _claim(*args))[::-1]


def _free_at_once(_lease: Lease, _writer: bytes, _guard_ms: int) -> int:
    return 0


def _lease_without_count(
    self: Any, pending: Pending, now_ms: int, visible_ms: int, token: bytes
) -> Lease:
    return _lease_of(self, pending, now_ms, visible_ms, token)._replace(receive_count=1)


# Handles


def _anybody_may_delete(
    _at: Access, _state: Attributes | None, _handle: ReceiptHandle, _now_ms: int
) -> None:
    return None


def _update_without_set(
    assign: Attributes, add: Attributes, remove: frozenset[str] = frozenset()
) -> Update:
    del add
    return Update(assign=assign, remove=remove)


async def _delete_in_memory(desk: Any, queue: Queue, handles: Sequence[ReceiptHandle]) -> list[Any]:
    for handle in handles:
        partition = desk.partition(queue, handle.lane, handle.epoch)
        block = partition.reader.blocks.get(leases.place_in(partition.queue, handle)[2])
        if block is None:
            return await _delete(desk, queue, handles)
        partition.reader.gone(block, [handle.index], desk.clock.now_us())
    return [None] * len(handles)


async def _delete_one_by_one(
    desk: Any, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[Any]:
    return [(await _delete(desk, queue, [handle]))[0] for handle in handles]


async def _remembered_state(
    at: Access, block: int, handles: Collection[ReceiptHandle]
) -> Attributes | None:
    """From memory where the messages are known to be leased, to whomever."""
    known = at.partition.reader.blocks.get(block)
    if known is not None and all(handle.index in known.leases for handle in handles):
        return {f"m{handle.index}": known.leases[handle.index] for handle in handles}
    return await at.cell.get(at.partition.state_key(block))


# What is done


def _low_at_the_cursor(self: Reader) -> int:
    return self.cursor


def _ranges_too_wide(self: Reader) -> list[tuple[int, int]]:
    return [(first, last + 1) for first, last in _closed_ranges(self)]


def _ranges_to_the_cursor(self: Reader) -> list[tuple[int, int]]:
    """As if nothing lay behind the open slots that were looked at."""
    opened = list(self.open_slots)[:OPEN_SLOTS_MAX]
    whole = self.open_slots
    try:
        self.open_slots = type(whole)((slot, whole[slot]) for slot in opened)
        return _closed_ranges(self)
    finally:
        self.open_slots = whole


def _leave_when_total_is_known(self: Reader, block: Block, now_us: int) -> None:
    """A block is forgotten though not all of it was read."""
    if block.pending or block.total is None:
        return
    if self.blocks.pop(block.first, None) is not None and len(block.done) == block.total:
        due_us = now_us + COLLECT_AFTER_US
        self.finished.append(Finished(due_us, block.first, block.last, ()))


def _pop_what_is_held(self: HeldSlots, slot: int) -> None:
    self.bytes -= number(self._held.pop(slot).item, "y")


# Delay, expiry, purges, sequence numbers


def _free_without_delay(self: Reader, _queue: Queue, message: Pending) -> int:
    stored = message.block.leases.get(message.index)
    if stored is None:
        return 0
    return from_bytes(stored).free_ms(self.writer, FOREIGN_LEASE_GUARD_MS)


def _never_expired(queue: Queue, stamp_us: int, _now_us: int, _eras: Eras) -> bool:
    return stamp_us <= queue.purged_us


def _never_purged(queue: Queue, stamp_us: int, now_us: int, _eras: Eras) -> bool:
    return stamp_us + queue.retention_s * 1_000_000 <= now_us


def _sequence_of_the_slot(stamp_us: int, partition: int, _position: int) -> int:
    return window.sequence_number(stamp_us, partition, 0)


def _over(wrong: Callable[[Queue, int, int, Eras], bool]) -> tuple[tuple[Any, str, Any], ...]:
    return tuple((where, "is_over", wrong) for where in (reader, receiving, attempts))


def _ages_are_real(seed: int) -> bool:
    plan = make_fifo_plan(seed)
    return plan.haste == 1 and plan.stamps


LOG_READER_BUGS: Final = (
    FifoBug(
        "claims without a condition",
        VISIBILITY | HELD,
        ((claims, "unchanged", _no_condition),),
        first=20,
    ),
    FifoBug("leases end at once", VISIBILITY, ((Lease, "free_ms", _free_at_once),), first=5),
    FifoBug("receive count not carried", COUNTS, ((Claims, "_lease", _lease_without_count),)),
    FifoBug(
        "messages are claimed without those before them",
        HELD,
        ((receiving, "_claimable", _claimable_past_others),),
        first=24,
    ),
    FifoBug(
        "what is in flight holds no group", HELD, ((Reader, "_take_of", _take_around),), first=7
    ),
    FifoBug(
        "earlier generations hold no group",
        HELD,
        ((Reader, "take", _take_beside_earlier),),
        first=8,
    ),
    FifoBug("claims are handed out backwards", ORDER, ((receiving, "_claim", _claim_backwards),)),
    FifoBug("delete with any handle", OLD, ((deleting, "_judge", _anybody_may_delete),)),
    FifoBug(
        "delete forgets the set", DELETED, ((deleting, "Update", _update_without_set),), first=9
    ),
    FifoBug(
        "delete in memory only",
        DELETED | DELIVERED,
        ((deleting, "delete", _delete_in_memory),),
        first=9,
    ),
    FifoBug("deletes one by one", BUDGETS, ((deleting, "delete", _delete_one_by_one),), first=7),
    FifoBug(
        "handles are judged by what is remembered",
        GOOD,
        ((leases, "state_of", _remembered_state),),
        first=23,
    ),
    FifoBug(
        "visibility is changed under a lease that is over",
        COUNTS | VISIBILITY,
        ((visibility, "unchanged", _no_condition),),
        first=36,
    ),
    FifoBug(
        "low-water mark past what is open",
        DELIVERED,
        ((Reader, "low", property(_low_at_the_cursor)),),
        first=20,
    ),
    FifoBug(
        "closed ranges are too wide",
        DELIVERED,
        ((Reader, "closed_ranges", _ranges_too_wide),),
        first=191,
    ),
    FifoBug(
        "closed ranges reach beyond what was looked at",
        DELIVERED | HELD,
        ((Reader, "closed_ranges", _ranges_to_the_cursor),),
        first=206,
    ),
    FifoBug(
        "blocks are collected at once, and claims are never too old",
        DELETED,
        (
            (reader, "COLLECT_AFTER_US", 0),
            (claims, "COLLECT_AFTER_US", NEVER),
            (reading, "COLLECT_AFTER_US", NEVER),
            (reading, "CLAIM_AGE_US_MAX", NEVER),
        ),
        936,
        _ages_are_real,
    ),
    FifoBug(
        "a block is forgotten before all of it was read",
        DELIVERED | DELETED,
        ((Reader, "_leave", _leave_when_total_is_known),),
        first=202,
    ),
    FifoBug(
        "a slot is let go of twice", BREAKS, ((HeldSlots, "_pop", _pop_what_is_held),), first=15
    ),
    FifoBug("delay dropped", DELAYS, ((Reader, "free_ms", _free_without_delay),), first=20),
    FifoBug("expiry unchecked", EXPIRED, _over(_never_expired), first=16),
    FifoBug("purge stamp ignored", PURGED, _over(_never_purged), first=14),
    FifoBug(
        "sequence numbers of slots, not of messages",
        INTACT,
        ((receiving, "sequence_number", _sequence_of_the_slot),),
    ),
)

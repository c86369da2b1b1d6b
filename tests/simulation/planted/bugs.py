"""The planted bugs, by the invariant that they break. Each replaces a shipped function or bound."""

from collections.abc import Sequence
from typing import Any, Final

from data_plane.bag import block, deleting, lane, reading, receiving, sending, upkeep, visibility
from data_plane.bag.block import GONE, LEASED, Block, Entry
from data_plane.bag.desk import Access, Desk
from data_plane.bag.lane import Lane
from data_plane.core.eras import Eras
from data_plane.core.errors import RefusedError
from data_plane.core.message import Message, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Append, Appended, Attributes, Key, Update
from data_plane.stored import keys, segment
from data_plane.stored.data_keys import QueueKeys
from data_plane.stored.lease import Lease
from data_plane.stored.segment import LoadedSegment, Unseal
from tests.simulation.planted import PlantedBug

DELIVERED = frozenset({"acknowledged is delivered"})
DELETED = frozenset({"deletes last"})
VISIBILITY = frozenset({"visibility is respected"})
COUNTS = frozenset({"receive counts grow"})
REPEATS = frozenset({"repeats are stored once"})
INTACT = frozenset({"messages are intact"})
DELAYS = frozenset({"delays are respected"})
EXPIRED = frozenset({"the expired stay away"})
PURGED = frozenset({"the purged stay away"})
BUDGETS = frozenset({"budgets are kept"})
BREAKS = frozenset({"nothing breaks"})

_absorb = Lane.absorb
_delete = deleting.delete
_flush = sending._flush
_learn = Block.learn
_collect_right = deleting._collect_if_finished
_open_segment = segment.open_segment


# Acknowledged is delivered


async def _flush_without_outcomes(at: Access, delay_us: int, entries: list[object]) -> list[None]:
    await _flush(at, delay_us, entries)
    return [None] * len(entries)


def _stamp_of_the_sender(_cell: MemoryCell, record: Append) -> int:
    return record.proposed_us


def _never_late(_at: Access, _appended: Appended) -> bool:
    return False


async def _settle_unseen(at: Access, settled: bytes) -> bool:
    at.lane.settle_to(min(settled, at.lane.cursor))
    return False


def _covered_without_marker(_lane: Lane, _block: Block, _index: int) -> bool:
    return True


def _nothing_unmarked(_lane: Lane, _most: int) -> dict[bytes, int]:
    return {}


async def _mark_in_memory(at: Access, block_id: bytes, due_ms: int) -> None:
    block = at.lane.known(block_id)
    if block is not None:
        at.lane.marked(block, due_ms, at.cell.now_us() + 60_000_000)


def _absorb_past_now(self: Lane, queue: Queue, items: Any, states: Any, now_us: int) -> None:
    _absorb(self, queue, items, states, now_us)
    self.cursor = max(self.cursor, keys.segment_sort(now_us + 500_000, bytes(10), 0))


def _prune_leased(_lane: Lane, entry: Entry) -> None:
    status = entry.block.status
    entry.open = {i for i in entry.open if status.get(i, GONE) not in (GONE, LEASED)}


def _collect_too_much(
    at: Access, block_id: bytes, before: Attributes, sent_ms: dict[int, int]
) -> None:
    done = before.get("d", frozenset())
    assert isinstance(done, frozenset)
    if not any(name[0] == "m" and int(name[1:]) not in sent_ms for name in before):
        whole = {**before, "f": len(done | sent_ms.keys())}
        _collect_right(at, block_id, whole, sent_ms)


async def _purge_ahead(at: Access) -> int:
    return at.now_us() + 30_000_000


# Deletes last


def _update_without_set(assign: Attributes, add: Attributes, remove: frozenset[str]) -> Update:
    del add
    return Update(assign=assign, remove=remove)


async def _delete_in_memory(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[RefusedError | None]:
    for handle in handles:
        lane_ = desk.lanes_of(queue).lane(handle.lane)
        block = lane_.known(handle.block)
        if block is None:
            return await _delete(desk, queue, handles)
        lane_.gone(block, [handle.index])
    return [None] * len(handles)


def _learn_nothing_from_absence(self: Block, state: Attributes | None, now_us: int) -> None:
    segments = self.segments
    self.leases.clear()
    self.touched = False
    _learn(self, state, now_us)
    self.segments = segments


# Visibility, receive counts


def _no_condition(_block: object, _leases: object) -> tuple[()]:
    return ()


def _free_at_once(_lease: Lease, _writer: bytes, _guard_ms: int) -> int:
    return 0


def _lease_without_count(
    visible_ms: int, _count: int, leased_ms: int, first_ms: int, first: int, token: bytes
) -> Lease:
    return Lease(visible_ms, 1, leased_ms, first_ms, first, token)


# Repeats


async def _no_earlier_attempt(_at: Access, _call: SendCall) -> dict[int, bytes]:
    return {}


# Intact


def _one_partition_for_all(_uid: str, lane_number: int, epoch: int) -> str:
    return f"B|{lane_number}|{epoch}"


async def _seal_nothing(_self: QueueKeys) -> None:
    return None


def _open_without_attributes(
    key: Key, item: Attributes, body: bytes | None = None, unseal: Unseal | None = None
) -> list[Message]:
    return [
        Message(m.id, m.body, (), m.trace_header, m.group, m.sender, m.sent_ms)
        for m in _open_segment(key, item, body, unseal)
    ]


# Delays, expiry, purges


def _append_without_delay(
    partition: str, suffix: bytes, attributes: Attributes, now_us: int, _delay_us: int, tallies: Any
) -> Append:
    return Append(partition, suffix, attributes, now_us, 0, tallies)


def _never_expired(queue: Queue, segment: LoadedSegment, _now_us: int, _eras: Eras) -> bool:
    return segment.stamp_us <= queue.purged_us


def _floor_of_purge(at: Access) -> bytes:
    return keys.be64(at.queue.purged_us) + keys.AFTER_SLICE


def _never_purged(queue: Queue, segment: LoadedSegment, now_us: int, _eras: Eras) -> bool:
    return segment.sent_us + queue.retention_s * 1_000_000 <= now_us


def _floor_of_retention(at: Access) -> bytes:
    return keys.be64(at.now_us() - at.queue.retention_s * 1_000_000) + keys.AFTER_SLICE


# Budgets, nothing breaks


async def _delete_one_by_one(
    desk: Desk, queue: Queue, handles: Sequence[ReceiptHandle]
) -> list[RefusedError | None]:
    return [(await _delete(desk, queue, [handle]))[0] for handle in handles]


def _leased_also_unmet(self: Lane, block: Block, leases: dict[int, bytes], asked_us: int) -> None:
    block.checked_us = asked_us
    block.leases.update(leases)
    for index in leases:
        if block.status.get(index) != GONE:
            block.status[index] = LEASED
            self.settle(block, index, asked_us // 1000)


async def _wait_with_one_deadline(at: Access, sent: SendCall) -> dict[int, bytes]:
    desk, until_us, call = at.desk, at.now_us() + 1_000_000, sent.name
    while call in desk.calls_under_way:
        seen = desk.waits.signals(("call", call))
        await desk.waits.wait_for(("call", call), seen, until_us)
    return {}


BUGS: Final = (
    PlantedBug(
        "answered although the write failed",
        DELIVERED,
        ((sending, "_flush", _flush_without_outcomes),),
    ),
    PlantedBug(
        "stamps not chosen by the cell",
        DELIVERED,
        ((MemoryCell, "_free_stamp_us", _stamp_of_the_sender),),
        first=100,
    ),
    PlantedBug(
        "low-water mark past leases without a marker",
        DELIVERED,
        ((Lane, "_is_covered", _covered_without_marker), (Lane, "unmarked", _nothing_unmarked)),
        first=11,
    ),
    PlantedBug(
        "low-water mark past every lease", DELIVERED, ((Lane, "_prune", _prune_leased),), first=11
    ),
    PlantedBug("markers not written", DELIVERED, ((upkeep, "mark", _mark_in_memory),)),
    PlantedBug(
        "late writes not announced", DELIVERED, ((upkeep, "came_late", _never_late),), first=151
    ),
    PlantedBug("cursor past the present", DELIVERED, ((Lane, "absorb", _absorb_past_now),)),
    PlantedBug(
        "block collected with messages left",
        DELIVERED,
        ((deleting, "_collect_if_finished", _collect_too_much),),
        first=12,
    ),
    PlantedBug(
        "purge stamp ahead of the purge",
        DELIVERED,
        ((upkeep, "mark_purge", _purge_ahead),),
        first=24,
    ),
    PlantedBug(
        "delete forgets the set", DELETED, ((deleting, "Update", _update_without_set),), first=9
    ),
    PlantedBug("delete in memory only", DELETED, ((deleting, "delete", _delete_in_memory),)),
    PlantedBug(
        "block collected at once, prefetched messages not looked at again",
        DELETED,
        ((deleting, "COLLECT_AFTER_US", 0), (block, "READY_AGE_US_MAX", 1 << 62)),
        first=425,
    ),
    PlantedBug(
        "lease condition dropped", VISIBILITY, ((receiving, "unchanged", _no_condition),), first=13
    ),
    PlantedBug("leases end at once", VISIBILITY, ((Lease, "free_ms", _free_at_once),)),
    PlantedBug("receive count not carried", COUNTS, ((receiving, "Lease", _lease_without_count),)),
    PlantedBug(
        "change of visibility without a condition",
        COUNTS,
        ((visibility, "unchanged", _no_condition),),
        first=747,
    ),
    PlantedBug(
        "earlier attempts not looked for",
        REPEATS,
        ((sending, "_earlier_attempt", _no_earlier_attempt),),
    ),
    PlantedBug(
        "lookback of one second", REPEATS, ((sending, "CALL_LOOKBACK_US", 1_000_000),), first=2
    ),
    PlantedBug(
        # What is sealed does not open for another queue.
        "one partition for all queues, in clear",
        INTACT,
        ((keys, "segments", _one_partition_for_all), (QueueKeys, "sealing", _seal_nothing)),
        first=11,
    ),
    PlantedBug("attributes lost", INTACT, ((segment, "open_segment", _open_without_attributes),)),
    PlantedBug("delay dropped", DELAYS, ((sending, "Append", _append_without_delay),)),
    PlantedBug(
        "expiry unchecked",
        EXPIRED,
        (
            (lane, "is_over", _never_expired),
            (receiving, "is_over", _never_expired),
            (reading, "_floor", _floor_of_purge),
        ),
        first=2,
    ),
    PlantedBug(
        "purge stamp ignored",
        PURGED,
        (
            (lane, "is_over", _never_purged),
            (receiving, "is_over", _never_purged),
            (reading, "_floor", _floor_of_retention),
        ),
        first=110,
    ),
    PlantedBug(
        "deletes one by one", BUDGETS, ((deleting, "delete", _delete_one_by_one),), first=17
    ),
    PlantedBug(
        "leases of messages that were never met",
        BREAKS,
        ((Lane, "leased", _leased_also_unmet),),
        first=584,
    ),
    PlantedBug(
        "a wait with one deadline spins",
        BREAKS,
        ((sending, "_earlier_attempt", _wait_with_one_deadline),),
        first=2,
    ),
)

RARE: Final = (
    (
        6507,
        PlantedBug(
            "what has settled is not looked at again",
            DELIVERED,
            ((reading, "_look_again", _settle_unseen),),
        ),
    ),
    (
        407,
        PlantedBug(
            "a collected block taken for a new one",
            DELETED,
            # The seed rests on the order in which what comes back is always put behind.
            ((Block, "learn", _learn_nothing_from_absence), (block, "PUT_BEHIND_RECEIVES", 0)),
        ),
    ),
)
"""Bugs that the engine had and that are found too rarely: each with a seed that shows it."""

"""Planted bugs of queues over streams; see bugs.py."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from data_plane.core.eras import Eras
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.stream import Stream
from data_plane.log import claims, deleting, layers, moving, reader, reading, receiving, streamed
from data_plane.log.block import Block, Pending
from data_plane.log.claims import Claims
from data_plane.log.desk import Access, Desk
from data_plane.log.reader import Reader
from data_plane.log.sending import at_any_time
from data_plane.log.slots import Slot, read_slot
from data_plane.log.sources import BlockPlace
from data_plane.ports import Attributes, Update
from data_plane.stored import keys
from data_plane.stored.bounds import QUERY_PAGE
from data_plane.stored.cell_of_queue import Placed
from data_plane.stored.lease import Lease
from data_plane.streams import consuming, searching
from data_plane.streams.consuming import ShardSource
from data_plane.streams.slots import PackedRecord, RecordSlot
from tests.simulation.planted import PlantedBug
from tests.simulation.stream_queues.universe import run, run_half_way, run_kept, run_purged

DELIVERED: Final = frozenset({"records are delivered", "records come until deleted"})
DELETED: Final = frozenset({"deleted means deleted"})
LEASES: Final = frozenset({"leases are kept"})
COUNTS: Final = frozenset({"receives are counted"})
ORDER: Final = frozenset({"keys stay in order"})
INTACT: Final = frozenset({"records are intact"})
EXPIRED: Final = frozenset({"the expired stay away"})
KEPT: Final = frozenset({"the kept are delivered"})
PURGED: Final = frozenset({"the purged stay away"})
DEAD: Final = frozenset({"dead letters had their chances"})

_LATE_US: Final = 20_000_000

_take = Reader.take
_states_of = reading._states
_claimed_lease = Claims._lease
_starting_us = streamed.starting_us
_purge = streamed.purge
_is_over = reader.is_over
_messages = ShardSource._messages


# Shards


def _take_beside_parents(
    self: Reader, queue: Queue, count: int, now_us: int, _earlier: Sequence[Reader] = ()
) -> list[Pending]:
    """What a key has in the parents does not hold its records in a child."""
    return _take(self, queue, count, now_us)


async def _states_of_open_shards(at: Access, blocks: Iterable[int]) -> dict[int, Attributes]:
    """What was done to records of a shard that was closed is not looked for."""
    source = at.partition.source
    if isinstance(source, ShardSource) and source.at.shard.closed_us:
        return {}
    return await _states_of(at, blocks)


async def _find_no_slot(*_: object) -> None:
    """A block that begins within a slot is taken for the beginning of one."""
    return


def _same_block_for_all(offset: int) -> BlockPlace:
    """Records of several blocks share their leases."""
    return BlockPlace(1, (offset - 1) % 8)


# Leases and deletes


def _free_now(_lease: Lease, _writer: bytes, _guard_ms: int) -> int:
    return 0


def _claim_unconditionally(*_: object) -> tuple[()]:
    return ()


def _count_anew(self: Any, pending: Pending, now_ms: int, visible_ms: int, token: bytes) -> Lease:
    lease: Lease = _claimed_lease(self, pending, now_ms, visible_ms, token)
    return lease._replace(receive_count=1)


def _delete_without_the_set(
    assign: Attributes, add: Attributes, remove: frozenset[str] = frozenset()
) -> Update:
    del add
    return Update(assign=assign, remove=remove)


# Retention, positions, numbers, dead letters


def _own_retention(queue: Queue, _stream: Stream) -> Queue:
    return queue


def _by_own_definition(at: Access) -> Queue:
    return at.queue


def _start_too_late(desk: Desk, stream: Placed, position: str, time_us: int) -> int:
    return _starting_us(desk, stream, position, time_us) + _LATE_US


def _is_over_after_a_day(queue: Queue, stamp_us: int, now_us: int, eras: Eras) -> bool:
    return _is_over(replace(queue, retention_s=86_400), stamp_us, now_us, eras)


async def _purge_what_comes_too(desk: Desk, queue: Queue) -> int:
    return await _purge(desk, queue) + 5 * _LATE_US


async def _purge_too_little(desk: Desk, queue: Queue) -> int:
    return await _purge(desk, queue) - 5 * _LATE_US


def _number_of_the_slot(
    self: ShardSource, slot: RecordSlot, records: Sequence[PackedRecord]
) -> Iterator[Message]:
    for record in records:
        yield from _messages(self, slot, [record])


async def _slots_that_all_have(to: Access, after: int, _first: int) -> list[Slot]:
    """What was left half way down a chain is no copy."""
    page = await to.cell.query(to.partition.slots, after=keys.be64(after), limit=QUERY_PAGE)
    return [read_slot(item) for item in page]


async def _store_no_copy(_at: Access, _block: Block, _begun: object) -> None:
    return None


_BUGS: Final = (
    ("children are read beside their parents", ORDER, ((Access, "may_be_read", True),), 2),
    ("keys do not wait for parents", ORDER, ((Reader, "take", _take_beside_parents),), 15),
    (
        "what was done in closed shards is forgotten",
        DELIVERED | DELETED | ORDER,
        ((reading, "_states", _states_of_open_shards),),
        14,
    ),
    (
        "blocks share their leases",
        DELETED | DELIVERED,
        ((consuming, "place_of", _same_block_for_all),),
        50,
    ),
    ("leases of records end at once", LEASES, ((Lease, "free_ms", _free_now),), 14),
    (
        "records are claimed without a condition",
        LEASES | COUNTS,
        ((claims, "unchanged", _claim_unconditionally),),
        1,
    ),
    ("receives begin anew", COUNTS | DEAD, ((Claims, "_lease", _count_anew),), 5),
    ("deletes leave no mark", DELETED, ((deleting, "Update", _delete_without_the_set),), 50),
    (
        "the retention of a queue counts",
        EXPIRED,
        ((layers, "as_read", _own_retention), (Access, "newest", property(_by_own_definition))),
        50,
    ),
    ("a late queue begins too late", DELIVERED, ((streamed, "starting_us", _start_too_late),), 36),
    (
        "the records of a slot have one number",
        INTACT,
        ((ShardSource, "_messages", _number_of_the_slot),),
        50,
    ),
    (
        "dead letters are not stored",
        DELIVERED,
        ((moving, "_store", _store_no_copy),),
        1,
    ),
)
_HALF_WAY: Final = (
    (
        "slots are read from their beginnings alone",
        DELIVERED,
        ((searching, "slot_with", _find_no_slot),),
        3,
    ),
    (
        "a dead letter that is half way down a chain is stored again",
        COUNTS | DEAD,
        # Either would be enough.
        (
            (moving, "_slots_behind", _slots_that_all_have),
            (moving._Searched, "may", staticmethod(at_any_time)),
        ),
        5,
    ),
)
_OF_PURGES: Final = (
    ("purges take what comes", DELIVERED, ((streamed, "purge", _purge_what_comes_too),), 0),
    ("purges leave the newest", PURGED, ((streamed, "purge", _purge_too_little),), 0),
)
_OF_RETENTIONS: Final = (
    (
        "records expire after a day",
        KEPT,
        ((reader, "is_over", _is_over_after_a_day), (receiving, "is_over", _is_over_after_a_day)),
        7,
    ),
)
STREAM_QUEUE_BUGS: Final = tuple(
    PlantedBug(name, invariants, patches, first, run=live)
    for live, bugs in (
        (run, _BUGS),
        (run_half_way, _HALF_WAY),
        (run_purged, _OF_PURGES),
        (run_kept, _OF_RETENTIONS),
    )
    for name, invariants, patches, first in bugs
)

"""What a purge has made superfluous, item by item (docs/storage.md, "Dropped after a purge").

Nobody reads it any more, by the queue's purge stamp: whoever drops it only frees its room. Dropping
goes by what the items themselves say, so it may be cut off, and begun again, anywhere.
"""

from enum import Enum
from typing import Final

from data_plane.core.dropping import Superfluous
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Cell
from data_plane.stored import keys
from data_plane.stored.segment import number, octets

DROP_ITEMS_MAX: Final = 200
DROP_BYTES_MAX: Final = 512 * 1024
"""Looked at in one step, of one transaction: some milliseconds of the event loop."""

_LOOK_SLOTS: Final = 100
_MESSAGES: Final = "s"
_INDEXES: Final = "m"
_FIRSTS: Final = "s"
_COUNTS: Final = "n"


class Verdict(Enum):
    """What becomes of an item."""

    KEEP = 0
    REMOVE = 1
    STRIP = 2
    """Its messages go, and its place stays: a move that is resumed looks for the copy there."""


def verdict(part: Superfluous, sort: bytes, item: Attributes) -> Verdict:
    """What becomes of an item of the partition."""
    if part.below:
        if sort >= part.below:
            return Verdict.KEEP
        return _slot_verdict(item) if part.partition.startswith("G|") else Verdict.REMOVE
    if part.partition.startswith("S|"):
        return _state_verdict(part, sort, item)
    return _segment_verdict(part, item)


def stripped(item: Attributes) -> Attributes:
    """The item without its messages."""
    return {name: value for name, value in item.items() if name not in {"z", "e", "q"}}


def is_emptied(item: Attributes) -> bool:
    """Whether a segment's or a slot's messages were dropped, and its place was left.

    Whoever goes by the definition of before the purge may meet it still.
    """
    return "e" not in item


def _segment_verdict(part: Superfluous, item: Attributes) -> Verdict:
    # Markers stay: one of before the purge may lead to what was sent into the same block after it.
    if item.get("k") != _MESSAGES or number(item, "t") > part.until_us:
        return Verdict.KEEP
    return _stripped_once(item) if keys.is_moved_block(octets(item, "b")) else Verdict.REMOVE


def _slot_verdict(item: Attributes) -> Verdict:
    return _stripped_once(item) if item.get("j") else Verdict.REMOVE


def _stripped_once(item: Attributes) -> Verdict:
    return Verdict.STRIP if "z" in item else Verdict.KEEP


def _state_verdict(part: Superfluous, block: bytes, state: Attributes) -> Verdict:
    """A state goes if all that it tells of was sent before the purge.

    Whatever was leased has its segment named here, by the slice, and no slice is below the stamp.
    A copy may have been told of a delete alone: then it does not know what that was of.
    """
    if keys.is_moved_block(block):
        return Verdict.KEEP
    firsts = {int(name[1:]): value for name, value in state.items() if _is_of(name, _FIRSTS)}
    if not firsts:
        return Verdict.KEEP
    for slice_us in firsts.values():
        if not isinstance(slice_us, bytes) or int.from_bytes(slice_us, "big") > part.until_us:
            return Verdict.KEEP
    counts = {int(name[1:]): value for name, value in state.items() if _is_of(name, _COUNTS)}
    if counts:
        told = {int(name[1:]) for name in state if _is_of(name, _INDEXES)}
        done = state.get("d", frozenset())
        known = {
            index
            for first, count in counts.items()
            if isinstance(count, int)
            for index in range(first, first + count)
        }
        if not isinstance(done, frozenset) or not (told | done) <= known:
            return Verdict.KEEP
    return Verdict.REMOVE


def _is_of(name: str, kind: str) -> bool:
    return name.startswith(kind) and name[1:].isdigit()


async def superfluous(cell: Cell, queue: Queue, until_us: int) -> list[Superfluous]:
    """What to drop of a queue whose messages up to this stamp were purged.

    In an order in which nothing ever comes back: messages before what is known of them. Raises
    CellUnavailableError.
    """
    counters = Superfluous(keys.counters(queue.uid), below=keys.be64(queue.purged_us))
    if not queue.fifo:
        lanes = [
            Superfluous(partition, until_us)
            for kind in ("B|", "S|")
            for partition in keys.partitions(queue.uid)
            if partition.startswith(kind)
        ]
        return [*lanes, counters]
    logs: list[Superfluous] = []
    for generation in queue.generations:
        for partition in range(generation.partitions):
            place = (queue.uid, partition, generation.number)
            first = await _first_kept(cell, keys.slots(*place), until_us)
            if first:
                names = keys.slots(*place), keys.slot_states(*place), keys.pages(*place)
                logs += [Superfluous(name, below=keys.be64(first)) for name in names]
    return [*logs, counters]


async def _first_kept(cell: Cell, slots: str, until_us: int) -> int:
    """The first slot of the log's first block that is not superfluous as a whole; 0: all are kept.

    The last block always is kept: the end of the log must stay to be found. It is looked for from
    the end, where what came after the purge is.
    """
    first = 0
    until: bytes | None = None
    while page := await cell.query(slots, until=until, limit=_LOOK_SLOTS, reverse=True):
        for item in page:
            if first and number(item.attributes, "t") < until_us:
                return first
            first = number(item.attributes, "b")
        until = keys.before(page[-1].key.sort)
    return first

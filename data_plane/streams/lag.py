"""How far a reader is behind the end of a shard's log."""

from typing import NamedTuple

from data_plane.stored import keys
from data_plane.streams import reading, searching, tails
from data_plane.streams.desk import Access
from data_plane.streams.slots import END, RecordSlot, read_slot

_MS = 1_000


class Lag(NamedTuple):
    """What a reader has not read yet: so many records, and for how long the first has been there.

    Of an empty shard, and of one that is read to its end, both are 0.
    """

    records: int
    behind_ms: int


async def lag_behind(at: Access, offset: int) -> Lag:
    """The lag of who has read all up to this offset. What has expired is nothing to read."""
    following = await tails.following(at)
    first = offset + 1
    if first >= following:
        return Lag(0, 0)
    slot = await _slot_from(at, first)
    expired_us = reading.horizon_us(at)
    if slot is not None and slot.stamp_us <= expired_us:
        first = max(first, await searching.first_since(at, expired_us + 1))
        slot = await _slot_from(at, first)
    if slot is None or slot.kind == END:
        return Lag(0, 0)
    arrived_us = at.log.eras.world_us(slot.stamp_us)
    now_us = at.log.eras.world_us(at.cell.now_us())
    behind_ms = max(0, now_us - arrived_us) // _MS
    return Lag(following - max(first, slot.number), behind_ms)


async def _slot_from(at: Access, offset: int) -> RecordSlot | None:
    """The slot that has the record at this offset, or the first one above it."""
    slot = await searching.slot_with(at, offset)
    if slot is not None and slot.following > offset:
        return slot
    # What lay there has expired: offsets may go on above a gap.
    items = await at.cell.query(at.log.slots, after=keys.be64(offset - 1), limit=1)
    return read_slot(items[0]) if items else None

"""Knowing where a shard's log ends, also when its slots are gone (docs/storage.md, "Anchor")."""

from functools import partial

from data_plane.log import ends
from data_plane.ports import Absent, Attributes, Equals, Item, LessThan, Update
from data_plane.stored.segment import FORMAT_VERSION, number
from data_plane.streams.bounds import ANCHOR_SURE_US, ANCHOR_US, OFFSETS_SKIPPED
from data_plane.streams.desk import Access, Tail
from data_plane.streams.slots import RecordSlot, read_slot

FIRST_OFFSET = 1


async def current(at: Access) -> Tail:
    """The shard's tail, as of at most a minute ago. Raises CellUnavailableError."""
    return await ends.current(at, at.log, partial(_open, at))


async def newest(at: Access) -> RecordSlot | None:
    """The last slot as it is now; None where the log has none."""
    items = await at.cell.query(at.log.slots, limit=1, reverse=True)
    return read_slot(items[0]) if items else None


async def following(at: Access) -> int:
    """The next offset as it is now."""
    last = await newest(at)
    if last is not None and not ends.is_past(last.expires_s, at.cell.now_us()):
        return last.following
    at.log.tail = None
    return (await current(at)).following


async def _open(at: Access) -> bool:
    """Learn the tail from the cell alone; False where an anchor had to be put first."""
    asked_us = at.cell.now_us()
    last = await newest(at)
    if last is not None and not ends.is_past(last.expires_s, asked_us):
        at.log.calls.begin(last.number)
        tail = Tail(last.number, last.number, 0, 0, asked_us, at.log.calls)
        tail.take_over(_item_of(last))
        at.log.tail = tail
        return True
    anchor = await at.cell.get(at.log.anchor_key)
    if anchor is not None and await newest(at) != last:
        return False  # What came meanwhile may be below the anchor, and would never be read.
    made_us = at.shard.made_s * 1_000_000
    known_us = number(anchor, "a") if anchor is not None else made_us
    offset = number(anchor, "o") if anchor is not None else FIRST_OFFSET
    stamp_us = number(anchor, "t") if anchor is not None else made_us
    if last is not None:
        offset, stamp_us = max(offset, last.following), max(stamp_us, last.stamp_us)
    if asked_us - known_us >= ANCHOR_SURE_US:
        # Nobody can tell what was appended since then, and is gone.
        await _put_anchor(at, anchor, offset + OFFSETS_SKIPPED, stamp_us, asked_us)
        return False
    # What others append from now on stays for longer than this tail is gone by.
    expires_s = (known_us + ANCHOR_SURE_US) // 1_000_000
    at.log.calls.begin(offset)
    tail = Tail(offset - 1, offset, stamp_us, expires_s, asked_us, at.log.calls)
    tail.total_bytes = (last.total_bytes if last is not None else None) or 0
    at.log.tail = tail
    return True


def _item_of(slot: RecordSlot) -> Item:
    return Item(slot.key, slot.item)


async def _put_anchor(
    at: Access, before: Attributes | None, offset: int, stamp_us: int, known_us: int
) -> None:
    as_read = Absent("a") if before is None else Equals("a", number(before, "a"))
    await at.cell.update(at.log.anchor_key, _anchor(offset, stamp_us, known_us), ((as_read,),))


def _anchor(offset: int, stamp_us: int, known_us: int) -> Update:
    return Update(assign={"v": FORMAT_VERSION, "o": offset, "t": stamp_us, "a": known_us})


async def anchor(at: Access) -> None:
    """Say where the log ends, if that was not said for an hour. Raises CellUnavailableError."""
    if at.cell.now_us() - at.log.anchored_us < ANCHOR_US:
        return
    at.log.tail = None  # As of now: from what this front end knew, others may have gone on.
    tail = await current(at)
    known_us = tail.seen_us
    condition = ((Absent("a"), LessThan("a", known_us)),)
    change = _anchor(tail.following, tail.stamp_us, known_us)
    await at.cell.update(at.log.anchor_key, change, condition)
    at.log.anchored_us = known_us

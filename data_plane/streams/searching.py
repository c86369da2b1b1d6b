"""Finding a place in a shard's log: by offset, or by time. Stamps grow with the offsets."""

from data_plane.ports import Item
from data_plane.stored import keys
from data_plane.streams import tails
from data_plane.streams.desk import Access
from data_plane.streams.slots import RecordSlot, read_slot


async def slot_with(at: Access, offset: int) -> RecordSlot | None:
    """The slot that has the record at this offset, or the last one below it, if there is one."""
    items = await at.cell.query(at.log.slots, until=keys.be64(offset), limit=1, reverse=True)
    return _read(items)


async def first_since(at: Access, since_us: int) -> int:
    """The offset of the first record that arrived at this time or later; the next one's, if none.

    A search between two slots whose stamps lie on either side: by their times first, then by
    halves, so that a log with long pauses takes about as many steps as its offsets have bits.
    """
    last = await tails.newest(at)
    if last is None:
        return await tails.following(at)
    if last.stamp_us < since_us:
        return last.following
    low = _read(await at.cell.query(at.log.slots, limit=1))
    if low is None or low.stamp_us >= since_us:
        return low.number if low is not None else last.number
    high = last
    by_halves = False
    floor = low.following
    while floor < high.number:
        halfway = (floor + high.number - 1) // 2
        guess = halfway if by_halves else _guess(low, high, since_us, floor)
        between = await slot_with(at, guess)
        if between is None or between.number < low.number:
            # What was read first has been removed since; so has all that is as old.
            return await first_since(at, since_us)
        if between.number == low.number:
            # Nothing begins up to there: cells remove in any order, and offsets may have a gap.
            floor, by_halves = guess + 1, True
        elif between.stamp_us >= since_us:
            by_halves = (high.number - between.number) * 2 < high.number - low.number
            high = between
        else:
            by_halves = (between.number - low.number) * 2 < high.number - low.number
            low, floor = between, between.following
    return high.number


def _guess(low: RecordSlot, high: RecordSlot, since_us: int, first: int) -> int:
    """Between both, from the offset `first` on, where by the time it should be."""
    share = (since_us - low.stamp_us) / (high.stamp_us - low.stamp_us)
    return min(high.number - 1, max(first, low.number + int((high.number - low.number) * share)))


def _read(items: list[Item]) -> RecordSlot | None:
    return read_slot(items[0]) if items else None

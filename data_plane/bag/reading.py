"""Reading a lane: one query for a page, one read for the states of its blocks."""

from functools import partial

from data_plane.bag import keys
from data_plane.bag.bounds import FETCH_ITEMS_MAX, READY_AGE_US_MAX
from data_plane.bag.desk import Desk
from data_plane.bag.lane import Block, Lane, LoadedSegment
from data_plane.bag.segment import octets
from data_plane.core.queue import Queue
from data_plane.ports import Key


async def fetch(desk: Desk, queue: Queue, lane: Lane) -> bool:
    """Read the next page of the lane; False where nothing more is visible now.

    Concurrent receives share one page.
    """
    found = await desk.waits.coalesce(
        ("fetch", lane.uid), queue, partial(_fetch_for_all, desk, lane)
    )
    return bool(found)


async def _fetch_for_all(desk: Desk, lane: Lane, queues: list[object]) -> list[object | Exception]:
    queue = queues[-1]
    if not isinstance(queue, Queue):
        raise TypeError("a fetch is asked for with its queue")
    found = await _fetch(desk, queue, lane)
    return [found] * len(queues)


async def _fetch(desk: Desk, queue: Queue, lane: Lane) -> bool:
    cell = desk.cell(lane)
    if lane.low is None:
        await _open(desk, lane)
    page_size = min(FETCH_ITEMS_MAX, max(1, round(10 / lane.messages_per_item)))
    items = await cell.query(
        lane.segments,
        after=max(lane.cursor, _floor(desk, queue)),
        until=keys.be64(cell.now_us()) + keys.AFTER_SLICE,
        limit=page_size,
    )
    wanted: dict[Key, None] = {}
    for item in items:
        kind = item.attributes["k"]
        if kind in ("s", "m"):
            block_id = octets(item.attributes, "b")
            if kind == "m" or lane.known(block_id) is None:
                wanted[Key(lane.states, block_id)] = None
    states = await cell.get_many(tuple(wanted)) if wanted else {}
    lane.absorb(queue, items, states, desk.clock.now_us())
    return bool(items)


async def _open(desk: Desk, lane: Lane) -> None:
    """Start from the durable low-water mark."""
    mark = await desk.cell(lane).get(lane.low_water_key)
    lane.low = lane.low_written = octets(mark, "w") if mark is not None else b""
    lane.cursor = max(lane.cursor, lane.low)


def _floor(desk: Desk, queue: Queue) -> bytes:
    """Everything at or below this key is expired or purged: it was sent before it was visible."""
    expired_us = desk.clock.now_us() - queue.retention_s * 1_000_000
    return keys.be64(max(0, expired_us, queue.purged_us)) + keys.AFTER_SLICE


async def next_visible_us(desk: Desk, lane: Lane) -> int | None:
    """When the next item ahead of the cursor becomes visible, if there is one."""
    if lane.low is None:
        await _open(desk, lane)
    ahead = await desk.cell(lane).query(lane.segments, after=lane.cursor, limit=1)
    return keys.slice_of(ahead[0].key.sort) if ahead else None


async def load(desk: Desk, lane: Lane, block: Block, indexes: list[int]) -> None:
    """Bring the segments of these messages into memory, and the block's state if it is old.

    Messages whose segment is no more are marked gone.
    """
    now_us = desk.clock.now_us()
    stale = now_us - block.checked_us > READY_AGE_US_MAX
    firsts = {block.first_of[index] for index in indexes}
    missing = [f for f in sorted(firsts) if stale or f not in block.segments]
    if not missing:
        return
    segment_keys = {
        first: Key(lane.segments, keys.segment_sort(block.slices[first], block.id, first))
        for first in missing
    }
    state_key = Key(lane.states, block.id)
    wanted = [*segment_keys.values(), state_key] if stale else list(segment_keys.values())
    found = await desk.cell(lane).get_many(wanted)
    if stale:
        block.learn(found.get(state_key), desk.clock.now_us())
    for first, key in segment_keys.items():
        item = found.get(key)
        if item is not None:
            block.segments[first] = LoadedSegment(item)
            continue
        block.segments.pop(first, None)
        lane.gone(block, [index for index in indexes if block.first_of[index] == first])

"""Reading a lane: one query for a page, one read for the states of its blocks."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from data_plane.bag import fair
from data_plane.bag.block import GONE, Block
from data_plane.bag.bounds import FETCH_ITEMS_MAX
from data_plane.bag.desk import Access
from data_plane.bag.lane import Lane, is_over
from data_plane.core.errors import RefusedError
from data_plane.core.message import Message
from data_plane.ports import Attributes, CellUnavailableError, Item, Key
from data_plane.stored import keys
from data_plane.stored.bounds import GET_MANY_MAX, LONG_WORK_BYTES, QUERY_PAGE
from data_plane.stored.coalescing import coalesce
from data_plane.stored.data_keys import Opener
from data_plane.stored.segment import DamagedSegmentError, LoadedSegment, UnknownFormatError, octets
from data_plane.stored.superfluous import is_emptied


async def fetch(at: Access) -> bool:
    """Read the next page of the lane; False where nothing more is visible now.

    Concurrent receives share one page.
    """
    found = await coalesce(
        at.desk, ("fetch", at.lane.uid, at.lane.number), None, partial(_fetch_for_all, at)
    )
    return bool(found)


async def _fetch_for_all(at: Access, receives: list[object]) -> list[object | Exception]:
    found = await _fetch(at)
    return [found] * len(receives)


async def _fetch(at: Access) -> bool:
    lane = at.lane
    await _open(at)
    settled = keys.be64(at.cell.settled_us()) + keys.AFTER_SLICE
    if (
        lane.settled < lane.cursor
        and max(lane.settled, lane.looked_again_at) < settled
        and await _look_again(at, settled)
    ):
        return True
    return await _look_ahead(at, settled)


async def _look_ahead(at: Access, settled: bytes) -> bool:
    """Read on from the cursor; what counts up to `settled` is stored by now."""
    lane = at.lane
    has_gap = lane.settled < lane.cursor
    floor = _floor(at)
    known_us = max(keys.slice_of(lane.settled), at.lanes.learnt_us)
    if lane.number == 0 and known_us < keys.slice_of(floor):
        await fair.learn(at)  # What is skipped may have told of lanes.
    # What is read is as old as the request: blocks may be collected while an answer is under way.
    asked_us, present_us = at.now_us(), at.cell.now_us()
    items = await at.cell.query(
        lane.segments,
        after=max(lane.cursor, floor),
        until=keys.be64(present_us) + keys.AFTER_SLICE,
        limit=_page_items(lane),
    )
    await _take_over(at, items, asked_us)
    lane.read_until_us = keys.slice_of(items[-1].key.sort) if items else present_us
    if not has_gap:
        lane.settle_to(min(settled, lane.cursor))
    return bool(items)


async def _look_again(at: Access, settled: bytes) -> bool:
    """Read once more what has settled behind the cursor; whether anything came to light."""
    lane = at.lane
    asked_us = at.now_us()
    limit = len(lane.unsettled) + FETCH_ITEMS_MAX
    items = await at.cell.query(
        lane.segments, after=max(lane.settled, _floor(at)), until=settled, limit=limit
    )
    late = [item for item in items if item.key.sort not in lane.unsettled]
    await _take_over(at, late, asked_us)
    lane.settle_to(min(items[-1].key.sort if items else settled, lane.cursor))
    if len(items) < limit:
        lane.looked_again_at = settled
    return bool(late)


async def _take_over(at: Access, items: list[Item], asked_us: int) -> None:
    """Read what belongs to these items, and absorb all of it."""
    present_us = at.cell.now_us()
    asked: set[Key] = set()
    found: dict[Key, Attributes] = {}
    # Once more where a block was forgotten meanwhile: it is not one without a state.
    while wanted := [key for key in _belonging(at.lane, items, present_us) if key not in asked]:
        asked.update(wanted)
        for start in range(0, len(wanted), GET_MANY_MAX):
            found |= await at.cell.get_many(wanted[start : start + GET_MANY_MAX])
    at.lane.absorb(at.lanes.queue, items, found, asked_us)


def _belonging(lane: Lane, items: list[Item], present_us: int) -> Iterable[Key]:
    """States of blocks that are not known or have a marker, and segments that came late."""
    wanted: dict[Key, None] = {}
    for item in items:
        kind = item.attributes["k"]
        if kind in {"p", "n"}:
            continue
        block_id = octets(item.attributes, "b")
        if kind == "m" or lane.known(block_id) is None:
            wanted[Key(lane.states, block_id)] = None
        if kind == "l" and keys.slice_of(late := octets(item.attributes, "s")) <= present_us:
            wanted[Key(lane.segments, late)] = None
    return wanted


def _page_items(lane: Lane) -> int:
    """About ten messages; more where the last page held none to deliver, to get past such."""
    if lane.last_page_was_barren:
        return QUERY_PAGE
    return min(FETCH_ITEMS_MAX, max(1, round(FETCH_ITEMS_MAX / lane.messages_per_item)))


async def _open(at: Access) -> None:
    """Start from the durable low-water marks."""
    if at.lane.opened:
        return
    await fair.learn(at)
    for number in range(max(at.lane.number, at.lanes.deepest) + 1):
        lane = at.lanes.lane(number)
        if not lane.opened:
            lane.start_at(lane.low_known)


def _floor(at: Access) -> bytes:
    """Everything at or below this key is expired or purged: it was sent before it was visible."""
    queue = at.lanes.queue
    expired_us = at.lane.eras.before_us(at.now_us(), queue.retention_s * 1_000_000)
    return keys.be64(max(0, expired_us, queue.purged_us)) + keys.AFTER_SLICE


async def next_visible_us(at: Access) -> int | None:
    """When the next item ahead of the cursor becomes visible, if there is one."""
    await _open(at)
    ahead = await at.cell.query(at.lane.segments, after=max(at.lane.cursor, _floor(at)), limit=1)
    return keys.slice_of(ahead[0].key.sort) if ahead else None


Body = list[Message] | Exception | None
"""The messages of a blob, or why a segment's are not to be had; None: there is no such blob."""


async def load(at: Access, block: Block, indexes: list[int]) -> dict[int, Message]:
    """These messages, with the block's state learnt anew if it is old.

    Those whose segment is no more, or cannot be read, are marked gone. Those whose segment others
    let go meanwhile are left out: whoever takes them next reads it again.
    """
    asked_us = at.now_us()
    stale = block.is_old(asked_us)
    firsts = {block.first_of[index] for index in indexes}
    missing = [f for f in sorted(firsts) if stale or f not in block.segments]
    found: dict[Key, Attributes] = {}
    segment_keys = {
        first: Key(at.lane.segments, keys.segment_sort(block.slices[first], block.id, first))
        for first in missing
    }
    if missing:
        state_key = Key(at.lane.states, block.id)
        found = await at.cell.get_many(
            [*segment_keys.values(), state_key] if stale else list(segment_keys.values())
        )
        if stale:
            remembered = block.segments
            block.learn(found.get(state_key), asked_us)
            if all(key in found for key in segment_keys.values()):
                block.segments = remembered  # It was not collected: then none of them was.
    for first, key in segment_keys.items():
        item = found.get(key)
        if item is None:
            block.segments.pop(first, None)
            block.checked_us = 0  # More of a block that was collected may be on its way here.
        else:
            at.lane.held.add(block, LoadedSegment(key, item))
    # Held on to: the block may let go of segments while their bodies are under way.
    absent = {first for first, key in segment_keys.items() if key not in found}
    segments = {
        first: _still_wanted(at, block.segments.get(first))
        for first in sorted(firsts)
        if first in absent or first in block.segments
    }
    wanted = [segment for segment in segments.values() if segment is not None]
    opener = await at.data_keys.opener(wanted)
    bodies = await _bodies(at, block, wanted, opener)
    here = [one for one in wanted if not one.blob and one.first not in bodies]
    for segment in here:
        if segment.size_bytes > LONG_WORK_BYTES:
            with suppress(DamagedSegmentError):  # which is found again below
                await at.desk.waits.in_turns(segment.opening(opener.unseal))
    opened = {
        first: _opened(at, block, segment, bodies, opener) for first, segment in segments.items()
    }
    loaded: dict[int, Message] = {}
    for index in indexes:
        first = block.first_of[index]
        messages = opened.get(first, [])
        if messages is None:
            at.lane.gone(block, (index,))
        elif messages:
            loaded[index] = messages[index - first]
    return loaded


def _still_wanted(at: Access, segment: LoadedSegment | None) -> LoadedSegment | None:
    """The segment, unless a purge has emptied it since it was found.

    Or its body lies apart and may have been swept: its time is over.
    """
    if segment is not None and is_emptied(segment.item):
        return None
    if (
        segment is not None
        and segment.blob
        and is_over(at.lanes.queue, segment, at.now_us(), at.lane.eras)
    ):
        return None
    return segment


async def _bodies(
    at: Access, block: Block, segments: list[LoadedSegment], opener: Opener
) -> dict[int, Body]:
    """What lies apart of these segments, fetched side by side, by their first messages.

    Those whose keys are not to be had are here, too, with the reason. Raises that, or
    CellUnavailableError, where nothing else is at hand and nothing could be fetched.
    """
    closed: dict[int, Body] = {}
    at.lane.shut.were_had(opener.seals)
    if opener.failures:
        at.lane.shut.add(opener.failures)
        closed = {s.first: failure for s in segments if (failure := opener.failure(s)) is not None}
        first = next(iter(closed.values()))
        if len(closed) == len(segments) and isinstance(first, (RefusedError, CellUnavailableError)):
            raise first
    apart = [segment for segment in segments if segment.blob and segment.first not in closed]
    if not apart:
        return closed
    if at.bodies is None:
        raise UnknownFormatError(f"cell {at.lane.cell} has no blobs, and a segment names one")
    fetched = await at.desk.waits.all_of(
        [at.bodies.fetch(segment, opener.unseal) for segment in apart]
    )
    failures = [body for body in fetched if isinstance(body, CellUnavailableError)]
    if len(failures) == len(segments):
        raise failures[0]
    if None in fetched:
        # Deleted, if the block's state says so: what is known of it may be older than that.
        asked_us = at.now_us()
        block.learn(await at.cell.get(Key(at.lane.states, block.id)), asked_us)
    return closed | {one.first: body for one, body in zip(apart, fetched, strict=True)}


def _opened(
    at: Access,
    block: Block,
    segment: LoadedSegment | None,
    bodies: dict[int, Body],
    opener: Opener,
) -> list[Message] | None:
    """A segment's messages; empty: not to be had at present; None: there are none any more."""
    if segment is None:
        return None
    body: Body
    try:
        if segment.blob or segment.first in bodies:
            body = bodies[segment.first]
        else:
            body = segment.messages(opener.unseal)
    except DamagedSegmentError as damage:
        body = damage
    if isinstance(body, list):
        return body
    if isinstance(body, (CellUnavailableError, RefusedError)):
        return []
    if body is not None and not isinstance(body, DamagedSegmentError):
        raise body
    if body is not None or not _is_gone(block, segment):
        at.desk.damaged_segments += 1
    return None


def _is_gone(block: Block, segment: LoadedSegment) -> bool:
    indexes = range(segment.first, segment.first + segment.count)
    return all(block.status.get(index) == GONE for index in indexes)

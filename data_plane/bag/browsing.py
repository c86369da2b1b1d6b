"""Browsing: the messages of a queue as they lie there. Nothing is written, nothing remembered.

A walk goes over the lanes one after the other, over what lies in each above its low-water mark as
the walk found it. Below the mark only that is alive to which a marker above leads, so markers stand
for the messages in flight below. What a page has shown of those is noted in the position of the
next one, because a block may have several markers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from data_plane.bag.bounds import BROWSE_NOTES_MAX, COLLECT_AFTER_US
from data_plane.bag.desk import Desk
from data_plane.bag.lane import is_over
from data_plane.core.browsing import Page, invalid_token
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.queue import Queue
from data_plane.core.undecodable import UNDECODABLE
from data_plane.ports import Attributes, Cell, Item, Key
from data_plane.stored import keys, lease
from data_plane.stored.bounds import (
    BROWSE_ITEMS_MIN,
    BROWSE_ROUNDS_MAX,
    GET_MANY_MAX,
    QUERY_PAGE,
)
from data_plane.stored.browsing import PageInTheMaking, is_deleted, readable_messages
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.low_water import read_mark
from data_plane.stored.segment import LoadedSegment, number, octets
from data_plane.stored.superfluous import is_emptied

_lane_of: Final = re.compile(rb"([0-9a-f]{2})\|([0-9]+)").fullmatch


class _Lane(msgspec.Struct, array_like=True):
    """A lane that is still to be walked, and its low-water mark when the walk began."""

    number: int
    epoch: int
    low: bytes


class _Place(msgspec.Struct, array_like=True):
    """How far a walk has come: in the first of `lanes`, past the key `after`.

    Of the item `partly` the messages below the index `index` were shown. `shown` has, by block, one
    bit for each message below the low-water mark that was.
    """

    lanes: list[_Lane]
    after: bytes = b""
    partly: bytes = b""
    index: int = 0
    shown: dict[bytes, bytes] = {}

    def note(self, block: bytes, index: int) -> bool:
        """Note that a message was shown; False where it was noted before."""
        bits = int.from_bytes(self.shown.pop(block, b""), "big")
        self.shown[block] = (bits | 1 << index).to_bytes(16, "big")
        while len(self.shown) > BROWSE_NOTES_MAX:
            del self.shown[next(iter(self.shown))]
        return not bits >> index & 1

    def next_lane(self) -> None:
        """Go on with the next lane."""
        self.lanes.pop(0)
        self.after = self.partly = b""
        self.shown = {}


_decode = msgspec.msgpack.Decoder(_Place).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _View:
    """One page in the making."""

    desk: Desk
    queue: Queue
    cell: Cell
    items_max: int
    page: PageInTheMaking

    def now_us(self) -> int:
        """This front end's clock, in microseconds."""
        return self.desk.clock.now_us()


async def browse(desk: Desk, queue: Queue, *, count: int, position: bytes) -> Page:
    """A page of up to `count` messages. See `Bag.browse`."""
    if desk.is_dropped(queue):
        raise queue_does_not_exist()
    cell = cell_of(desk.cells, queue)
    page = PageInTheMaking(count, desk.clock.now_us(), cell.now_us())
    view = _View(desk, queue, cell, max(count, BROWSE_ITEMS_MIN), page)
    place = _read(position) if position else _Place(await _lanes(view))
    for _ in range(BROWSE_ROUNDS_MAX):
        if not place.lanes or page.is_full or not await _walk_on(view, place):
            break
    return Page(page.messages, _encode(place) if place.lanes else b"")


def _read(position: bytes) -> _Place:
    try:
        return _decode(position)
    except UNDECODABLE:
        raise invalid_token() from None


async def _lanes(view: _View) -> list[_Lane]:
    """The lanes in use, and how far each of them is done with."""
    first = keys.low_water(view.queue.uid, 0, 0)
    lanes = {0: _Lane(0, 0, b"")}
    for item in await view.cell.query(first.partition, limit=QUERY_PAGE):
        name = _lane_of(item.key.sort)
        if name is not None:
            low = read_mark(item.attributes, view.cell.eras).place
            lane = int(name[1], 16)
            lanes[lane] = _Lane(lane, int(name[2]), low)
    return [lanes[lane] for lane in sorted(lanes)]


async def _walk_on(view: _View, place: _Place) -> bool:
    """Read some items of the lane and show their messages; False where the page is full."""
    queue, lane = view.queue, place.lanes[0]
    partition = keys.segments(queue.uid, lane.number, lane.epoch)
    expired_us = view.cell.eras.before_us(view.now_us(), queue.retention_s * 1_000_000)
    gone_us = max(0, expired_us, queue.purged_us)
    items = await view.cell.query(
        partition,
        after=max(place.after, lane.low, keys.be64(gone_us) + keys.AFTER_SLICE),
        limit=view.items_max,
    )
    if not items:
        place.next_lane()
        return True
    known = await _read_around(view, lane, partition, items)
    for item in items:
        if item.key not in known.leads_to:
            break  # What it leads to is more than one page reads.
        if not await _show_item(view, place, item, known):
            return False
        place.after = item.key.sort
    return True


Targets = dict[Key, list[int] | None]
"""Segments, and the indexes of the messages that are meant; None: all of the segment's."""


class _Known(NamedTuple):
    """What was read around the items: states of blocks, and segments.

    `leads_to` has, for each item that can be shown, the segments whose messages it stands for, and
    which of them.
    """

    states: dict[bytes, Attributes]
    segments: dict[Key, Attributes]
    leads_to: dict[Key, Targets]


async def _read_around(view: _View, lane: _Lane, partition: str, items: Sequence[Item]) -> _Known:
    """Read the states of the items' blocks, then what markers lead to, for as many items as fit."""
    states_of = keys.states(view.queue.uid, lane.number, lane.epoch)
    blocks = dict.fromkeys(_block_of(item) for item in items)
    blocks.pop(b"", None)
    found = await _get_many(view.cell, [Key(states_of, block) for block in blocks])
    states = {key.sort: state for key, state in found.items()}
    leads_to: dict[Key, Targets] = {}
    wanted: dict[Key, None] = {}
    doubtful: dict[bytes, Key] = {}
    for item in items:
        block = _block_of(item)
        targets = _targets(item, states.get(block, {}), partition, lane.low)
        unread = [key for key in targets if key != item.key]
        if _may_be_collected(view, item, states) and block not in doubtful:
            doubtful[block] = item.key
            unread = [item.key]
        if wanted and len(wanted) + len(unread) > GET_MANY_MAX:
            break
        wanted |= dict.fromkeys(unread)
        leads_to[item.key] = targets
    segments = await _get_many(view.cell, list(wanted))
    collected = {block for block, key in doubtful.items() if key not in segments}
    for item in items:
        if _block_of(item) not in collected:
            segments.setdefault(item.key, item.attributes)
    return _Known(states, segments, leads_to)


def _block_of(item: Item) -> bytes:
    """The block that an item is about; b"" for one that is about none."""
    return octets(item.attributes, "b") if item.attributes["k"] in {"s", "m", "l"} else b""


def _may_be_collected(view: _View, item: Item, states: dict[bytes, Attributes]) -> bool:
    """Whether the block's state may be absent because all of its messages were deleted.

    It goes together with its segments, so one of them, read once more, tells of all.
    """
    if item.attributes["k"] != "s" or _block_of(item) in states:
        return False
    return number(item.attributes, "t") + COLLECT_AFTER_US <= view.now_us()


def _targets(item: Item, state: Attributes, partition: str, low: bytes) -> Targets:
    """What an item stands for: a segment for itself, markers for what is below the mark."""
    kind = item.attributes["k"]
    if kind == "s":
        return {item.key: None}
    if kind == "l":
        late = octets(item.attributes, "s")
        return {Key(partition, late): None} if late <= low else {}
    if kind != "m":
        return {}
    block, targets = _block_of(item), Targets()
    for index, first in sorted(_leased(state)):
        slice_of_first = state.get(f"s{first}")
        if isinstance(slice_of_first, bytes):
            sort = slice_of_first + block + bytes((first,))
            if sort <= low:
                indexes = targets.setdefault(Key(partition, sort), [])
                assert indexes is not None  # noqa: S101 - set here alone
                indexes.append(index)
    return targets


def _leased(state: Attributes) -> Iterator[tuple[int, int]]:
    """Messages that were received and not deleted: index, first message of the segment."""
    for name, value in state.items():
        if name[0] == "m" and isinstance(value, bytes) and not is_deleted(state, int(name[1:])):
            yield int(name[1:]), lease.from_bytes(value).first


async def _show_item(view: _View, place: _Place, item: Item, known: _Known) -> bool:
    """Show the messages that an item stands for; False where the page is full before the last."""
    bodies, data_keys = view.desk.bodies.get(view.queue.cell), view.desk.data_keys.of(view.queue)
    block = _block_of(item)
    state = known.states.get(block, {})
    begin = place.index if place.partly == item.key.sort else 0
    # What is met twice is noted: what markers lead to, and copies of a message that was moved.
    is_noted = item.attributes["k"] != "s" or (block != b"" and keys.is_moved_block(block))
    for key, indexes in known.leads_to[item.key].items():
        attributes = known.segments.get(key)
        if attributes is None:
            continue
        segment = LoadedSegment(key, attributes)
        if is_emptied(attributes) or is_over(view.queue, segment, view.now_us(), view.cell.eras):
            continue
        every = range(segment.first, segment.first + segment.count)
        alive = [i for i in indexes or every if i >= begin and not is_deleted(state, i)]
        messages = await readable_messages(segment, data_keys, bodies) if alive else []
        for index in alive if messages else ():
            message = messages[index - segment.first]
            if not view.page.has_room_for(message):
                place.partly, place.index = item.key.sort, index
                return False
            if not is_noted or place.note(block, index):
                view.page.add(message, state, index, keys.slice_of(key.sort))
    return True


async def _get_many(cell: Cell, wanted: Sequence[Key]) -> dict[Key, Attributes]:
    found: dict[Key, Attributes] = {}
    for start in range(0, len(wanted), GET_MANY_MAX):
        found |= await cell.get_many(wanted[start : start + GET_MANY_MAX])
    return found

"""Browsing: the messages of a log in its order. Nothing is written, nothing remembered.

A walk goes over the partitions one after the other, those of earlier generations first, above the
low-water mark of each and past the ranges of which it says that they are done. Shards go by their
numbers: those of children are above those of their parents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from data_plane.core.browsing import Page, invalid_token
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.undecodable import UNDECODABLE
from data_plane.log import reading
from data_plane.log.bounds import COLLECT_AFTER_US
from data_plane.log.desk import Access, Desk
from data_plane.log.layers import layers
from data_plane.log.reader import is_over
from data_plane.log.slots import MESSAGES, Slot
from data_plane.log.window import sequence_number
from data_plane.ports import Attributes
from data_plane.stored import keys
from data_plane.stored.bounds import BROWSE_ITEMS_MIN, BROWSE_ROUNDS_MAX, GET_MANY_MAX
from data_plane.stored.browsing import PageInTheMaking, is_deleted, readable_messages
from data_plane.stored.low_water import read_mark
from data_plane.stored.segment import LoadedSegment, octets
from data_plane.stored.superfluous import is_emptied


class _Place(msgspec.Struct, array_like=True):
    """How far a walk has come: in this partition, past this slot, and `shown` messages of the next.

    `shown` counts those that are no more, too.
    """

    generation: int = 0
    partition: int = 0
    after: int = 0
    shown: int = 0

    def go_to(self, generation: int, partition: int) -> None:
        """Begin with a partition, unless the walk is in it."""
        if (generation, partition) != (self.generation, self.partition):
            self.generation, self.partition = generation, partition
            self.after = self.shown = 0


_decode = msgspec.msgpack.Decoder(_Place).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _View:
    """One page in the making."""

    at: Access
    items_max: int
    page: PageInTheMaking


async def browse(desk: Desk, queue: Queue, *, count: int, position: bytes) -> Page:
    """A page of up to `count` messages. See `Log.browse`."""
    if queue.uid in desk.dropped:
        raise queue_does_not_exist()
    page = PageInTheMaking(count, desk.clock.now_us(), desk.clock.now_us())
    place = _read(position) if position else _Place()
    partitions = {
        (at.partition.generation, at.partition.number): at
        for layer in await layers(desk, queue)
        for at in layer
    }
    for _ in range(BROWSE_ROUNDS_MAX):
        left = [there for there in partitions if there >= (place.generation, place.partition)]
        if not left:
            return Page(page.messages, b"")
        place.go_to(*min(left))
        view = _View(partitions[min(left)], max(count, BROWSE_ITEMS_MIN), page)
        if page.is_full or not await _walk_on(view, place):
            break
    return Page(page.messages, _encode(place))


def _read(position: bytes) -> _Place:
    try:
        place = _decode(position)
        keys.be64(place.after)
    except (*UNDECODABLE, OverflowError):
        raise invalid_token() from None
    return place


async def _walk_on(view: _View, place: _Place) -> bool:
    """Read some slots of the partition and show their messages; False where the page is full."""
    after = await _past_what_is_done(view, place)
    slots = await reading.slots_behind(view.at, after, view.items_max)
    if not slots:
        place.go_to(place.generation, place.partition + 1)
        return True
    states = await _states(view, slots)
    for slot in slots:
        if slot.number != place.after + 1:
            place.shown = 0  # What was shown of the next slot is about one that is gone.
        if not await _show(view, place, slot, states):
            place.after = slot.number - 1
            return False
        place.after, place.shown = slot.number, 0
    return True


async def _past_what_is_done(view: _View, place: _Place) -> int:
    """The slot behind which to read on: where the walk is, or what is done behind it ends."""
    mark = await view.at.cell.get(view.at.partition.low_water_key)
    low = read_mark(mark, view.at.cell.eras).place
    if mark is None or not low:
        return place.after
    after = max(place.after, keys.slot_of(low))
    for first, last in reading.unpack_ranges(octets(mark, "r")):
        if first <= after + 1 <= last:
            after = last
    return after


async def _states(view: _View, slots: Sequence[Slot]) -> dict[int, Attributes | None]:
    """States of the slots' blocks; None of one that was collected since the slots were read."""
    cell, partition = view.at.cell, view.at.partition
    blocks = {slot.block: slot for slot in slots if slot.kind == MESSAGES}
    states: dict[int, Attributes | None] = {}
    wanted = [partition.state_key(block) for block in blocks]
    for start in range(0, len(wanted), GET_MANY_MAX):
        found = await cell.get_many(wanted[start : start + GET_MANY_MAX])
        states |= {keys.slot_of(key.sort): state for key, state in found.items()}
    if partition.source is not None:
        return states
    # A block's state goes together with its slots, so one of them, read once more, tells.
    doubtful = {
        partition.slot_key(slot.number): block
        for block, slot in blocks.items()
        if block not in states and slot.stamp_us + COLLECT_AFTER_US <= view.at.now_us()
    }
    present = await cell.get_many(list(doubtful)) if doubtful else {}
    return states | {block: None for key, block in doubtful.items() if key not in present}


async def _show(
    view: _View, place: _Place, slot: Slot, states: dict[int, Attributes | None]
) -> bool:
    """Show the messages of a slot; False where the page is full before the last."""
    state = states.get(slot.block, {})
    if state is None or slot.kind != MESSAGES or is_emptied(slot.item):
        return True
    queue, partition = view.at.queue, view.at.partition
    if is_over(queue, slot.stamp_us, view.at.now_us(), view.at.cell.eras):
        return True
    # As receives reckon it: in whole milliseconds.
    ready_us = slot.stamp_us // 1000 * 1000 + queue.delay_s * 1_000_000
    count = len(slot.messages)
    alive = [p for p in range(place.shown, count) if not is_deleted(state, slot.first + p)]
    messages = await _messages(view.at, slot) if alive else []
    for position in alive if messages else ():
        message = messages[position]
        if partition.source is None:
            sequence = sequence_number(slot.stamp_us, place.partition, position)
            message = msgspec.structs.replace(message, sequence=sequence)
        if not view.page.has_room_for(message):
            place.shown = position
            return False
        view.page.add(message, state, slot.first + position, ready_us)
    return True


async def _messages(at: Access, slot: Slot) -> Sequence[Message]:
    """Those of a slot, or of a piece of a shard's; none where they cannot be read."""
    if slot.opened is not None:
        return slot.opened
    return await readable_messages(LoadedSegment(slot.key, slot.item), at.data_keys, at.bodies)

"""Which calls a front end knows to lie in a shard: of those that it appended, or read, last."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data_plane.core.record import Put
from data_plane.stored.shelf import Shelf
from data_plane.streams.bounds import PART_BYTES, PARTS_HELD_MAX
from data_plane.streams.slots import PartOfCall, RecordSlot


class StoredPart(NamedTuple):
    """A part of an SDK call in the slot at this offset, with this stamp."""

    slot: int
    stamp_us: int
    part: PartOfCall

    def puts(self) -> Iterator[tuple[int, Put]]:
        """Where its records are, by position in the call."""
        offset, left = self.slot + self.part.first, self.part.positions
        while left:
            lowest = left & -left
            yield lowest.bit_length() - 1, Put(offset, self.stamp_us)
            offset, left = offset + 1, left ^ lowest


class HeldCalls:
    """Parts of SDK calls by their names. The eldest go where there are too many.

    `since`: what slots from this offset on have of calls is here; what those below have may not be,
    and is to be looked for in the cell.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._parts: OrderedDict[bytes, list[StoredPart]] = OrderedDict()
        self._count = 0
        self._following = 0
        self.since = 0

    def of(self, call: bytes) -> Sequence[StoredPart]:
        """Those of a call."""
        return self._parts.get(call, ())

    def begin(self, offset: int) -> None:
        """Know nothing but what is taken from here on."""
        self._following = offset
        self.let_go()
        self._shelf.forget(self)

    def take(self, slot: RecordSlot) -> None:
        """Have the slot's parts, which lies behind all that were taken."""
        if slot.number < self._following:
            return
        if slot.number > self._following:
            self.since = slot.number
        self._following = slot.following
        for part in slot.calls:
            self._parts.setdefault(part.call, []).append(
                StoredPart(slot.number, slot.stamp_us, part)
            )
            self._count += 1
        while self._count > PARTS_HELD_MAX:
            _, gone = self._parts.popitem(last=False)
            self._count -= len(gone)
            self.since = max(self.since, gone[-1].slot + 1)
        self._shelf.has(self, self._count * PART_BYTES)

    def let_go(self) -> None:
        """Have none of them: others take the room."""
        self._parts.clear()
        self._count = 0
        self.since = self._following

    def leave_shelf(self) -> None:
        """Nobody appends by what is known here any more."""
        self._shelf.forget(self)

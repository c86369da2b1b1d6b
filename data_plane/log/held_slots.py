"""Which bodies a partition's reader has at hand: of slots that wait, up to so many bytes."""

from collections import OrderedDict

from data_plane.log.bounds import SEGMENTS_HELD_BYTES_MAX, SEGMENTS_HELD_MAX
from data_plane.log.sources import Piece
from data_plane.stored.segment import LoadedSegment
from data_plane.stored.shelf import Shelf

Held = LoadedSegment | Piece
"""Bodies that are kept for receives: of a slot, or of a piece of a shard's."""


class HeldSlots:
    """Lets the eldest go where there are too many: whoever delivers of them reads them again.

    Those that were added last have about `mean_bytes` each.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._held: OrderedDict[int, Held] = OrderedDict()
        self.bytes = 0
        self.mean_bytes = 0

    def get(self, slot: int) -> Held | None:
        """The slot's bodies, if they are at hand."""
        return self._held.get(slot)

    def add(self, slot: int, segment: Held) -> None:
        """Have this one at hand."""
        if slot not in self._held:
            self._held[slot] = segment
            self.bytes += segment.size_bytes
        while len(self._held) > SEGMENTS_HELD_MAX or (
            self.bytes > SEGMENTS_HELD_BYTES_MAX and len(self._held) > 1
        ):
            self._pop(next(iter(self._held)))
        self.mean_bytes = self.bytes // len(self._held)
        self._shelf.has(self, self.bytes)

    def done(self, slot: int) -> None:
        """Nothing of the slot is to be delivered any more."""
        self._pop(slot)
        self._shelf.has(self, self.bytes)

    def let_go(self) -> None:
        """Have nothing at hand; receives that have begun with something keep that."""
        self._held.clear()
        self.bytes = 0

    def leave_shelf(self) -> None:
        """Nobody receives from here any more."""
        self._shelf.forget(self)

    def _pop(self, slot: int) -> None:
        segment = self._held.pop(slot, None)
        if segment is not None:
            self.bytes -= segment.size_bytes

"""Which segments a lane has at hand: of messages that wait to be received, up to so many bytes."""

from collections import deque

from data_plane.bag.block import TAKEN, Block
from data_plane.bag.bounds import (
    SEGMENTS_HELD_BYTES_MAX,
    WINDOW_MESSAGES_MAX,
)
from data_plane.stored.segment import LoadedSegment
from data_plane.stored.shelf import Shelf


class HeldSegments:
    """Lets the eldest go where there are too many: whoever delivers of them reads them again."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._held: deque[tuple[Block, int, int]] = deque()
        """Blocks that got a segment, its first message, its bytes; the block may have let it go."""
        self._bytes = 0

    def add(self, block: Block, segment: LoadedSegment) -> None:
        """Have this one at hand."""
        block.hold(segment)
        self._held.append((block, segment.first, segment.size_bytes))
        self._bytes += segment.size_bytes
        while self._held[0][1] not in self._held[0][0].segments:  # It was delivered, usually.
            self._bytes -= self._held.popleft()[2]
        for _ in range(len(self._held) - 1):
            if self._bytes <= SEGMENTS_HELD_BYTES_MAX and len(self._held) <= WINDOW_MESSAGES_MAX:
                break
            self._let_go(*self._held.popleft())
        self._shelf.has(self, self._bytes)

    def let_go(self) -> None:
        """Have nothing at hand but what is being handed out."""
        for _ in range(len(self._held)):
            self._let_go(*self._held.popleft())

    def _let_go(self, block: Block, first: int, size_bytes: int) -> None:
        segment = block.segments.get(first)
        if segment is not None:
            indexes = range(first, first + segment.count)
            if any(block.status.get(index) == TAKEN for index in indexes):
                self._held.append((block, first, size_bytes))  # somebody is handing it out
                return
            del block.segments[first]
        self._bytes -= size_bytes

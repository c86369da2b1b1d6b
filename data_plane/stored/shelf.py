"""What many have at hand in one front end, and could read again: of all together, bounded.

So with messages that wait: a tenant may have thousands of queues, each with as much at hand as one
queue may have. So, too, with what is known of calls that were put into shards.
"""

from collections import OrderedDict
from typing import Protocol

from data_plane.stored.bounds import SEGMENTS_HELD_TOGETHER_BYTES_MAX


class OnShelf(Protocol):
    """What one of them has; it can be read again."""

    def let_go(self) -> None:
        """Have nothing at hand but what is being handed out. Tells the shelf nothing."""
        ...


class Shelf:
    """What all of them have: where that is too much, whoever got something longest ago lets go.

    Without `bytes_max` it is as much as messages that wait may take.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._readers: OrderedDict[OnShelf, int] = OrderedDict()
        self.bytes = 0

    def has(self, reader: OnShelf, size_bytes: int) -> None:
        """A reader has got something, or done with it, and has so much in all."""
        self.forget(reader)
        if not size_bytes:
            return
        self.bytes += size_bytes
        self._readers[reader] = size_bytes
        bytes_max = self._bytes_max or SEGMENTS_HELD_TOGETHER_BYTES_MAX
        while self.bytes > bytes_max and len(self._readers) > 1:
            idlest, counted_bytes = self._readers.popitem(last=False)
            self.bytes -= counted_bytes  # What is being handed out of it counts again when it adds.
            idlest.let_go()

    def forget(self, reader: OnShelf) -> None:
        """A reader is no more, or has nothing."""
        self.bytes -= self._readers.pop(reader, 0)

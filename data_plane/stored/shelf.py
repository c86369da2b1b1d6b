"""What readers of queues have at hand of messages that wait: of all of them together, bounded.

A tenant may have thousands of queues, each with as much at hand as one queue may have.
"""

from collections import OrderedDict
from typing import Protocol

from data_plane.stored.bounds import SEGMENTS_HELD_TOGETHER_BYTES_MAX


class OnShelf(Protocol):
    """One reader's segments; they can be read again."""

    def let_go(self) -> None:
        """Have nothing at hand but what is being handed out. Tells the shelf nothing."""
        ...


class Shelf:
    """What all readers of a front end have at hand: where it is too much, the idlest lets go."""

    def __init__(self) -> None:
        self._readers: OrderedDict[OnShelf, int] = OrderedDict()
        self.bytes = 0

    def has(self, reader: OnShelf, size_bytes: int) -> None:
        """A reader has got something, or done with it, and has so much in all."""
        self.forget(reader)
        if not size_bytes:
            return
        self.bytes += size_bytes
        self._readers[reader] = size_bytes
        while self.bytes > SEGMENTS_HELD_TOGETHER_BYTES_MAX and len(self._readers) > 1:
            idlest, counted_bytes = self._readers.popitem(last=False)
            self.bytes -= counted_bytes  # What is being handed out of it counts again when it adds.
            idlest.let_go()

    def forget(self, reader: OnShelf) -> None:
        """A reader is no more, or has nothing."""
        self.bytes -= self._readers.pop(reader, 0)

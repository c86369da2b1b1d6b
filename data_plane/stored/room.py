"""How much of messages one answer may hold, where whoever carries it takes no more.

What does not fit is not leased for it: it is neither counted as received nor kept from others.
"""

from collections.abc import Iterable, Sequence

from data_plane.core.message import Message
from data_plane.core.message_rules import size_bytes


class Room:
    """The room of one answer: `bytes_max` of messages, or one message; None: there is no end."""

    def __init__(self, bytes_max: int | None) -> None:
        self._left = bytes_max
        self._holds = 0

    def take(self, message: Message) -> bool:
        """Whether the message fits, which then has its room."""
        if self._left is None:
            return True
        size = size_bytes(message.body, message.attributes)
        if self._holds and size > self._left:
            return False
        self._left -= size
        self._holds += 1
        return True

    def fitting(self, sizes: Sequence[int]) -> int:
        """How many of messages of about these sizes fit, one after the other; none is taken."""
        if self._left is None:
            return len(sizes)
        left = self._left
        for number, size in enumerate(sizes):
            left -= size
            if left < 0 and (number or self._holds):
                return number
        return len(sizes)

    def give_back(self, messages: Iterable[Message]) -> None:
        """These had room and are not handed out."""
        if self._left is not None:
            for message in messages:
                self._left += size_bytes(message.body, message.attributes)
                self._holds -= 1

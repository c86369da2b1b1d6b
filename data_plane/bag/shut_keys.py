"""Data keys that were not to be had: messages that they have sealed let others pass."""

from collections.abc import Container, Iterable

from data_plane.bag.block import Block


class ShutKeys:
    """Ids of data keys. One of them at a time is tried anew; where that is to be had, all are.

    A KMS key that is disabled for hours shuts as many data keys as there were in that time. Who
    tried all of them again and again would never come to what lies behind.
    """

    def __init__(self) -> None:
        self._ids: dict[bytes, None] = {}
        self._tried = b""

    def keep(self, block: Block, index: int) -> bool:
        """Whether one of them has sealed this message."""
        if not self._ids:
            return False
        segment = block.segments.get(block.first_of[index])
        return segment is not None and segment.key_id in self._ids

    def add(self, ids: Iterable[bytes]) -> None:
        """These were not to be had just now."""
        self._ids.update(dict.fromkeys(ids))

    def try_one(self) -> None:
        """Let the one that was shut first be asked for again."""
        self._tried = next(iter(self._ids), b"")
        self._ids.pop(self._tried, None)

    def were_had(self, ids: Container[bytes]) -> None:
        """These open what they have sealed."""
        if self._tried in ids:
            self._ids.clear()

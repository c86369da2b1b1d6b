"""The deduplication window: what was sent to a partition in the last 300 s of its own time."""

import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.message import Sent
from data_plane.log.bounds import WINDOW_US
from data_plane.log.slots import Hashes

HASH_BYTES = 16
_ENTRY = struct.Struct(">16s16sQB")


class Original(NamedTuple):
    """The first message with a deduplication hash: its id, stamp and position in its slot."""

    id: bytes
    stamp_us: int
    position: int


class Window:
    """Originals by deduplication hash. A cache of the log: it holds what is acknowledged alone."""

    __slots__ = ("_eras", "_order", "_originals", "purged_us")

    def __init__(self, eras: Eras = ONE_TIME) -> None:
        self.purged_us = 0
        self._eras = eras
        self._originals: dict[bytes, bytes] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._originals)

    def find(self, dedup_hash: bytes, stamp_us: int, purged_us: int) -> Original | None:
        """What a message with this hash and stamp is a duplicate of, if of anything."""
        entry = self._originals.get(dedup_hash)
        if entry is None:
            return None
        _, message_id, original_us, position = _ENTRY.unpack(entry)
        is_past = self._eras.between_us(original_us, stamp_us) >= WINDOW_US
        if is_past or original_us <= max(self.purged_us, purged_us):
            return None
        return Original(message_id, original_us, position)

    def add(self, stamp_us: int, messages: Iterable[Hashes]) -> None:
        """A slot with these messages was stored; the stamps of those that are added grow."""
        for position, hashes in enumerate(messages):
            entry = _ENTRY.pack(hashes.dedup, hashes.id, stamp_us, position)
            self._originals[hashes.dedup] = entry
            self._order.append(entry)
        self._prune(self._eras.before_us(stamp_us, WINDOW_US))

    def add_page(self, packed: bytes) -> None:
        """A deduplication page was read, after those that are older."""
        for start in range(0, len(packed), _ENTRY.size):
            entry = packed[start : start + _ENTRY.size]
            self._originals[entry[:HASH_BYTES]] = entry
            self._order.append(entry)

    def purge(self, stamp_us: int) -> None:
        """The log was purged: what is older may be sent again."""
        self.purged_us = max(self.purged_us, stamp_us)
        self._prune(stamp_us)

    def _prune(self, until_us: int) -> None:
        order = self._order
        while order and _ENTRY.unpack(order[0])[2] <= until_us:
            entry = order.popleft()
            if self._originals.get(entry[:HASH_BYTES]) is entry:
                del self._originals[entry[:HASH_BYTES]]

    def pack_after(self, stamp_us: int) -> bytes:
        """The entries above this stamp, as a deduplication page has them."""
        entries: list[bytes] = []
        for entry in reversed(self._order):
            if _ENTRY.unpack(entry)[2] <= stamp_us:
                break
            entries.append(entry)
        return b"".join(reversed(entries))


def sequence_number(stamp_us: int, partition: int, position: int) -> int:
    """Of the message at this position in its slot: it grows with every slot of a partition."""
    return (stamp_us * 64 + partition) * 128 + position


def sent(original: Original, partition: int) -> Sent:
    """What the sender of a message is told, also of a duplicate of it."""
    return Sent(original.id, sequence_number(original.stamp_us, partition, original.position))

"""SDK calls in segments: which messages of a call a segment holds (docs/storage.md).

A batch may lie in several segments. Each part's name is made from the call's and the positions of
its messages, so that a retry finds the parts wherever they are, and knows what is missing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from data_plane.ports import Attributes
from data_plane.stored.segment import ID_BYTES, LoadedSegment, Unseal, calls_of, message_ids

UNMARKED_CALL = b""
NO_ID = bytes(ID_BYTES)
_PLAIN_BYTES = 8


class CallPart(NamedTuple):
    """Messages of a call that lie in one segment: their positions among `of`, and their ids."""

    call: bytes
    positions: Sequence[int]
    of: int
    ids: Sequence[bytes]

    @property
    def name(self) -> bytes:
        """16 bytes: the call's own where the part is all of it."""
        if self.call == UNMARKED_CALL or len(self.positions) == self.of:
            return self.call
        bits = sum(1 << position for position in self.positions)
        masked = int.from_bytes(self.call[_PLAIN_BYTES:], "big") ^ bits
        return self.call[:_PLAIN_BYTES] + masked.to_bytes(len(self.call) - _PLAIN_BYTES, "big")


class FoundPart(NamedTuple):
    """Messages of a call in a segment: their positions in the call, and where they begin there."""

    positions: Sequence[int]
    offset: int


def find_parts(item: Attributes, call: bytes, of: int) -> list[FoundPart]:
    """What this segment has of a call of so many messages."""
    found: list[FoundPart] = []
    for part in calls_of(item):
        positions = _positions(part.call, call, of)
        if positions is not None and len(positions) == part.count:
            found.append(FoundPart(positions, part.offset))
    return found


def ids_of_parts(
    segment: LoadedSegment, parts: Iterable[FoundPart], unseal: Unseal
) -> dict[int, bytes]:
    """The ids of these messages by their positions in the call."""
    found: dict[int, bytes] = {}
    for part in parts:
        ids = message_ids(segment.key, segment.item, part.offset, len(part.positions), unseal)
        found.update(zip(part.positions, ids, strict=True))
    return found


def _positions(name: bytes, call: bytes, of: int) -> Sequence[int] | None:
    """The positions of the part with this name; None where it is not one of the call."""
    if name == call:
        return range(of)
    if name[:_PLAIN_BYTES] != call[:_PLAIN_BYTES]:
        return None
    bits = int.from_bytes(name[_PLAIN_BYTES:], "big") ^ int.from_bytes(call[_PLAIN_BYTES:], "big")
    return None if bits >> of else [position for position in range(of) if bits >> position & 1]


def merge_ids(known: bytes | None, part: CallPart) -> bytes:
    """The ids of a call, one after the other, with those of another part; zeros where unknown."""
    if len(part.positions) == part.of:
        return b"".join(part.ids)
    merged = bytearray(known or bytes(ID_BYTES * part.of))
    for position, message_id in zip(part.positions, part.ids, strict=True):
        merged[position * ID_BYTES : (position + 1) * ID_BYTES] = message_id
    return bytes(merged)


def known_ids(ids: bytes) -> dict[int, bytes]:
    """Those of merged ids that are known, by position."""
    starts = range(0, len(ids), ID_BYTES)
    by_position = enumerate(ids[start : start + ID_BYTES] for start in starts)
    return {position: message_id for position, message_id in by_position if message_id != NO_ID}

"""Leases: a message's visibility as bytes that a condition can compare (docs/storage.md)."""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from data_plane.ports import Absent, AnyOf, Condition, Equals, Lacks, Value

WRITER_BYTES = 6
TOKEN_BYTES = 13
COUNT_MAX = 0xFFFF
_LAYOUT = struct.Struct(">6sH6s6sB13s")
_KINESIS = struct.Struct(">BH")
"""Behind it, of queues of the Kinesis API, where not all of that is 0."""

ALIVE: Final = 0
LAST: Final = 1
DEAD: Final = 2
RESTORED: Final = 3
"""What becomes of a record when its lease ends: it is received again, it is a dead letter from then
on, or it was one before. One that was restored, and not received since, has no lease that lasts."""

_OF_DEAD: Final = (LAST, DEAD)


class Lease(NamedTuple):
    """Who holds a message and until when.

    `visible_ms` is when it becomes visible again, 0 for at once. `receive_count` counts the
    deliveries up to and with this one; `first` is the first message of its segment. In queues of
    the Kinesis API `fate` is one of those above; `forgiven` are the deliveries that do not
    count any more, since a dead letter was restored.
    """

    visible_ms: int
    receive_count: int
    leased_ms: int
    first_received_ms: int
    first: int
    token: bytes
    fate: int = ALIVE
    forgiven: int = 0

    def to_bytes(self) -> bytes:
        """As stored."""
        stored = _LAYOUT.pack(
            self.visible_ms.to_bytes(6, "big"),
            min(self.receive_count, COUNT_MAX),
            self.leased_ms.to_bytes(6, "big"),
            self.first_received_ms.to_bytes(6, "big"),
            self.first,
            self.token,
        )
        if self.fate or self.forgiven:
            stored += _KINESIS.pack(self.fate, min(self.forgiven, COUNT_MAX))
        return stored

    @property
    def is_of_dead(self) -> bool:
        """Whether the record is a dead letter when this ends."""
        return self.fate in _OF_DEAD

    @property
    def counted(self) -> int:
        """How many of the deliveries count."""
        return max(0, self.receive_count - self.forgiven)

    def is_dead(self, now_ms: int) -> bool:
        """Whether the record is a dead letter."""
        return self.fate == DEAD or (self.fate == LAST and self.visible_ms <= now_ms)

    def free_ms(self, writer: bytes, guard_ms: int) -> int:
        """When this front end (`writer`) may take the message over; 0 for at once."""
        if self.visible_ms == 0 or self.token[:WRITER_BYTES] == writer:
            return self.visible_ms
        return self.visible_ms + guard_ms


def unchanged(seen: Mapping[int, Value], leases: Mapping[int, bytes]) -> Condition:
    """Each message is leased as it was seen, if it was, or already by this write; none is done."""
    condition: list[AnyOf] = []
    for index, new in leases.items():
        name = f"m{index}"
        before = Equals(name, seen[index]) if index in seen else Absent(name)
        condition += [(before, Equals(name, new)), (Lacks("d", index),)]
    return tuple(condition)


def visible_ms(stored: bytes) -> int:
    """When a stored lease ends, without reading the rest of it."""
    return int.from_bytes(stored[:6], "big")


def receive_count(stored: bytes) -> int:
    """How often its message was received, without reading the rest of it."""
    return int.from_bytes(stored[6:8], "big")


def is_of_dead(stored: bytes) -> bool:
    """Whether its record is a dead letter when it ends, without reading the rest of it."""
    return len(stored) > _LAYOUT.size and stored[_LAYOUT.size] in _OF_DEAD


def from_bytes(stored: bytes) -> Lease:
    """Read a stored lease."""
    visible, count, leased, first_received, first, token = _LAYOUT.unpack_from(stored)
    of_kinesis = _KINESIS.unpack_from(stored, _LAYOUT.size) if len(stored) > _LAYOUT.size else ()
    return Lease(
        int.from_bytes(visible, "big"),
        count,
        int.from_bytes(leased, "big"),
        int.from_bytes(first_received, "big"),
        first,
        token,
        *of_kinesis,
    )

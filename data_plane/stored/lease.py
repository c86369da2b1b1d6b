"""Leases: a message's visibility as bytes that a condition can compare (docs/storage.md)."""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from data_plane.ports import Absent, AnyOf, Condition, Equals, Lacks, Value

WRITER_BYTES = 6
TOKEN_BYTES = 13
COUNT_MAX = 0xFFFF
_LAYOUT = struct.Struct(">6sH6s6sB13s")


class Lease(NamedTuple):
    """Who holds a message and until when.

    `visible_ms` is when it becomes visible again, 0 for at once. `receive_count` counts the
    deliveries up to and with this one; `first` is the first message of its segment.
    """

    visible_ms: int
    receive_count: int
    leased_ms: int
    first_received_ms: int
    first: int
    token: bytes

    def to_bytes(self) -> bytes:
        """As stored."""
        return _LAYOUT.pack(
            self.visible_ms.to_bytes(6, "big"),
            min(self.receive_count, COUNT_MAX),
            self.leased_ms.to_bytes(6, "big"),
            self.first_received_ms.to_bytes(6, "big"),
            self.first,
            self.token,
        )

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


def from_bytes(stored: bytes) -> Lease:
    """Read a stored lease."""
    visible, count, leased, first_received, first, token = _LAYOUT.unpack(stored)
    return Lease(
        int.from_bytes(visible, "big"),
        count,
        int.from_bytes(leased, "big"),
        int.from_bytes(first_received, "big"),
        first,
        token,
    )

"""Sends of several callers, stored together."""

from collections.abc import Iterable, Sized
from typing import Protocol, TypeVar

from data_plane.stored.bounds import SEGMENT_BYTES_MAX, SEGMENT_MESSAGES_MAX


class Parcel(Protocol):
    """Messages of one call, which stay together."""

    @property
    def messages(self) -> Sized:
        """Which are never parted."""

    @property
    def size_bytes(self) -> int:
        """Of all of them, as a segment counts."""


P = TypeVar("P", bound=Parcel)


def chunks_of(parcels: Iterable[P]) -> list[list[P]]:
    """Share the parcels out over segments, in their order."""
    chunks: list[list[P]] = []
    room = room_bytes = 0
    for parcel in parcels:
        if not chunks or len(parcel.messages) > room or parcel.size_bytes > room_bytes:
            chunks.append([])
            room, room_bytes = SEGMENT_MESSAGES_MAX, SEGMENT_BYTES_MAX
        chunks[-1].append(parcel)
        room -= len(parcel.messages)
        room_bytes -= parcel.size_bytes
    return chunks

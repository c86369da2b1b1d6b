"""The disks of embedded cells: what room is left, told when it gets little and when it ends."""

import logging
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from data_plane.embedded.store import StoreRoom
from data_plane.ports import Cell, CellUnavailableError

NEARLY_FULL_SHARE: Final = 0.10
"""Of the disk: with less than this left for messages a cell is nearly full."""

ROOM_AGAIN_SHARE: Final = 0.15
"""With so much it is not any more: what comes and goes about one bound is not told each time."""

AVAILABLE: Final = "available"
NEARLY_FULL: Final = "nearly full"

LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class OnDisk(Protocol):
    """A cell that lies on a disk of this machine."""

    def room(self) -> StoreRoom:
        """What it can still take. Raises CellUnavailableError."""
        ...


def share_of(room: StoreRoom) -> float:
    """What messages may still take, as a share of the disk."""
    return room.takes / room.disk if room.disk else 0.0


def gauges_of(cell: OnDisk) -> Mapping[str, float]:
    """The metrics of a cell's disk."""
    try:
        room = cell.room()
    except CellUnavailableError:
        return {}
    return {
        "room_bytes": room.takes,
        "room_share": share_of(room),
        "disk_free_bytes": room.disk_free,
        "disk_size_bytes": room.disk,
    }


class DiskRoom:
    """What was told of the room that cells have, by their names."""

    def __init__(self) -> None:
        self.nearly_full: set[str] = set()

    def look(self, cells: Mapping[str, Cell]) -> None:
        """Say of each cell whether it has become nearly full, or has room again. Due each second.

        Of one that does not answer nothing is said.
        """
        self.nearly_full &= cells.keys()
        for name, cell in cells.items():
            if not isinstance(cell, OnDisk):
                continue
            try:
                room = cell.room()
            except CellUnavailableError:
                continue
            share = share_of(room)
            told = f"{room.takes:,} bytes of {room.disk:,} ({share:.1%}) are left for messages"
            if name in self.nearly_full:
                if share >= ROOM_AGAIN_SHARE:
                    self.nearly_full.remove(name)
                    LOG.warning("the disk of cell %s has room again: %s", name, told)
            elif share < NEARLY_FULL_SHARE:
                self.nearly_full.add(name)
                LOG.warning("the disk of cell %s is nearly full: %s", name, told)

    def states(self, states: Mapping[str, str]) -> dict[str, str]:
        """States of cells for a health check, with what is known of their disks."""
        return {
            name: NEARLY_FULL if state == AVAILABLE and name in self.nearly_full else state
            for name, state in states.items()
        }

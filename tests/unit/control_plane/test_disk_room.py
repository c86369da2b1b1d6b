import logging

import pytest

from control_plane.disk_room import DiskRoom, gauges_of
from data_plane.embedded.store import StoreRoom
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from tests.unit.repeatable import HandClock

GIB = 1 << 30


class OnDisk(MemoryCell):
    """A cell in memory that says what a disk has left."""

    takes: int | None = 50 * GIB

    def room(self) -> StoreRoom:
        if self.takes is None:
            raise CellUnavailableError("it has failed")
        return StoreRoom(disk_free=self.takes, disk=100 * GIB, takes=self.takes)


def test_what_becomes_nearly_full_is_told_once_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cell, watch = OnDisk(HandClock()), DiskRoom()
    for takes in (50, 9, 8, None, 11, 9, 14, 15, 12, 11, 9):
        cell.takes = None if takes is None else takes * GIB
        watch.look({"a": cell})
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    end = "bytes of 107,374,182,400 ({}) are left for messages"
    full = f"the disk of cell a is nearly full: 9,663,676,416 {end.format('9.0%')}"
    again = f"the disk of cell a has room again: 16,106,127,360 {end.format('15.0%')}"
    assert told == [("WARNING", full), ("WARNING", again), ("WARNING", full)]


def test_health_says_nearly_full_of_what_is_available() -> None:
    cell, watch = OnDisk(HandClock()), DiskRoom()
    cell.takes = GIB
    watch.look({"a": cell, "b": cell, "c": MemoryCell(HandClock())})
    states = watch.states({"a": "available", "b": "full", "c": "available"})
    assert states == {"a": "nearly full", "b": "full", "c": "available"}
    watch.look({"c": MemoryCell(HandClock())})
    assert watch.states({"a": "available"}) == {"a": "available"}


def test_what_the_disk_has_left_is_a_metric() -> None:
    cell = OnDisk(HandClock())
    assert gauges_of(cell) == {
        "room_bytes": 50 * GIB,
        "room_share": 0.5,
        "disk_free_bytes": 50 * GIB,
        "disk_size_bytes": 100 * GIB,
    }
    cell.takes = None
    assert gauges_of(cell) == {}

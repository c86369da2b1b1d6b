"""Directories of embedded cells, of which a service has several."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from control_plane.cells import COLLECTED_ITEMS_MAX, embedded_gauges
from control_plane.places.watching import WatchedCell, probe_by_write
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.failable import FailableCell
from data_plane.embedded.store import CellOpenError
from data_plane.ports import Cell, Clock

NEW_FOLDER: Final = "cell-{number}"
"""In the data directory, where no setting names others."""


@dataclass(frozen=True, slots=True)
class FolderCell:
    """An embedded cell of several: its name, where it is, and the cell."""

    name: str
    path: Path
    cell: FailableCell
    clock: Clock

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.path)

    @property
    def reason(self) -> str:
        """Why it has failed, or could not be opened; "" where it is open."""
        return self.cell.reason

    @property
    def plain(self) -> Cell:
        """The cell itself."""
        return self.cell

    def watched(self) -> WatchedCell:
        """As a watch sees it."""
        return WatchedCell(
            lambda: probe_by_write(self.cell, self.clock),
            lambda: self.cell.used_bytes,
            lambda: self.cell.is_full,
            lambda: self.cell.counters.writes,
        )

    async def upkeep(self, now_us: int) -> None:
        """A bounded step of removing what has expired. Raises CellUnavailableError."""
        await self.cell.collect(now_us // 1_000_000, COLLECTED_ITEMS_MAX)

    def gauges(self) -> Mapping[str, float]:
        """The cell's metrics."""
        return embedded_gauges(self.cell)

    async def close(self) -> None:
        """Finish what is queued, then let go of the directory."""
        await self.cell.close()


class Folders:
    """Opens cells' directories. Those in `data` are named as seen from there: it may be moved."""

    def __init__(self, data: Path, clock: Clock) -> None:
        self._data = data.resolve()
        self._clock = clock

    def text_of(self, path: str | Path) -> str:
        """A directory as it is stored; one that is not absolute lies in the data directory."""
        whole = (self._data / path).resolve()
        return str(whole.relative_to(self._data) if self._data in whole.parents else whole)

    def open(self, name: str, path: str) -> FolderCell:
        """The cell in a directory, which is made; one that cannot be opened begins as failed."""
        directory = self._data / path

        def reopen() -> EmbeddedCell:
            return EmbeddedCell(directory, self._clock)

        try:
            opened = FailableCell(reopen, self._clock, reopen())
            return FolderCell(name, directory, opened, self._clock)
        except CellOpenError as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot use {directory}: {error.strerror}"
        failed = FailableCell(reopen, self._clock, None, reason)
        return FolderCell(name, directory, failed, self._clock)

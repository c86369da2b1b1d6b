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
from data_plane.ports import Clock

NEW_FOLDER: Final = "cell-{number}"
"""In the data directory, where no setting names others."""


@dataclass(frozen=True, slots=True)
class FolderCell:
    """An embedded cell of several: its name, where it is, and the cell."""

    name: str
    path: Path
    cell: FailableCell

    def watched(self, clock: Clock) -> WatchedCell:
        """As a watch sees it."""
        return WatchedCell(
            lambda: probe_by_write(self.cell, clock),
            lambda: self.cell.used_bytes,
            lambda: self.cell.is_full,
            lambda: self.cell.counters.writes,
        )

    async def collect(self, now_us: int) -> None:
        """A bounded step of removing what has expired. Raises CellUnavailableError."""
        await self.cell.collect(now_us // 1_000_000, COLLECTED_ITEMS_MAX)

    def gauges(self) -> Mapping[str, float]:
        """The cell's metrics."""
        return embedded_gauges(self.cell)


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
            return FolderCell(name, directory, FailableCell(reopen, self._clock, reopen()))
        except CellOpenError as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot use {directory}: {error.strerror}"
        return FolderCell(name, directory, FailableCell(reopen, self._clock, None, reason))

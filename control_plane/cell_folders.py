"""Directories of embedded cells, of which a service has several."""

import fcntl
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from control_plane.cells import embedded_gauges, embedded_upkeep
from control_plane.places.own import read_own
from control_plane.places.report import CellCommandError
from control_plane.places.watching import SparingProbe, WatchedCell, probe_by_write
from control_plane.whose_cell import why_no_cell
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.failable import FailableCell
from data_plane.embedded.standing import REPLACED_NOTE, is_replaced
from data_plane.embedded.store import DATA_FILE, CellInUseError, CellOpenError
from data_plane.ports import Cell, Clock

NEW_FOLDER: Final = "cell-{number}"
"""In the data directory, where no setting names others."""

_SET_ASIDE: Final = f"{DATA_FILE}.set-aside-{{number}}"


@dataclass(frozen=True, slots=True)
class FolderCell:
    """An embedded cell of several: its name, where it is, and the cell."""

    name: str
    path: Path
    cell: FailableCell
    clock: Clock

    @property
    def where(self) -> str:
        """The directory: that of the file that is open, wherever it was moved."""
        file = self.cell.file
        return str(Path(file.where).parent if file is not None and file.where else self.path)

    @property
    def inode(self) -> int:
        """Of the file that is open."""
        file = self.cell.file
        return file.inode if file is not None else 0

    @property
    def reason(self) -> str:
        """Why it does not answer: it has failed, or its file is not where it was; "" if neither."""
        return self.cell.missing or self.cell.reason

    @property
    def plain(self) -> Cell:
        """The cell itself."""
        return self.cell

    def watched(self) -> WatchedCell:
        """As a watch sees it."""

        async def write() -> None:
            await self.cell.look_at_file()  # once it is missing, writes do not find it back
            await probe_by_write(self.cell, self.clock)

        probe = SparingProbe(
            write,
            self.cell.read_disk,
            lambda: (self.cell.counters.writes, self.cell.counters.failed_commits),
            lambda: self.cell.is_full,
            self.clock,
        )
        return WatchedCell(
            probe,
            lambda: self.cell.used_bytes,
            lambda: self.cell.is_full,
            lambda: self.cell.counters.writes,
        )

    async def upkeep(self, now_us: int) -> None:
        """A bounded step of `embedded_upkeep`. Raises CellUnavailableError."""
        await embedded_upkeep(self.cell, now_us)

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
        self._lock_fd: int | None = None

    @property
    def data(self) -> str:
        """The data directory, as a service knows it."""
        return str(self._data)

    def lock(self) -> None:
        """Keep others from the data directory, also where cells are gone. Raises CellInUseError.

        Where it cannot be locked the cells' own locks have to do.
        """
        try:
            self._lock_fd = os.open(self._data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise CellInUseError(f"data: {self._data} is in use by another process") from None
        except OSError:
            self.unlock()

    def unlock(self) -> None:
        """Let others have the data directory."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def text_of(self, path: str | Path) -> str:
        """A directory as it is stored; one that is not absolute lies in the data directory."""
        whole = (self._data / path).resolve()
        return str(whole.relative_to(self._data) if self._data in whole.parents else whole)

    def is_missing(self, path: str) -> bool:
        """Whether there is no such directory."""
        return not os.path.lexists(self._data / path)

    def in_data(self) -> list[str]:
        """Directories in the data directory that have a data file."""
        return sorted(self.text_of(path.parent) for path in self._data.glob(f"*/{DATA_FILE}"))

    def has_data(self, path: str) -> bool:
        """Whether there is anything to open; where that cannot be said opening it says why."""
        directory = self._data / path
        try:
            directory.stat()
            return not directory.is_dir() or (directory / DATA_FILE).exists()
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def is_replaced(self, path: str) -> bool:
        """Whether a server that had another file open has noted so of this one. Raises OSError."""
        return is_replaced(self._data / path / DATA_FILE)

    def set_aside(self, path: str) -> str:
        """Move what is in a directory out of a new cell's way; where it is now, "": nothing is.

        Nobody may have it open. Raises OSError.
        """
        directory = self._data / path
        if not (directory / DATA_FILE).exists():
            return ""
        names = (_SET_ASIDE.format(number=number) for number in count(1))
        aside = next(one for name in names if not (one := directory / name).exists())
        (directory / DATA_FILE).rename(aside)
        (directory / REPLACED_NOTE).unlink(missing_ok=True)
        return str(aside)

    def closed(self, name: str, path: str, reason: str) -> FolderCell:
        """The cell in a directory that nobody opens before somebody restores it."""
        directory = self._data / path

        def reopen() -> EmbeddedCell:
            return EmbeddedCell(directory, self._clock)

        failed = FailableCell(reopen, self._clock, None, reason)
        return FolderCell(name, directory, failed, self._clock)

    def open(self, name: str, path: str) -> FolderCell:
        """The cell in a directory, which is made; one that cannot be opened begins as failed.

        Raises CellInUseError: somebody else serves it.
        """
        directory = self._data / path
        cell = self.closed(name, path, "it was not opened")
        try:
            cell.cell.restore()
        except CellInUseError:
            raise
        except CellOpenError as error:
            return self.closed(name, path, str(error))
        except OSError as error:
            return self.closed(name, path, f"cannot use {directory}: {error.strerror}")
        return cell

    async def open_new(self, name: str, path: str, cells: Iterable[str]) -> FolderCell:
        """A directory without anything in it, opened for a cell more, beside these.

        Raises CellCommandError; then nothing was made.
        """
        directory = self._data / path
        reason = why_no_cell(directory, self._data, [self._data / cell for cell in cells])
        if reason:
            raise CellCommandError(f"cannot use {directory}: {reason}")
        try:
            folder = self.open(name, path)
        except CellInUseError as error:
            raise CellCommandError(f"cannot use {directory}: {error}") from error
        reason = folder.cell.reason.removeprefix(f"cannot use {directory}: ")
        if not reason and await read_own(folder.cell) is not None:
            reason = "it was a cell of a service before"
        elif not reason and folder.cell.partitions("", 1):
            reason = "it is the one cell of a service"
        if not reason:
            return folder
        await folder.close()
        raise CellCommandError(f"cannot use {directory}: {reason}")

"""A cell of several as a server has it."""

from collections.abc import Mapping
from typing import Protocol

from control_plane.places.watching import WatchedCell
from data_plane.ports import Cell


class ServedCell(Protocol):
    """One of the cells, and what a server has to do for it."""

    @property
    def name(self) -> str:
        """Its name, in placements and on the command line."""
        ...

    @property
    def where(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def inode(self) -> int:
        """Of the file that is open; 0: there is none."""
        ...

    @property
    def reason(self) -> str:
        """Why it does not answer, where that is known; "" otherwise."""
        ...

    @property
    def plain(self) -> Cell:
        """The cell itself."""
        ...

    def watched(self) -> WatchedCell:
        """As a watch sees it."""
        ...

    async def upkeep(self, now_us: int) -> None:
        """A bounded step, due every second. Raises CellUnavailableError."""
        ...

    def gauges(self) -> Mapping[str, float]:
        """Its own metrics."""
        ...

    async def close(self) -> None:
        """Write what is pending, and let go of it."""
        ...

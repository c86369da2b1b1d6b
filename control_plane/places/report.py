"""What is told of a service's cells, and what may be asked of them; for operations and commands."""

from dataclasses import dataclass
from typing import Protocol

from control_plane.places.items import CellRecord, CellSeen
from data_plane.replication.placement import Placement


class CellCommandError(Exception):
    """What was asked of a cell cannot be done now; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class ToldCell:
    """A cell: what the registry says, what this server sees (None: not yet), groups it has.

    Of `groups` it decides in `heads`, and gets everything for the first time in `joining`.
    """

    record: CellRecord
    seen: CellSeen | None
    groups: int
    heads: int
    joining: int
    failed: str = ""
    """Why it was failed, where somebody did."""


@dataclass(frozen=True, slots=True)
class ToldGroup:
    """A group that has queues or is not as it should be: where it lies, and what it is behind."""

    placement: Placement
    factor: int
    lag_us: int


@dataclass(frozen=True, slots=True)
class CellsReport:
    """All cells and groups; `manager` tells in lines what the cluster manager did and does."""

    cells: tuple[ToldCell, ...]
    groups: tuple[ToldGroup, ...]
    manager: tuple[str, ...]


class CellsControl(Protocol):
    """A service's cells, for whoever administers them.

    Methods raise CellCommandError, and CellUnavailableError where the registry does not answer.
    """

    async def report(self) -> CellsReport:
        """How things are."""
        ...

    async def add(self, path: str) -> str:
        """Add a cell in this directory; its name."""
        ...

    async def drain(self, name: str) -> None:
        """Let everything move away from a cell."""
        ...

    async def remove(self, name: str, *, lose_messages: bool = False) -> None:
        """Part with a cell that has nothing any more, or fails and has the only copy of nothing.

        With `lose_messages` it may have that of queues, too: they are empty then.
        """
        ...

    async def fail(self, name: str) -> None:
        """Let a cell answer nothing until it is restored."""
        ...

    async def restore(self, name: str) -> None:
        """Bring back a cell that was failed, or drained."""
        ...

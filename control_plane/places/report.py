"""What is told of a service's cells, and what may be asked of them; for operations and commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

    where: str = ""
    """The directory that is open, or was."""

    inode: int = 0
    """Of its data file, while it is open."""


@dataclass(frozen=True, slots=True)
class ToldGroup:
    """A group that has queues or is not as it should be: where it lies, and what it is behind."""

    placement: Placement
    factor: int
    lag_us: int
    queue: str = ""
    """Of an own group, the queue that lies in it; and the cells chosen for it."""

    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldManager:
    """The cluster manager: how it is, in lines what it waits for and what it does and did.

    `state` is "ok", "waits", "hangs since <time>: <step>" or "failed at <time>: <error>: <cause>";
    `gauges` are its metrics.
    """

    state: str = "ok"
    waits: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()
    gauges: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellsReport:
    """All cells and groups, and the cluster manager."""

    cells: tuple[ToldCell, ...]
    groups: tuple[ToldGroup, ...]
    manager: ToldManager


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

    async def move_queue(self, place: str, uid: str, cells: Sequence[str]) -> str:
        """Let a queue, which its definition places there, move to these cells alone: its group."""
        ...

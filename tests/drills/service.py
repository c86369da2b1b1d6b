"""A service of several cells under drill: its servers, its queues, and the books about them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import FifoBook, StandardBook
from tests.drills.caller import Caller
from tests.drills.consumers import GROUPS

STANDARD, FIFO = "drill", "drill.fifo"

_PROGRESS_S_MAX: Final = 300.0
_WHOLE_S_MAX: Final = 900.0
_LOOK_S: Final = 0.25


@dataclass
class Service:
    """Servers of the same cells, and their clients' books. `safe_s` is between two lost cells.

    The manager gives up one cell in that time; another one that is lost meanwhile is waited for.
    """

    servers: Sequence[ServerProcess]
    cells: int
    safe_s: float = 60.0
    standard: StandardBook = field(default_factory=lambda: StandardBook(STANDARD))
    fifo: FifoBook = field(default_factory=lambda: FifoBook(FIFO, GROUPS))
    others: Sequence[StandardBook | FifoBook] = ()
    """Of further queues."""

    lost_s: float = 0.0
    """When the last cell was lost."""

    returned_s: float = 0.0
    """When it was let come back."""

    noted: tuple[int, int] = (20, 120)
    """How much is noted of each queue before a failure, while it lasts, and after it."""

    is_soon: bool = False
    """Whether the last cell was lost soon after another one."""

    @property
    def server(self) -> ServerProcess:
        """The first one."""
        return self.servers[0]

    @property
    def books(self) -> Sequence[StandardBook | FifoBook]:
        """Of all queues."""
        return self.standard, self.fifo, *self.others

    @property
    def is_violated(self) -> bool:
        """Whether a promise was broken."""
        return any(book.violations for book in self.books)

    def note_loss(self, *, old_map_s: float = 0.0) -> None:
        """A cell is lost now; front ends may go by an old map for so long."""
        now_s = time.time()
        self.is_soon, self.lost_s = now_s < self.lost_s + self.safe_s, now_s
        for book in self.books:
            book.cell_lost(now_s, old_map_s)

    def note_return(self) -> None:
        """The cell that was lost comes back now."""
        self.returned_s = time.time()

    def call(self, operation: str, **params: object) -> dict[str, Any]:
        """Ask the first server. Raises RefusedError, LostConnectionError."""
        with Caller(self.server.port) as caller:
            return caller.call(operation, **params)

    def insist(self, operation: str, **params: object) -> dict[str, Any]:
        """The same, again where the answer is 503."""
        with Caller(self.server.port) as caller:
            return caller.insist(operation, **params)

    def await_progress(self, random: Random) -> None:
        """Return when clients of all queues have noted enough."""
        more = random.randint(*self.noted)
        for book in self.books:
            for what in ("sends", "deletes"):
                enough = book.tally[what] + more
                if not book.wait_for(what, enough, _PROGRESS_S_MAX) and not book.violations:
                    book.accuse("answer", f"no {what} in {_PROGRESS_S_MAX:.0f} s")

    def groups(self) -> list[dict[str, Any]]:
        """The placement groups, as the first server tells them. Raises as `call`."""
        told: list[dict[str, Any]] = self.insist("TidegateListCells")["PlacementGroups"]
        return told

    def await_whole(self) -> None:
        """Return when every group has all its members again, and all of them everything."""
        until_s = time.monotonic() + _WHOLE_S_MAX
        groups: list[dict[str, Any]] = []
        while time.monotonic() < until_s and not self.is_violated:
            groups = self.groups()
            if all(self._is_whole(group) for group in groups):
                return
            time.sleep(_LOOK_S)  # between two looks at what the manager does
        if self.is_violated:
            return
        broken = [group for group in groups if not self._is_whole(group)][:2]
        cells = self.insist("TidegateListCells")["Cells"]
        states = {cell["CellName"]: cell["State"] for cell in cells}
        said = f"not whole after {_WHOLE_S_MAX:.0f} s: {broken}, cells {states}"
        self.books[0].accuse("answer", said)

    def await_without(self, *lost: str) -> None:
        """Return when one of these cells is a member of no group that has others."""
        until_s = time.monotonic() + _PROGRESS_S_MAX
        while time.monotonic() < until_s and not self.is_violated:
            groups = [cells for cells in map(_cells, self.groups()) if len(cells) > 1]
            if any(all(cell not in cells for cells in groups) for cell in lost):
                return
            time.sleep(_LOOK_S)  # between two looks at what the manager does
        if not self.is_violated:
            named = " or ".join(lost)
            self.books[0].accuse("answer", f"{named} is not given up in {_PROGRESS_S_MAX:.0f} s")

    def _is_whole(self, group: dict[str, Any]) -> bool:
        """Groups with fewer copies have none of these queues: they may move for minutes."""
        if group["ReplicationFactor"] < self.cells:
            return True
        full = [member for member in group["Members"] if member["State"] == "full"]
        return len(full) == len(group["Members"]) == self.cells


def _cells(group: dict[str, Any]) -> list[str]:
    return [member["CellName"] for member in group["Members"]]

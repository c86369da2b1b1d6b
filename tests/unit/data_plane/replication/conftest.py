"""Three cells in memory that can be cut off, and front ends with placements of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Item, Key, Written
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.placement import Member, Placement
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.merging import lacking
from tests.unit.repeatable import HandClock


class CellThatFails(MemoryCell):
    """A cell that takes nothing while `down`."""

    down = False

    def _check(self) -> None:
        if self.down:
            raise CellUnavailableError("cut off")

    async def put(self, *call: Any, **options: Any) -> Written:
        self._check()
        return await super().put(*call, **options)

    async def update(self, *call: Any, **options: Any) -> Written:
        self._check()
        return await super().update(*call, **options)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        self._check()
        return await super().get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        self._check()
        return await super().get_many(keys, strong=strong)

    async def query(self, partition: str, **options: Any) -> list[Item]:
        self._check()
        return await super().query(partition, **options)


@dataclass
class Map:
    """A front end's present placement; `()` answers it."""

    at: Placement

    def __call__(self) -> Placement:
        return self.at


ABC = Placement("g3.00", 1, (Member("a"), Member("b"), Member("c")))


@dataclass
class Group:
    """Cells a, b, c as the members of a group, and the newest placement of it."""

    clock: HandClock = field(default_factory=HandClock)
    at: Placement = ABC

    def __post_init__(self) -> None:
        self.cells = {name: CellThatFails(self.clock) for name in "abcd"}
        self.waits = EventLoopWaits(self.clock)

    def chain(self, at: Placement | None = None) -> Chain:
        """A chain by a placement that stays as it is."""
        return Chain(Map(at or self.at), self.cells, self.waits)

    def fanout(self, at: Placement | None = None, *, acknowledge_first: bool = False) -> Fanout:
        """A fan-out by a placement that stays as it is."""
        return Fanout(
            Map(at or self.at), self.cells, self.waits, lacking, acknowledge_first=acknowledge_first
        )

    def drop(self, cell: str) -> Placement:
        """Let a member leave: the placement that follows."""
        left = tuple(member for member in self.at.members if member.cell != cell)
        self.at = replace(self.at, epoch=self.at.epoch + 1, members=left)
        return self.at

    def writes(self) -> dict[str, int]:
        """How many writes each cell got, without those of the other cells."""
        return {
            name: sum(cell.requests[kind] for kind in ("append", "put", "update", "delete"))
            for name, cell in self.cells.items()
        }

    def forget(self) -> None:
        """Count requests from here on."""
        for cell in self.cells.values():
            cell.requests.clear()


@pytest.fixture
def group() -> Group:
    return Group()

"""Cells by the names that definitions have: plain ones, and groups as their replicated cells."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from control_plane.places.cached import CachedMap
from control_plane.places.groups import FIRST, ON_CHAIN, read_place
from control_plane.places.takeover import Interruptible, WaitingCell, at_length
from data_plane.ports import Cell, CellUnavailableError, Clock, Waits
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.stored.merging import lacking


@dataclass(frozen=True, slots=True)
class Members:
    """What replicated cells are made of: the plain cells, the map, and what they wait with.

    `interruptible` ends calls of groups that lose a member: they would wait for it.
    """

    cells: Mapping[str, Cell]
    known: CachedMap
    clock: Clock
    waits: Waits
    interruptible: Interruptible = at_length

    def placed(self, group: str, inner: Chain | Fanout) -> WaitingCell:
        """A group's cell, as engines use it."""
        waits, ends = self.waits, self.interruptible
        return WaitingCell(group, inner, self.known, self.clock, waits, ends)

    def chain(self, group: str) -> Chain:
        """The group as a chain."""
        return Chain(lambda: self.known.placement(group), self.cells, self.waits)

    def fanout(self, group: str, *, acknowledge_first: bool) -> Fanout:
        """The group as a fan-out."""
        return Fanout(
            lambda: self.known.placement(group),
            self.cells,
            self.waits,
            lacking,
            acknowledge_first=acknowledge_first,
        )


class GroupCells(Mapping[str, Cell]):
    """Replicated cells by the names of groups, made when they are asked for.

    Iterating names the plain cells alone; they can be asked for, too.
    """

    def __init__(self, members: Members, make: Callable[[str, str], Chain | Fanout]) -> None:
        self._members = members
        self._make = make
        self._made: dict[str, WaitingCell] = {}

    def __getitem__(self, name: str) -> Cell:
        """The cell. Raises KeyError for what is neither a cell nor a group."""
        made = self._made.get(name)
        if made is not None:
            return made
        place = read_place(name)
        if place is None:
            return self._members.cells[name]
        made = self._made[name] = self._members.placed(place[0], self._make(*place))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._members.cells)

    def __len__(self) -> int:
        return len(self._members.cells)

    def let_go(self) -> None:
        """Let each group's cells collect some of what nobody needs, also where nobody sends.

        A bounded step without a request. A group whose map is too old to act by waits for the next;
        a cell that does not hear it leaves its items to their time to live.
        """
        for made in self._made.values():
            with suppress(CellUnavailableError):
                made.inner.let_go()

    def fanouts(self) -> dict[str, Fanout]:
        """Those that were made, by their names."""
        return {
            name: made.inner for name, made in self._made.items() if isinstance(made.inner, Fanout)
        }


def standard_cells(members: Members) -> GroupCells:
    """Cells as standard queues use them."""

    def make(group: str, how: str) -> Chain | Fanout:
        if how == ON_CHAIN:
            return members.chain(group)
        return members.fanout(group, acknowledge_first=how == FIRST)

    return GroupCells(members, make)


def fifo_cells(members: Members) -> GroupCells:
    """Cells as FIFO queues use them."""
    return GroupCells(members, lambda group, _how: members.chain(group))

"""Cells by the names that definitions have: plain ones, and groups as their replicated cells."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from control_plane.places.cached import CachedMap
from control_plane.places.groups import FIRST, ON_CHAIN, alone_in, own_group, read_place
from control_plane.places.takeover import Interruptible, WaitingCell, at_length
from data_plane.ports import Cell, CellUnavailableError, Clock, Waits
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import StalePlacementError
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

    def placed(
        self,
        group: str,
        inner: Chain | Fanout,
        heir: Callable[[str], WaitingCell] | None = None,
    ) -> WaitingCell:
        """A group's cell, as engines use it; `heir` as of it."""
        waits, ends = self.waits, self.interruptible
        return WaitingCell(group, inner, self.known, self.clock, waits, ends, heir)

    def chain(self, group: str) -> Chain:
        """The group as a chain."""
        return Chain(
            lambda: self.known.placement(group),
            self.cells,
            self.waits,
            lambda: self.known.alone(group),
            lambda: self.known.latest(group),
        )

    def fanout(
        self, group: str, *, acknowledge_first: bool, heir: Callable[[str], Fanout] | None = None
    ) -> Fanout:
        """The group as a fan-out; `heir` as of it."""
        return Fanout(
            lambda: self.known.placement(group),
            self.cells,
            self.waits,
            lacking,
            acknowledge_first=acknowledge_first,
            alone=lambda: self.known.alone(group),
            heir=heir,
            latest=lambda: self.known.latest(group),
        )


class GroupCells(Mapping[str, Cell]):
    """Replicated cells by the names of groups, made when they are asked for.

    Iterating names the plain cells alone; they can be asked for, too. Without `as_chains` queues
    lie in fan-outs where their places do not say otherwise.
    """

    def __init__(self, members: Members, *, as_chains: bool) -> None:
        self._members = members
        self._as_chains = as_chains
        self._made: dict[str, WaitingCell] = {}

    def __getitem__(self, name: str) -> Cell:
        """The cell. Raises KeyError for what is neither a cell nor a group."""
        made = self._made.get(name)
        if made is not None:
            return made
        place = read_place(name)
        return self._members.cells[name] if place is None else self._make(name, *place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members.cells)

    def __len__(self) -> int:
        return len(self._members.cells)

    def _make(self, name: str, group: str, how: str) -> WaitingCell:
        def heir(uid: str) -> WaitingCell:
            own = own_group(group, uid)
            its_name = f"{own}/{how}" if how else own
            its_cell = self._made.get(its_name)
            if its_cell is None:
                its_cell = self._make(its_name, own, how)
                if isinstance(inner, Fanout):
                    with suppress(StalePlacementError):  # Else the next shipment does it.
                        inner.hand_over()
            return its_cell

        def its_fanout(uid: str) -> Fanout:
            inner = heir(uid).inner
            if not isinstance(inner, Fanout):
                raise TypeError(f"{name} is a fan-out, and the own group of {uid} is none")
            return inner

        inner: Chain | Fanout
        if self._as_chains or how == ON_CHAIN:
            inner = self._members.chain(group)
        else:
            first = how == FIRST
            inner = self._members.fanout(group, acknowledge_first=first, heir=its_fanout)
        made = self._made[name] = self._members.placed(group, inner, heir)
        return made

    def let_go(self) -> None:
        """Let each group's cells collect some of what nobody needs, also where nobody sends.

        A bounded step without a request. A group whose map is too old to act by waits for the next;
        a cell that does not hear it leaves its items to their time to live. Own groups of queues
        that are gone are forgotten.
        """
        known = self._members.known.placements
        for name, made in list(self._made.items()):
            place = read_place(name)
            if place is not None and alone_in(place[0]) and place[0] not in known:
                del self._made[name]
                continue
            with suppress(CellUnavailableError):
                made.inner.let_go()

    def fanouts(self) -> dict[str, Fanout]:
        """Those that were made, by their names."""
        return {
            name: made.inner for name, made in self._made.items() if isinstance(made.inner, Fanout)
        }


def standard_cells(members: Members) -> GroupCells:
    """Cells as standard queues use them."""
    return GroupCells(members, as_chains=False)


def fifo_cells(members: Members) -> GroupCells:
    """Cells as FIFO queues use them."""
    return GroupCells(members, as_chains=True)

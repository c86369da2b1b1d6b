"""Several embedded cells as one service's: watched, failed and brought back, added and removed.

`control_plane/several_opening.py` opens them. The registry lies on a chain over all of them, whose
own placement this process sees to; that of the groups is the cluster manager's business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from control_plane.cell_folders import FolderCell, Folders
from control_plane.places.beating import Heart
from control_plane.places.cached import CachedMap
from control_plane.places.changes import PlacementChangeError
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.groups import REGISTRY
from control_plane.places.items import (
    ACTIVE,
    DRAINING,
    EMBEDDED,
    REMOVED,
    CellRecord,
    CellSeen,
    StoredPlacement,
)
from control_plane.places.own import OWN, OwnPlacement, names_of
from control_plane.places.placing import GroupPlacing
from control_plane.places.report import CellCommandError, CellsReport, ToldCell, ToldGroup
from control_plane.places.stored import PlaceMap, Places, StalePlanError
from control_plane.places.watching import STORED_PROBE, CellWatch, WatchedCell
from data_plane.embedded.store import CellOpenError
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.replication.placement import INCARNATION_MARK, partition_of

REGISTRY_DOWN_US: Final = 1_500_000
"""A cell that fails for so long leaves the registry's chain, without which nothing is decided."""

BEAT_PERIOD_S: Final = 2.0
WATCH_PERIOD_S: Final = 0.5
SHIP_PERIOD_S: Final = 0.05

_OF_REGISTRY: Final = frozenset(f"{kind}|" for kind in "ACDIJKMNPQWXY")
"""How partitions of the registry begin (docs/storage.md); no partition of messages does."""

_OF_CELL: Final = frozenset({OWN.partition, STORED_PROBE.partition})
"""Those that each cell has for itself."""

_PARTITIONS_AT_ONCE: Final = 1000
_NONCE_BYTES: Final = 8
_GIVEN_UP_BY_HAND: Final = "an operator has failed it"

LOG: Final = logging.getLogger(__name__)

Step = tuple[float, Callable[[], Awaitable[object]]]
"""What is to be done over and over again, and after how many seconds."""


@dataclass(slots=True)
class Opened:
    """The cells of a service by their names, in the forms in which they are asked for."""

    folders: dict[str, FolderCell] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    plain: dict[str, Cell] = field(default_factory=dict)
    watched: dict[str, WatchedCell] = field(default_factory=dict)

    def add(self, folder: FolderCell, path: str, clock: Clock) -> None:
        """Another cell, in a directory that is stored as `path`."""
        self.folders[folder.name] = folder
        self.paths[folder.name] = path
        self.plain[folder.name] = folder.cell
        self.watched[folder.name] = folder.watched(clock)

    def drop(self, name: str) -> FolderCell:
        """One less."""
        del self.plain[name], self.watched[name], self.paths[name]
        return self.folders.pop(name)


class SeveralCells:
    """What a server of several embedded cells is made of. It belongs to the running event loop.

    It is the CellsControl of operations. `manager` answers what the cluster manager tells.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of, and three ports
        self,
        cells: Opened,
        own: OwnPlacement,
        folders: Folders,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        self.cells = cells
        self.own = own
        self._clock = clock
        self._entropy = entropy
        self._folders = folders
        self._probes: set[asyncio.Task[None]] = set()
        self.known = CachedMap(self._read, clock, own)
        members = Members(cells.plain, self.known, clock, waits)
        chain = members.chain(REGISTRY)
        self.places = Places(chain, clock, entropy, own, self.known.note)
        self.control: Cell = members.placed(chain)
        self.standard: GroupCells = standard_cells(members)
        self.fifo: GroupCells = fifo_cells(members)
        self.placing = GroupPlacing(self.control, self._count)
        self.watch = CellWatch(cells.watched, clock)
        front_end = entropy.random_bytes(6).hex()
        self.heart = Heart(front_end, self.watch, self.known, clock, self.standard.fanouts)
        self.manager: Callable[[], tuple[str, ...]] = lambda: ()

    async def _read(self) -> PlaceMap:
        return await self.places.read_all()

    def _count(self) -> int:
        return len(self._present())

    def _present(self) -> list[str]:
        records = self.known.cells.values()
        return sorted(record.name for record in records if record.state != REMOVED)

    # What a server does beside requests

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done over and over again."""
        return (
            (WATCH_PERIOD_S, self.look),
            (BEAT_PERIOD_S, self.beat),
            (SHIP_PERIOD_S, self.ship),
        )

    async def look(self) -> None:
        """Probe the cells, take one that fails out of the registry's chain, read the map.

        Raises CellUnavailableError where the registry does not answer.
        """
        for name in self.watch.idle():
            probe = asyncio.create_task(self.watch.probe(name), name=f"probe {name}")
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        self.watch.look()
        for name in self.watch.failing(REGISTRY_DOWN_US):
            await self._leave_registry(name)
        await self.own.mend()
        await self.known.refresh()

    async def _leave_registry(self, name: str) -> None:
        placement = self.own.placement()
        if all(member.cell != name for member in placement.members):
            return
        try:
            await self.places.drop_member(REGISTRY, name, epoch=placement.epoch)
        except PlacementChangeError as error:
            LOG.warning("%s fails, and the registry keeps it: %s", name, error)
        except StalePlanError:
            return  # Somebody else has just changed it; the next look sees to the rest.
        else:
            LOG.warning("%s fails, and has left the registry's chain", name)

    async def beat(self) -> None:
        """Tell what this front end sees. Raises CellUnavailableError."""
        await self.places.beat(self.heart.beat())

    async def ship(self) -> None:
        """Tell the copies of standard queues what consumers did."""
        for fanout in self.standard.fanouts().values():
            if fanout.lag_us(self._clock.now_us()):
                await fanout.ship()

    async def registry_partitions(self) -> list[str]:
        """What the registry consists of, as its last full member has it: for who copies it.

        Raises CellUnavailableError.
        """
        placement = self.own.placement()
        member = placement.members[placement.tail]
        folder = self.cells.folders.get(member.cell)
        if folder is None:
            raise CellUnavailableError(f"there is no cell {member.cell}")
        found: list[str] = []
        after = ""
        while names := folder.cell.partitions(after, _PARTITIONS_AT_ONCE):
            after = names[-1]
            for name in names:
                plain = name.partition(INCARNATION_MARK)[0]
                if partition_of(member, plain) != name or plain in _OF_CELL:
                    continue
                if plain[:2] in _OF_REGISTRY:
                    found.append(plain)
            await asyncio.sleep(0)
        return found

    async def close(self) -> None:
        """Tell the copies the rest, and let go of all directories."""
        await self.ship()
        for probe in self._probes:
            probe.cancel()
        for folder in self.cells.folders.values():
            await folder.cell.close()

    # What operators ask for

    async def report(self) -> CellsReport:
        """How things are."""
        await self.known.refresh()
        lags, seen = self.heart.lags_us(), self.watch.report({})
        placements = self.known.placements
        told = tuple(
            self._told(record, seen, placements)
            for record in self.known.cells.values()
            if record.state != REMOVED
        )
        groups = tuple(
            ToldGroup(held.placement, held.factor, lags.get(group, 0))
            for group, held in sorted(placements.items())
        )
        return CellsReport(told, groups, self.manager())

    def _told(
        self,
        record: CellRecord,
        seen: Mapping[str, CellSeen],
        placements: Mapping[str, StoredPlacement],
    ) -> ToldCell:
        members = [
            (at, member)
            for held in placements.values()
            for at, member in enumerate(held.placement.members)
            if member.cell == record.name
        ]
        folder = self.cells.folders.get(record.name)
        return ToldCell(
            record,
            seen.get(record.name),
            len(members),
            sum(at == 0 for at, _ in members),
            sum(not member.full for _, member in members),
            folder.cell.reason if folder is not None else "it is not open",
        )

    async def add(self, path: str) -> str:
        """Add a cell in this directory, which is made; its name."""
        taken = {*self.known.cells, *self.own.paths}
        name = next(name for n in range(1, 1000) if (name := f"cell-{n}") not in taken)
        path = self._folders.text_of(path)
        if path in self.own.paths.values():
            raise CellCommandError(f"{path} is a cell of this service already")
        folder = self._folders.open(name, path)
        reason = folder.cell.reason
        if not reason and await names_of(folder.cell) is not None:
            reason = "it was a cell of a service before"
            await folder.cell.close()
        if reason:
            raise CellCommandError(f"cannot use {path}: {reason}")
        self.cells.add(folder, path, self._clock)
        await self.own.change_cells({**self.own.paths, name: path}, self._nonce())
        await self.make_missing()
        return name

    async def make_missing(self) -> None:
        """Put what the registry lacks of cells and groups. Raises CellUnavailableError."""
        known = (await self.places.read_all()).cells
        for name, path in sorted(self.own.paths.items()):
            if name not in known:
                await self.places.put_cell(self.record(name, path))
        known = (await self.places.read_all()).cells
        present = sorted(name for name, record in known.items() if record.state != REMOVED)
        await self.places.make_missing(present)
        await self.known.refresh()

    async def give_up_lost(self, name: str) -> None:
        """Take a cell that has lost everything out of its groups: then it may join anew.

        Raises CellCommandError where it had the only copies of queues, CellUnavailableError.
        """
        for group, held in (await self.places.read_all()).placements.items():
            if all(member.cell != name for member in held.placement.members):
                continue
            epoch = held.placement.epoch
            try:
                await self.places.drop_member(group, name, epoch=epoch)
            except PlacementChangeError as error:
                if await self.placing.queues_of(group):
                    raise CellCommandError(f"{name} is empty, and {error}") from error
                await self._move(group, name, epoch)
        self.own.empty.discard(name)
        await self.own.mend()
        await self.known.refresh()

    async def _move(self, group: str, name: str, epoch: int) -> None:
        """Let another cell have a group without queues: there is nothing to be copied."""
        other = next(cell for cell in self._present() if cell != name)
        joined = await self.places.add_joining(group, other, epoch=epoch)
        full = await self.places.make_full(group, other, epoch=joined.placement.epoch)
        await self.places.drop_member(group, name, epoch=full.placement.epoch, forced=True)

    def record(self, name: str, path: str) -> CellRecord:
        """What the registry is told of a new cell."""
        now_us = self._clock.now_us()
        return CellRecord(
            name, EMBEDDED, {"path": path}, since_us=now_us, created_s=now_us // 1_000_000
        )

    async def drain(self, name: str) -> None:
        """Let everything move away from a cell, a group at a time; the manager sees to it."""
        self._folder(name)
        await self.places.set_state(name, DRAINING)

    async def remove(self, name: str) -> None:
        """Part with a cell that has nothing any more."""
        self._folder(name)
        await self.known.refresh()
        has = [
            group
            for group, held in sorted(self.known.placements.items())
            if any(member.cell == name for member in held.placement.members)
        ]
        if has:
            raise CellCommandError(
                f"{name} has {len(has)} groups yet ({has[0]}, ...): drain it, and wait"
            )
        await self.places.set_state(name, REMOVED)
        paths = {cell: path for cell, path in self.own.paths.items() if cell != name}
        await self.own.change_cells(paths, self._nonce())
        folder = self.cells.drop(name)
        await folder.cell.fail("it was removed")

    async def fail(self, name: str) -> None:
        """Let a cell answer nothing until it is restored, or the server starts again."""
        folder = self._folder(name)
        left = [other for other in self.cells.folders.values() if other.cell.cell is not None]
        if folder in left and 2 * (len(left) - 1) <= len(self.own.paths):
            raise CellCommandError(
                f"without {name} no more than {len(left) - 1} of {len(self.own.paths)} cells answer"
            )
        await folder.cell.fail(_GIVEN_UP_BY_HAND)
        LOG.warning("%s was failed by an operator", name)

    async def restore(self, name: str) -> None:
        """Bring back a cell that was failed or drained: the manager lets it join again."""
        folder = self._folder(name)
        if self.known.cells[name].state == DRAINING:
            await self.places.set_state(name, ACTIVE)
        try:
            folder.cell.restore()
        except (CellOpenError, OSError) as error:
            raise CellCommandError(f"cannot open {folder.path}: {error}") from error
        if await names_of(folder.cell) is None:
            self.own.empty.add(name)
        if name in self.own.empty:
            try:
                await self.give_up_lost(name)
            except CellCommandError as error:
                await folder.cell.fail(str(error))
                raise
        LOG.warning("%s was restored by an operator", name)

    def _folder(self, name: str) -> FolderCell:
        folder = self.cells.folders.get(name)
        if folder is None:
            raise CellCommandError(f"there is no cell {name}")
        return folder

    def _nonce(self) -> bytes:
        return self._entropy.random_bytes(_NONCE_BYTES)

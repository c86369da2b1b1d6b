"""Several embedded cells as one service's: failed and brought back, added and removed.

`control_plane/several_opening.py` opens them. The registry lies on a chain over all of them, whose
own placement this process sees to; that of the groups is the cluster manager's business.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from control_plane.cell_folders import FolderCell, Folders
from control_plane.export.door import CopyDoors
from control_plane.places.changes import PlacementChangeError
from control_plane.places.group_cells import Members
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, EMBEDDED, FAILED, FULL, CellRecord
from control_plane.places.own import OWN, OwnPlacement, names_of
from control_plane.places.report import CellCommandError
from control_plane.places.stored import StalePlanError
from control_plane.places.watching import STORED_PROBE
from control_plane.together import Together
from data_plane.embedded.store import CellOpenError
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.replication.placement import INCARNATION_MARK, partition_of

REGISTRY_DOWN_US: Final = 1_500_000
"""A cell that fails for so long leaves the registry's chain, without which nothing is decided."""

GRACE_US: Final = 10_000_000
"""No request of this process is older, and no other process has its cells."""

_OF_REGISTRY: Final = frozenset(f"{kind}|" for kind in "ACDIJKMNPQWXY")
"""How partitions of the registry begin (docs/storage.md); no partition of messages does."""

_OF_CELL: Final = frozenset({OWN.partition, STORED_PROBE.partition})
"""Those that each cell has for itself."""

_PARTITIONS_AT_ONCE: Final = 1000
_NONCE_BYTES: Final = 8
_GIVEN_UP_BY_HAND: Final = "an operator has failed it"

LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    """Opened directories by the names of their cells, which are stored as `paths`."""

    folders: dict[str, FolderCell] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    plain: dict[str, Cell] = field(default_factory=dict)

    def add(self, folder: FolderCell, path: str) -> None:
        """Another cell."""
        self.folders[folder.name] = folder
        self.paths[folder.name] = path
        self.plain[folder.name] = folder.cell

    def drop(self, name: str) -> FolderCell:
        """One less."""
        del self.plain[name], self.paths[name]
        return self.folders.pop(name)


class SeveralCells(Together):
    """The embedded cells of a server. It is the CellsControl of operations."""

    grace_us = GRACE_US

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of, and three ports
        self,
        cells: Opened,
        own: OwnPlacement,
        folders: Folders,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        def registry(members: Members) -> tuple[Cell, Cell]:
            chain = members.chain(REGISTRY)
            return chain, members.placed(REGISTRY, chain)

        super().__init__(registry, own, cells.plain, clock, entropy, waits)
        self.cells = cells
        self.own = own
        self._folders = folders
        self._doors = CopyDoors()
        for folder in cells.folders.values():
            self._serve(folder)

    def _records(self) -> list[CellRecord]:
        return [
            self._record(name, EMBEDDED, {"path": path})
            for name, path in sorted(self.own.paths.items())
        ]

    async def look(self) -> None:
        """As for all cells; take one that fails out of the registry's chain; hand out copies.

        One that has closed itself does not come back: the manager need not wait to see that.
        """
        await self._keep_doors()
        closed = [name for name, one in self.cells.folders.items() if one.reason]
        for name in {*closed, *self.watch.failing(REGISTRY_DOWN_US)}:
            await self._leave_registry(name)
        await self.own.mend()
        await super().look()
        for name in closed:
            record = self.known.cells.get(name)
            if record is not None and record.state in (ACTIVE, FULL):
                LOG.warning("%s has failed: %s", name, self.cells.folders[name].reason)
                await self._call(name, FAILED)

    async def _keep_doors(self) -> None:
        await self._doors.keep(
            {one.path: one.cell.copy for one in self.cells.folders.values() if not one.reason}
        )

    async def close(self) -> None:
        """As for all cells."""
        await self._doors.close()
        await super().close()

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

    # What operators ask for

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
        self.cells.add(folder, path)
        self._serve(folder)
        await self.own.change_cells({**self.own.paths, name: path}, self._nonce())
        await self.make_missing()
        return name

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
                await self._place_anew(group, name, epoch)
        self.own.empty.discard(name)
        await self.own.mend()
        await self.known.refresh()

    async def drain(self, name: str) -> None:
        """As for all cells; the registry, which lies in all cells, leaves it at once."""
        placement = self.own.placement()
        if any(member.cell == name for member in placement.members):
            try:
                await self.places.drop_member(REGISTRY, name, epoch=placement.epoch)
            except PlacementChangeError as error:
                raise CellCommandError(str(error)) from error
        await super().drain(name)

    async def remove(self, name: str, *, lose_messages: bool = False) -> None:
        """As for all cells; its directory stays where it is."""
        await super().remove(name, lose_messages=lose_messages)
        paths = {cell: path for cell, path in self.own.paths.items() if cell != name}
        await self.own.change_cells(paths, self._nonce())
        self._part_with(name)
        await self.cells.drop(name).cell.fail("it was removed")

    async def fail(self, name: str) -> None:
        """Let a cell answer nothing until it is restored, or the server starts again."""
        folder = self._folder(name)
        left = [other for other in self.cells.folders.values() if not other.reason]
        if folder in left and 2 * (len(left) - 1) <= len(self.own.paths):
            raise CellCommandError(
                f"without {name} no more than {len(left) - 1} of {len(self.own.paths)} cells answer"
            )
        # The registry first: once the cell is closed nothing is stored there before it has left.
        await self._leave_registry(name)
        await self._call(name, FAILED)
        await folder.cell.fail(_GIVEN_UP_BY_HAND)
        await self._keep_doors()  # nothing of it is open any more: its disk may be taken away
        LOG.warning("%s was failed by an operator", name)

    async def restore(self, name: str) -> None:
        """Bring back a cell that was failed or drained: the manager lets it join again."""
        folder = self._folder(name)
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
        await super().restore(name)
        LOG.warning("%s was restored by an operator", name)

    async def take_back_failed(self) -> None:
        """Let cells that were called failed before this start, and are open now, take part again.

        Raises CellUnavailableError.
        """
        for name, folder in self.cells.folders.items():
            if not folder.reason and self.known.cells[name].state == FAILED:
                await self._call(name, ACTIVE)

    def _folder(self, name: str) -> FolderCell:
        folder = self.cells.folders.get(name)
        if folder is None:
            raise CellCommandError(f"there is no cell {name}")
        return folder

    def _nonce(self) -> bytes:
        return self._entropy.random_bytes(_NONCE_BYTES)

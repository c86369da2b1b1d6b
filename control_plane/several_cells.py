"""Several embedded cells as one service's: failed and brought back, added and removed.

`control_plane/several_opening.py` opens them. The registry lies on a chain over all of them, whose
own placement this process sees to; that of the groups is the cluster manager's business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from control_plane.cell_folders import FolderCell, Folders
from control_plane.core.identity import Found, Standing, judge
from control_plane.export.door import CopyDoors
from control_plane.failing import Left
from control_plane.places.changes import PlacementChangeError
from control_plane.places.group_cells import Members
from control_plane.places.groups import REGISTRY
from control_plane.places.items import ACTIVE, EMBEDDED, FAILED, FULL, CellRecord
from control_plane.places.own import OWN, OwnPlacement, read_own
from control_plane.places.report import CellCommandError
from control_plane.places.stored import StalePlanError, by_what_is_now
from control_plane.places.watching import STORED_PROBE
from control_plane.together import Together
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.copying import CopySource
from data_plane.embedded.store import CellOpenError
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.replication.placement import INCARNATION_MARK, partition_of
from data_plane.stored.keys import is_of_shard

REGISTRY_DOWN_US: Final = 1_500_000
"""A cell that fails for so long leaves the registry's chain, without which nothing is decided."""

GRACE_US: Final = 10_000_000
"""No request of this process is older, and no other process has its cells."""

IDLE_BEAT_US: Final = 60_000_000
"""Between two heartbeats while nothing happens."""

_OF_REGISTRY: Final = frozenset(f"{kind}|" for kind in "ACDIJKMNOPQWXYZ")
"""How partitions of the registry begin (docs/storage.md); of others only logs of shards do."""

_OF_CELL: Final = frozenset({OWN.partition, STORED_PROBE.partition})
"""Those that each cell has for itself."""

_PARTITIONS_AT_ONCE: Final = 1000
_NONCE_BYTES: Final = 8
_LAST_WORD_S_MAX: Final = 2.0
_CHANGE_TRIES: Final = 100
_CHANGE_PAUSE_S: Final = 0.05
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
        self._left = Left(own, self.known, self.parting)
        self._folders = folders
        self._beaten: object = None
        self._beats_again_us = 0
        self._doors = CopyDoors()
        self._kept: dict[str, str] = {}
        """Failing cells that the registry keeps, and why: that is said once."""

        self.watch.failed = self._tell_missing
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
        self.probe()  # also where the registry does not answer: that shows when its cells are back
        await self._keep_doors()
        closed = [name for name, one in self.cells.folders.items() if one.cell.reason]
        failing = {*closed, *self.watch.failing(REGISTRY_DOWN_US)}
        self._kept = {name: why for name, why in self._kept.items() if name in failing}
        for name in failing:
            await self._leave_registry(name)
        await self.own.mend()
        await self.known.refresh()
        for name in closed:
            record = self.known.cells.get(name)
            if record is not None and record.state in (ACTIVE, FULL):
                LOG.warning("%s has failed: %s", name, self.cells.folders[name].reason)
                await self._call(name, FAILED, (ACTIVE, FULL))

    async def beat(self) -> None:
        """As for all cells; seldom while nothing happens, for nobody else has these cells.

        What the next start reads of it is only until when all copies had been told everything.
        """
        now = self.heart.beat()
        is_idle = not now.requests_per_s and self.heart.has_told_all()
        shown = now.epochs, {name: seen.answers for name, seen in now.cells.items()}
        is_due = not 0 <= self._beats_again_us - now.time_us <= IDLE_BEAT_US
        if is_idle and shown == self._beaten and not is_due:
            return
        await super().beat()
        self._beaten, self._beats_again_us = shown, now.time_us + IDLE_BEAT_US

    def _tell_missing(self, name: str) -> None:
        folder = self.cells.folders.get(name)
        if folder is not None and folder.cell.missing:
            LOG.error("%s answers nothing: %s", name, folder.reason)

    async def _keep_doors(self) -> None:
        await self._doors.keep(
            {one.path: one.cell.copy for one in self.cells.folders.values() if not one.reason}
        )

    def sources(self) -> list[CopySource]:
        """The cells that a backup has, and why it has not the others."""
        folders = sorted(self.cells.folders.items())
        return [CopySource(name, one.cell.copying, one.reason) for name, one in folders]

    async def close(self) -> None:
        """As for all cells. Copies that were made meanwhile are stale from then on."""
        try:
            await self._doors.close()
            await self._advance(self.cells.folders)
            await super().close()
        finally:
            self._folders.unlock()

    async def _leave_registry(self, name: str) -> None:
        placement = self.own.placement()
        if all(member.cell != name for member in placement.members):
            return
        try:
            await self.places.drop_member(REGISTRY, name, epoch=placement.epoch)
        except PlacementChangeError as error:
            if self._kept.get(name) != str(error):
                LOG.warning("%s fails, and the registry keeps it: %s", name, error)
            self._kept[name] = str(error)
        except StalePlanError:
            return  # Somebody else has just changed it; the next look sees to the rest.
        else:
            self._kept.pop(name, None)
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
                if plain[:2] in _OF_REGISTRY and not is_of_shard(plain):
                    found.append(plain)
            await asyncio.sleep(0)
        return found

    # What operators ask for

    async def add(self, path: str) -> str:
        """Add a cell in this directory, which is made; its name. A try of before goes on."""
        path = self._folders.text_of(path)
        if path in self.own.paths.values():
            raise CellCommandError(f"{path} is a cell of this service already")
        tried = {its: name for name, its in self.cells.paths.items() if name not in self.own.paths}
        name = tried.get(path) or await self._open_new(path)
        await self._when_it_may(
            lambda: self.own.change_cells({**self.own.paths, name: path}, self._nonce())
        )
        await self._when_it_may(self.own.spread)
        await by_what_is_now(self.make_missing)  # the registry may lose or get a member meanwhile
        return name

    async def _open_new(self, path: str) -> str:
        """Open another cell in this directory, which few know of yet; its name."""
        taken = {*self.known.cells, *self.own.paths, *self.cells.folders}
        name = next(name for n in range(1, 1000) if (name := f"cell-{n}") not in taken)
        folder = await self._folders.open_new(name, path, self.own.paths.values())
        self.cells.add(folder, path)
        self._serve(folder)
        return name

    async def give_up_lost(self, name: str, *, sets_aside: bool = True) -> None:
        """Let a cell that has lost everything join anew: its groups go on with others.

        What is in its directory is set aside. Raises CellCommandError where those that are lost
        had the only copies of queues: then nothing is changed. And CellUnavailableError, OSError.
        """
        await by_what_is_now(lambda: self._leave_registry_lost(name))
        await by_what_is_now(lambda: self.parting.leave_groups(name, self.own.empty | {name}))
        folder = self._folder(name)
        await folder.cell.fail("it joins anew")
        if sets_aside and (aside := self._folders.set_aside(self.own.paths[name])):
            LOG.warning("cells: what was in %s is in %s now", folder.path, aside)
        try:
            await self._let_in(folder, folder.cell.opened_anew())
        except CellOpenError as error:
            raise CellCommandError(f"cannot open {folder.path}: {error}") from error
        await self.own.mend()
        await self.known.refresh()

    async def _let_in(self, folder: FolderCell, cell: EmbeddedCell) -> None:
        """Let everybody have what is in this directory, once it has a new incarnation."""
        try:
            await self._when_it_may(lambda: self.own.let_in(folder.name, cell))
        except BaseException:
            await cell.close()
            raise
        folder.cell.restore(cell)

    async def _when_it_may(self, change: Callable[[], Awaitable[None]]) -> None:
        """Do it once nobody else changes what all cells know."""
        for tries_left in reversed(range(_CHANGE_TRIES)):
            try:
                await change()
                break
            except StalePlanError:
                if not tries_left:
                    raise CellUnavailableError("others change the cells all the time") from None
                await asyncio.sleep(_CHANGE_PAUSE_S)

    async def _leave_registry_lost(self, name: str) -> None:
        """Let the registry go on without a cell that has nothing: before it may not be readable.

        Raises CellCommandError where no other one has it, CellUnavailableError, StalePlanError.
        """
        epoch = self.own.placement().epoch
        try:
            await self.places.drop_member(REGISTRY, name, epoch=epoch, forced=True)
        except PlacementChangeError as error:
            raise CellCommandError(
                f"{name} is empty, and {error}: put back its directory and start again"
            ) from error

    async def drain(self, name: str) -> None:
        """As for all cells; the registry, which lies in all cells, leaves it at once."""
        with self._with_most(), self._aside(name):
            placement = self.own.placement()
            if any(member.cell == name for member in placement.members):
                try:
                    await self.places.drop_member(REGISTRY, name, epoch=placement.epoch)
                except PlacementChangeError as error:
                    raise CellCommandError(
                        f"{error}: `tidegate cells add` gives it another cell first"
                    ) from error
            await super().drain(name)
            await self._leave_registry(name)  # whoever let it in again did not know yet

    @contextmanager
    def _aside(self, name: str) -> Iterator[None]:
        """Keep the manager from letting a cell into the registry again before it is told why."""
        self.watch.aside.add(name)
        try:
            yield
        finally:
            self.watch.aside.discard(name)

    @contextmanager
    def _with_most(self) -> Iterator[None]:
        """Raise CellCommandError, with what helps, where most cells are not there to store it."""
        try:
            yield
        except CellUnavailableError as error:
            folders = self.cells.folders.items()
            away = [
                f"{name}: {one.cell.missing or one.reason}" for name, one in folders if one.reason
            ]
            if 2 * len(away) < len(self.own.paths):
                raise
            raise CellCommandError(
                f"{error}, and nothing can be changed without most of them ({', '.join(away)}); put"
                " them back, or start the server again: it goes on with what it finds, or says what"
                " it would lose"
            ) from error

    async def remove(self, name: str, *, lose_messages: bool = False) -> None:
        """As for all cells; its directory stays where it is."""
        if name in self._present() or name not in self.own.paths:  # else a try of before got so far
            await super().remove(name, lose_messages=lose_messages)
        paths = {cell: path for cell, path in self.own.paths.items() if cell != name}
        await self.own.change_cells(paths, self._nonce())
        self._part_with(name)
        self.own.shut(name)
        self.own.empty.discard(name)
        await self.cells.drop(name).cell.fail("it was removed")
        await self._advance(self.cells.folders)

    async def _advance(self, names: Iterable[str]) -> None:
        """Let copies of directories from before be stale from now on, if that takes no time."""
        open_ones = [name for name in names if not self.cells.folders[name].reason]

        async def advance() -> None:
            await self.own.advance(open_ones)
            await self.own.spread()

        with suppress(CellUnavailableError, TimeoutError):
            await asyncio.wait_for(self._when_it_may(advance), _LAST_WORD_S_MAX)

    async def fail(self, name: str) -> None:
        """Let a cell answer nothing until it is restored, or the server starts again.

        Half of the cells go on where the manifest has what only they know; less do not.
        """
        folder = self._folder(name)
        answers = not folder.reason
        before = self.known.cells[name].state
        if answers:
            await self._left.check(name, self._others(name))
        elif folder.cell.missing:  # what is open ends with it
            await self.parting.check_other_copies(name, self._way_back(name), self._others(name))
        # The registry first: once the cell is closed nothing is stored there before it has left.
        with self._with_most(), self._aside(name):
            await self._leave_registry(name)
            await self._call(name, FAILED)
            await self._leave_registry(name)  # whoever let it in again did not know yet
            if answers:
                await self._check_again(name, before)
        left = self._others(name)
        await self._advance([name])
        self.own.shut(name)
        await folder.cell.fail(_GIVEN_UP_BY_HAND)
        await self._keep_doors()  # nothing of it is open any more: its disk may be taken away
        LOG.warning("%s was failed by an operator; %s answer", name, ", ".join(sorted(left)))

    async def _check_again(self, name: str, before: str) -> None:
        """Let it answer on, as it was, where others have let go meanwhile of what it has."""
        try:
            await self._left.check(name, self._others(name))
        except CellCommandError:
            await self._call(name, before, (FAILED,))
            raise

    def _others(self, name: str) -> list[str]:
        """The other cells that answer."""
        states = self.states().items()
        return [other for other, state in states if other != name and state != "unavailable"]

    def _way_back(self, name: str) -> str:
        folder = self.cells.folders.get(name)
        if folder is not None and folder.cell.missing:
            return folder.cell.missing
        if name in self.own.empty:
            return self._puts_back(name)
        return f"`tidegate cells restore {name}` brings it back"

    def _puts_back(self, name: str) -> str:
        return f"put its directory back as it was last, and `tidegate cells restore {name}`"

    def _goes_on(self, name: str) -> str:
        folder = self.cells.folders.get(name)
        if folder is None or not folder.cell.missing:
            return ""
        return f"`tidegate cells restore {name}` goes on with the copies of others"

    async def restore(self, name: str) -> None:
        """Bring back a cell that was failed or drained: the manager lets it join again.

        What is in its directory is looked at before anybody has it.
        """
        with self._with_most():
            await self._restore(name)
        LOG.warning("%s was restored by an operator", name)

    async def _restore(self, name: str) -> None:
        folder = self._folder(name)
        with suppress(CellUnavailableError):
            await folder.cell.look_at_file()  # it may be back
        # What stands at its path instead is never what its groups rely on.
        is_other = bool(folder.cell.missing)
        if is_other:
            await self._leave_registry_lost(name)
            await self.parting.check_other_copies(name, self._way_back(name), self._others(name))
        if folder.reason:  # It may have closed itself, and keep its directory from others.
            await folder.cell.fail(folder.reason)
        if folder.cell.cell is None:
            try:
                await self._take_back(folder, is_other=is_other)
            except (CellOpenError, OSError) as error:
                raise CellCommandError(f"cannot open {folder.path}: {error}") from error
        await super().restore(name)

    async def _take_back(self, folder: FolderCell, *, is_other: bool) -> None:
        """Open a directory anew; what `is_other` stands there instead of what was open.

        Raises CellCommandError, CellOpenError, OSError.
        """
        name, path = folder.name, self.own.paths[folder.name]
        self.own.shut(name)
        if self._folders.is_replaced(path):
            one = judge(self.own.knowledge, [Found(path, is_replaced=True)]).cells[name]
        else:
            cell = folder.cell.opened_anew()
            try:
                own = await read_own(cell)
                has_other = own is None and bool(cell.partitions("", 1))
                found = Found(path, own.said if own is not None else None, has_other=has_other)
                one = judge(self.own.knowledge, [found]).cells[name]
            except BaseException:
                await cell.close()
                raise
            if one.standing is Standing.CURRENT and not is_other:
                self.own.empty.discard(name)
                await self._let_in(folder, cell)
                return
            await cell.close()
        LOG.warning("cells: %s", one)
        if not one.standing.is_lost and one.standing is not Standing.CURRENT:
            raise CellCommandError(f"{folder.path} has another cell of this service")
        self.own.empty.add(name)
        try:
            await self.give_up_lost(name, sets_aside=one.standing is not Standing.EMPTY)
        except CellCommandError as error:
            await folder.cell.fail(f"{one}, and {error}")
            raise CellCommandError(f"{one}, and {error}") from error

    async def take_back_failed(self) -> None:
        """Let cells that were called failed before this start, and are open now, take part again.

        Raises CellUnavailableError.
        """
        for name, folder in self.cells.folders.items():
            if not folder.reason and self.known.cells[name].state == FAILED:
                await self._call(name, ACTIVE, (FAILED,))

    def _folder(self, name: str) -> FolderCell:
        folder = self.cells.folders.get(name)
        if folder is None:
            raise CellCommandError(f"there is no cell {name}")
        return folder

    def _nonce(self) -> bytes:
        return self._entropy.random_bytes(_NONCE_BYTES)

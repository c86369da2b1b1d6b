"""A manager as this simulator has it: it looks, drops, admits, copies, and lets serve.

It may err, stand still, crash between any two requests, and there may be two.
"""

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from control_plane.places import changes
from control_plane.places.changes import PlacementChangeError
from control_plane.places.items import Removal, StoredPlacement
from control_plane.places.own import StalePlanError
from control_plane.places.stored import Places
from control_plane.places.watching import probe_by_write
from data_plane.ports import CellUnavailableError
from data_plane.replication.copying import Position, copy_some
from data_plane.replication.member_cell import MemberCell, members_of
from data_plane.replication.placement import Placement
from tests.simulation.process import Process
from tests.simulation.replicated.plan import DOWN_AFTER_US, GRACE_US, SAFE_US

if TYPE_CHECKING:
    from tests.simulation.replicated.world import ReplicatedWorld

LOOK_EVERY_US: Final = 4_000_000
COPIED_AT_ONCE: Final = 16
STANDS_STILL_CHANCE: Final = 0.15


class Manager:
    """A place where managers run, one after the other."""

    def __init__(self, world: "ReplicatedWorld", number: int) -> None:
        self.name = f"manager{number}"
        self.process: Process
        self._world = world
        self._incarnations = 0
        self.boot()

    def boot(self) -> None:
        """Start, knowing nothing."""
        world = self._world
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        self.process = Process(name, world.scheduler, f"{world.plan.name}/{name}")
        self.process.on_crash.append(self._crashed)
        self.cells = world.cells_of(self.process)
        self.process.start(_Work(world, self).run())

    def _crashed(self) -> None:
        self._world.note(f"{self.process.name} crashes")
        wait_us = self._world.chance.randrange(100_000, 8_000_000)
        self._world.scheduler.after(wait_us, self.boot)


class _Work:
    def __init__(self, world: "ReplicatedWorld", manager: Manager) -> None:
        self._world = world
        self._process = manager.process
        self._cells = manager.cells
        self._places = Places(manager.cells["meta"], manager.process, manager.process)
        self._failing_us: dict[str, int] = {}
        self._random = Random(f"{world.plan.name}/{manager.process.name}/manager")
        self._copied: dict[str, tuple[int, Position]] = {}

    async def run(self) -> None:
        while not self._world.quiet_since_us:
            try:
                await self._probe()
                for group in self._world.group_names:
                    await self._step(await self._places.read(group))
            except CellUnavailableError as error:
                self._world.note(f"{self._process.name}: {error}")
            except (StalePlanError, PlacementChangeError) as error:
                self._world.note(f"{self._process.name} is late: {error}")
            await self._world.scheduler.pause(self._random.randrange(LOOK_EVERY_US) + 200_000)

    async def _probe(self) -> None:
        names = self._world.cell_names
        outcomes = await self._process.all_of(
            [probe_by_write(self._cells[name], self._process) for name in names]
        )
        now_us = self._world.scheduler.now_us
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._failing_us.setdefault(name, now_us)
            else:
                self._failing_us.pop(name, None)
        if self._world.has_strikes and self._random.random() < self._world.replication.unasked:
            self._failing_us[self._random.choice(names)] = now_us - DOWN_AFTER_US

    def _is_down(self, cell: str) -> bool:
        since_us = self._failing_us.get(cell)
        return since_us is not None and self._world.scheduler.now_us - since_us >= DOWN_AFTER_US

    async def _step(self, stored: StoredPlacement) -> None:
        """The one thing that the group needs most."""
        at, places = stored.placement, self._places
        joining = next((member for member in at.members if not member.full), None)
        for member in at.members:
            if self._is_down(member.cell) and (not member.full or await self._may_drop(stored)):
                if member.full and not await self._claims_removal(member.cell):
                    return
                await places.drop_member(at.group, member.cell, epoch=at.epoch)
                return
        if joining is None:
            if sum(member.full for member in at.members) < stored.factor:
                for cell in self._outside(at):
                    await places.add_joining(at.group, cell, epoch=at.epoch)
                    return
        elif self._process.now_us() - at.since_us >= GRACE_US and await self._copy(at):
            await places.make_full(at.group, joining.cell, epoch=at.epoch)

    async def _may_drop(self, stored: StoredPlacement) -> bool:
        full = sum(member.full for member in stored.placement.members)
        return full > changes.copies_kept(stored.factor)

    async def _claims_removal(self, cell: str) -> bool:
        """One cell at a time, within SAFE."""
        last: Removal | None = await self._places.removal()
        if last is not None and self._process.now_us() - last.at_us < SAFE_US:
            return last.cell == cell
        return await self._places.note_removal(cell, last) is not None

    def _outside(self, at: Placement) -> Iterable[str]:
        names = [name for name in self._world.cell_names if name not in self._failing_us]
        self._random.shuffle(names)
        return [name for name in names if all(one.cell != name for one in at.members)]

    async def _copy(self, at: Placement) -> bool:
        """Copy in bounded steps; a pass belongs to the epoch at which it began."""
        epoch, position = self._copied.get(at.group, (0, Position()))
        if epoch != at.epoch:
            position = Position()
        members = members_of(at, self._cells)
        number = next(i for i, member in enumerate(at.members) if not member.full)
        source, target = members[at.tail if self._world.is_fifo else 0], members[number]
        partitions = self._partitions(at)
        goes_on: Position | None = position
        while goes_on is not None:
            self._copied[at.group] = (at.epoch, goes_on)
            goes_on = await self._copy_some(source, target, partitions, goes_on)
        del self._copied[at.group]
        return True

    async def _copy_some(
        self, source: MemberCell, target: MemberCell, partitions: list[str], position: Position
    ) -> Position | None:
        return await copy_some(self._process, source, target, partitions, position, COPIED_AT_ONCE)

    def _stand_still(self) -> None:
        """What was read may be written long after."""
        for_us = self._random.randrange(20_000_000)
        self._process.frozen_until_us = self._world.scheduler.now_us + for_us

    def _partitions(self, at: Placement) -> list[str]:
        """All that a group has: in the order of the names, those of the queues in it."""
        return self._world.records.partitions(at.group)

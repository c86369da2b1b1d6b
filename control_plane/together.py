"""What a server does for several cells, whatever they are: probes, heartbeats, replicas, reports.

`several_cells.py` has those in directories, `several_tables.py` those on DynamoDB.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from control_plane.parting import Parting
from control_plane.places.beating import Heart
from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.groups import REGISTRY, alone_in, group_of
from control_plane.places.items import (
    ACTIVE,
    DRAINING,
    EMBEDDED,
    FAILED,
    REMOVED,
    STATES,
    CellRecord,
    CellSeen,
    Heartbeat,
    StoredPlacement,
)
from control_plane.places.moving import move_alone
from control_plane.places.own import OwnPlacement
from control_plane.places.placing import GroupPlacing
from control_plane.places.report import (
    CellCommandError,
    CellsReport,
    ToldCell,
    ToldGroup,
    ToldManager,
)
from control_plane.places.stored import PlaceMap, Places
from control_plane.places.ticking import TICK_US, Ticks
from control_plane.places.watching import CellWatch, WatchedCell
from control_plane.served_cell import ServedCell
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Waits
from data_plane.replication.member_cell import StalePlacementError
from data_plane.runtime.guard import Guard
from data_plane.runtime.interrupting import Interrupting
from data_plane.stored.bodies import BodyStore
from data_plane.system import running_us

BEAT_PERIOD_S: Final = 2.0
WATCH_PERIOD_S: Final = 0.5
SHIP_PERIOD_S: Final = 0.05
LAST_SHIPMENT_S_MAX: Final = 5.0
UPKEEP_S_MAX: Final = 1.0
"""So long the others wait for the upkeep of a cell."""

_FRONT_END_BYTES: Final = 6
_CALLS_MAX: Final = 3

LOG: Final = logging.getLogger(__name__)

_REPORT_S_MAX: Final = 2.0
"""Then what is known already is reported."""

Step = tuple[float, Callable[[], Awaitable[object]]]
"""What is to be done over and over again, and after how many seconds."""


class Together:
    """The cells of a service that has several. It belongs to the running event loop.

    `served` are the cells, by their names, and may change. `registry` makes of the members the
    registry's cell as placements are read from it, and as everything else is. `own` is the
    registry's placement, where it has one. `manager` answers what the cluster manager tells, and
    `grace_us` is how long an old map may be gone by. `forgets`, `guards`, `bodies` (by the names of
    cells and groups): as of OpenedCell.
    """

    grace_us: int
    forgets = True
    guards: tuple[Guard, ...] = ()
    bodies: Mapping[str, BodyStore] = MappingProxyType({})

    def __init__(  # noqa: PLR0913, PLR0917 - cells, where they are listed, and three ports
        self,
        registry: Callable[[Members], tuple[Cell, Cell]],
        own: OwnPlacement | None,
        plain: Mapping[str, Cell],
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
    ) -> None:
        self.served: dict[str, ServedCell] = {}
        self.plain = plain
        self._clock = clock
        self._entropy = entropy
        self._waits = waits
        self._probes: set[asyncio.Task[None]] = set()
        self._shipping: dict[str, asyncio.Task[int]] = {}
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._watched: dict[str, WatchedCell] = {}
        self.known = CachedMap(self._read, clock, own, running_us)
        # Nobody waits for a member that was just given up: its group goes on without it.
        calls = Interrupting(lambda group: StalePlacementError(f"{group} has lost a member"))
        self.known.lost = calls.give_up
        self._until_lost = calls
        members = Members(plain, self.known, clock, waits, calls)
        listed, self.control = registry(members)
        self.places = Places(listed, clock, entropy, own, self.known.note)
        self.standard: GroupCells = standard_cells(members)
        self.fifo: GroupCells = fifo_cells(members)
        self.placing = GroupPlacing(
            self.control, lambda: len(self._present()), self.places.forget_own
        )
        self.parting = Parting(
            *(self.places, self.placing, self.known, self._present_states),
            *(self._puts_back, self._gives_up),
        )
        self._ticks = Ticks(clock)
        self.watch = CellWatch(self._watched, clock, self._ticks)
        self.heart = Heart(self._id(), self.watch, self.known, clock, self.standard.fanouts)
        self.manager: Callable[[], ToldManager] = ToldManager

    def _id(self) -> str:
        """Of a front end."""
        return self._entropy.random_bytes(_FRONT_END_BYTES).hex()

    async def _read(self) -> PlaceMap:
        return await self.places.read_all()

    def _present(self) -> list[str]:
        records = self.known.cells.values()
        return sorted(record.name for record in records if record.state != REMOVED)

    def _present_states(self) -> dict[str, str]:
        states = self.states()
        return {name: states.get(name, "unavailable") for name in self._present()}

    def _serve(self, cell: ServedCell) -> None:
        self.served[cell.name] = cell
        self._watched[cell.name] = cell.watched()

    def _part_with(self, name: str) -> ServedCell:
        del self._watched[name]
        return self.served.pop(name)

    async def make_missing(self) -> None:
        """Put what the registry lacks of cells, groups and this front end.

        From then on somebody sees when it ends without a word. Raises CellUnavailableError.
        """
        known = (await self.places.read_all()).cells
        for record in self._records():
            if record.name not in known:
                await self.places.put_cell(record)
        known = (await self.places.read_all()).cells
        present = sorted(name for name, record in known.items() if record.state != REMOVED)
        await self.places.make_missing(present)
        await self.known.refresh()
        await self.beat()

    def _records(self) -> list[CellRecord]:
        """What the registry is told of new cells."""
        raise NotImplementedError

    def _record(self, name: str, kind: str, address: Mapping[str, str]) -> CellRecord:
        now_us = self._clock.now_us()
        return CellRecord(name, kind, address, since_us=now_us, created_s=now_us // 1_000_000)

    # What a server does beside requests

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done over and over again."""
        return (
            (TICK_US / 1_000_000, self.tick),
            (WATCH_PERIOD_S, self.look),
            (BEAT_PERIOD_S, self.beat),
            (SHIP_PERIOD_S, self.ship),
        )

    async def tick(self) -> None:
        """Show that this process gets on."""
        self._ticks.tick()

    async def look(self) -> None:
        """Probe the cells and read the map.

        Raises CellUnavailableError where the registry does not answer.
        """
        self.probe()
        await self.known.refresh()

    def probe(self) -> None:
        """Begin to probe the cells, and notice those whose probe takes too long."""
        for name in self.watch.idle():
            probe = asyncio.create_task(self.watch.probe(name), name=f"probe {name}")
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        self.watch.look()

    async def beat(self) -> None:
        """Tell what this front end sees, and what it will never tell the copies of queues.

        That first: who sees it end goes by the last beat that was stored. Raises
        CellUnavailableError.
        """
        for fanout in self.standard.fanouts().values():
            since_us = fanout.forgotten_since_us
            if since_us is not None:
                note = Heartbeat(self._id(), self._clock.now_us(), {}, told_us=since_us)
                await self.places.beat(note)
                fanout.forgotten_since_us = None
        await self.places.beat(self.heart.beat())

    async def ship(self) -> None:
        """Begin to tell the copies of standard queues what consumers did, where that is not begun.

        One that does not answer keeps no other group waiting, and its own one until it has left.
        """
        for name, fanout in self.standard.fanouts().items():
            if name not in self._shipping and fanout.oldest_us() is not None:
                call = self._until_lost(group_of(name), fanout.ship)
                task = asyncio.create_task(call, name=f"ship {name}")
                self._shipping[name] = task
                task.add_done_callback(partial(self._shipped, name))

    def _shipped(self, name: str, task: asyncio.Task[int]) -> None:
        del self._shipping[name]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StalePlacementError):  # that one is repeated
            LOG.error("copies of %s were not told", name, exc_info=error)

    async def upkeep(self, now_us: int) -> None:
        """A bounded step for each of the cells; one that never answers keeps no other waiting.

        Raises CellUnavailableError for one that fails.
        """
        self.standard.let_go()
        self.fifo.let_go()
        begun: list[asyncio.Task[None]] = []
        for name in self.served.keys() - self._tending.keys():
            task = self._tending[name] = asyncio.create_task(self.served[name].upkeep(now_us))
            task.add_done_callback(partial(self._tended, name))
            begun.append(task)
        done, _ = await asyncio.wait(begun, timeout=UPKEEP_S_MAX) if begun else ((), ())
        for task in done:
            task.result()

    def _tended(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tending[name]
        if not task.cancelled():
            task.exception()  # raised by whoever waits yet

    async def sweep_bodies(self) -> None:
        """One bounded step of letting go of bodies apart. Raises CellUnavailableError."""

    async def close(self) -> None:
        """Tell the copies the rest, and let go of all cells."""
        await self.ship()
        if self._shipping:
            await asyncio.wait(set(self._shipping.values()), timeout=LAST_SHIPMENT_S_MAX)
        for task in (*self._probes, *self._shipping.values(), *self._tending.values()):
            task.cancel()
        await self._leave()
        for cell in self.served.values():
            await cell.close()

    async def _leave(self) -> None:
        """Forget this front end, where it has nothing to tell any more."""
        if not self.heart.has_told_all():
            LOG.warning("copies of queues are left to be told by the cluster manager")
            return
        try:
            await self.places.leave(self.heart.front_end)
        except CellUnavailableError as error:
            LOG.warning("the registry does not hear that this front end ends: %s", error)

    async def registry_partitions(self) -> Sequence[str]:
        """What the registry consists of, where it lies on a chain: for who copies it.

        Raises CellUnavailableError.
        """
        raise CellUnavailableError("this registry lies in one cell")

    # What is told

    def states(self) -> dict[str, str]:
        """For a health check: each cell's."""
        seen = self.watch.report({})
        return {name: _state(cell, seen.get(name)) for name, cell in self.served.items()}

    def gauges(self) -> dict[str, Mapping[str, float]]:
        """For metrics: each cell's."""
        seen = self.watch.report(self.heart.cell_lags_us())
        placements = [held.placement for held in self.known.placements.values()]
        gauges: dict[str, Mapping[str, float]] = {}
        for name, cell in self.served.items():
            one = seen.get(name)
            gauges[name] = {
                "available": float(one is not None and one.answers),
                "probe_seconds": one.latency_us / 1_000_000 if one is not None else float("nan"),
                "lag_seconds": one.lag_us / 1_000_000 if one is not None else float("nan"),
                "groups": sum(name in {m.cell for m in at.members} for at in placements),
                "groups_decided": sum(at.members[0].cell == name for at in placements),
                **cell.gauges(),
            }
        return gauges

    async def report(self) -> CellsReport:
        """How things are; where the registry does not answer soon, as far as that is known."""
        away = sum(state == "unavailable" for state in self.states().values())
        if 2 * away > len(self.served):
            silent = f"{away} of {len(self.served)} cells do not"
            return await self._report(f"the registry does not answer ({silent})")
        try:
            async with asyncio.timeout(_REPORT_S_MAX):
                await self.known.refresh()
                return await self._report("")
        except (CellUnavailableError, TimeoutError) as error:
            return await self._report(f"the registry does not answer ({str(error) or 'in time'})")

    async def _report(self, silent: str) -> CellsReport:
        """What is known; the registry is asked unless it is `silent`, which is said."""
        lags, seen = self.heart.lags_us(), self.watch.report(self.heart.cell_lags_us())
        told = [
            await self._told(record, seen.get(record.name), is_silent=bool(silent))
            for record in [*self.known.cells.values()]
            if record.state != REMOVED
        ]
        groups = [
            await self._told_group(held, lags.get(group, 0), is_silent=bool(silent))
            for group, held in sorted(self.known.placements.items())
        ]
        manager = self.manager()
        if silent:
            told_late = f"{silent}, so nothing of this may be new"
            manager = replace(manager, waits=(told_late, *manager.waits))
        return CellsReport(tuple(told), tuple(groups), manager)

    async def _told_group(
        self, held: StoredPlacement, lag_us: int, *, is_silent: bool
    ) -> ToldGroup:
        at, name = held.placement, ""
        if is_silent:
            return ToldGroup(at, held.factor, lag_us, name, held.chosen)
        if alone_in(at.group):
            with suppress(CellUnavailableError):
                name = next((one.name for one in await self.placing.queues_of(at.group)), "")
        return ToldGroup(at, await self._factor(held), lag_us, name, held.chosen)

    async def _factor(self, held: StoredPlacement) -> int:
        """How many copies a group wants: no more than there can be, if it has no queue."""
        records = self.known.cells.values()
        stay = sum(record.state not in (DRAINING, REMOVED) for record in records)
        at = held.placement
        if len(at.members) != stay or stay >= held.factor:
            return held.factor
        try:
            is_empty = at.group == REGISTRY or await self.placing.is_empty(at.group)
        except CellUnavailableError:
            is_empty = False
        return stay if is_empty else held.factor

    async def _told(
        self, record: CellRecord, seen: CellSeen | None, *, is_silent: bool
    ) -> ToldCell:
        members = [
            (at, member)
            for held in self.known.placements.values()
            for at, member in enumerate(held.placement.members)
            if member.cell == record.name
        ]
        cell = self.served.get(record.name)
        reason = cell.reason if cell is not None else "this server does not know it"
        if not is_silent:
            reason = await self.parting.with_loss(record.name, reason, self._goes_on(record.name))
        return ToldCell(
            record,
            seen,
            len(members),
            sum(at == 0 for at, _ in members),
            sum(not member.full for _, member in members),
            reason,
            # Not what the registry has: directories may have been swapped since.
            cell.where if cell is not None and record.kind == EMBEDDED else "",
            cell.inode if cell is not None else 0,
        )

    # What operators ask for

    async def drain(self, name: str) -> None:
        """Let everything move away from a cell, a group at a time; the manager sees to it."""
        self._check_known(name)
        await self._call(name, DRAINING, frozenset(STATES) - {REMOVED})
        self._check_known(name)  # Another server may have parted with it meanwhile.

    async def restore(self, name: str) -> None:
        """Let a cell that was drained or called failed take part again."""
        self._check_known(name)
        await self._call(name, ACTIVE, (DRAINING, FAILED))

    async def remove(self, name: str, *, lose_messages: bool = False) -> None:
        """Part with a cell that has nothing any more, or fails and has the only copy of nothing.

        One that fails leaves also groups of which the manager would let no further copy go. With
        `lose_messages` it may have the only copy of queues, too: they are empty then.
        """
        self._check_known(name)
        await self.known.refresh()
        if self.states().get(name, "unavailable") == "unavailable":
            await self.parting.give_up_only_copies(
                name, self._way_back(name), lose_messages=lose_messages
            )
            await self.parting.leave_to_other_copies(name)
        has = [
            group
            for group, held in sorted(self.known.placements.items())
            if any(member.cell == name for member in held.placement.members)
        ]
        if has:
            raise CellCommandError(
                f"{name} has {len(has)} groups yet ({has[0]}, ...); {self._what_next(name)}"
            )
        await self.places.set_state(name, REMOVED)
        await self.known.refresh()

    def _what_next(self, name: str) -> str:
        """For who wants a cell to have no groups any more."""
        if self.known.cells[name].state != DRAINING:
            return f"`tidegate cells drain {name}` moves them away"
        waits = [line for line in self.manager().waits if line.startswith(f"{name} ")]
        return "; ".join(["it drains", *waits])

    async def give_up(self, name: str) -> None:
        """Part with a cell that is lost, and with what it alone had."""
        await Together.remove(self, name, lose_messages=True)

    def _way_back(self, name: str) -> str:
        """How what a failing cell has is saved."""
        return f"let {name} answer again"

    def _puts_back(self, name: str) -> str:  # noqa: ARG002 - for others
        """How a cell that was lost is brought back."""
        return "put it back as it was last and start again"

    def _goes_on(self, name: str) -> str:  # noqa: ARG002 - for others
        """How to go on without what a cell has that does not answer; "": the manager sees to it."""
        return ""

    def _gives_up(self, name: str) -> str:
        """How an operator parts with a cell and what it alone had."""
        return f"`tidegate cells remove {name} --lose-messages`"

    async def move_queue(self, place: str, uid: str, cells: Sequence[str]) -> str:
        """Let a queue, which its definition places there, move to these cells alone: its group."""
        await self.known.refresh()
        states = {name: self.known.cells[name].state for name in self._present()}
        usable = [name for name, state in states.items() if state == ACTIVE]
        group = await move_alone(self.places, place, uid, cells, usable)
        await self.known.refresh()
        return group

    async def add(self, path: str) -> str:
        """Add a cell in this directory; its name."""
        raise CellCommandError(f"cells of this service are no directories, as {path}")

    async def fail(self, name: str) -> None:
        """Let a cell answer nothing."""
        raise CellCommandError(f"{name} is no embedded cell: stop it itself")

    async def _call(self, name: str, state: str, was: Collection[str] = STATES) -> None:
        """Tell the manager what is to become of a cell, if it is in one of these states.

        Raises CellUnavailableError.
        """
        for attempts_left in reversed(range(_CALLS_MAX)):
            try:
                await self.places.set_state(name, state, was)
                break
            except StalePlacementError:  # the registry lost or got a member meanwhile
                if not attempts_left:
                    raise
        await self.known.refresh()

    def _check_known(self, name: str) -> None:
        if name not in self._present():
            raise CellCommandError(f"there is no cell {name}")


def _state(cell: ServedCell, seen: CellSeen | None) -> str:
    if cell.reason or (seen is not None and not seen.answers):
        return "unavailable"
    return "full" if seen is not None and seen.full else "available"

"""A world of groups: stores with witnesses, maps that age, front ends that ship, managers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import NamedTuple

from control_plane.places.beating import QueueName, Served
from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import GroupCells, Members, fifo_cells, standard_cells
from control_plane.places.items import (
    ACTIVE,
    HEARTBEATS,
    CellRecord,
    StoredPlacement,
    cell_key,
    encode_cell,
    encode_placement,
    placement_key,
)
from control_plane.places.stored import PlaceMap, Places
from data_plane.frontend.served import Served as FrontEndsServed
from data_plane.ports import Cell, CellUnavailableError, Key
from data_plane.replication.fanout import Fanout
from data_plane.replication.placement import Member, Placement
from tests.simulation.process import Process
from tests.simulation.replicated.managing import Manager, ManagersCell, WorldPlacing
from tests.simulation.replicated.plan import (
    GRACE_US,
    MAP_AGE_US_MAX,
    SECOND_US,
    ChainsPlan,
    ReplicatedFifoPlan,
    ReplicatedPlan,
)
from tests.simulation.replicated.promised import Promised
from tests.simulation.replicated.records import Records
from tests.simulation.replicated.watching import beat, heart_of
from tests.simulation.weather import Weather
from tests.simulation.world import TABLE_US, Slot, World


class Reconciled(NamedTuple):
    """What front ends that are gone had done was told for them by a manager."""

    front_ends: frozenset[str]
    began_us: int
    ended_us: int


class MapTime:
    """A clock that nothing sets, by which maps grow old until nothing changes any more."""

    def __init__(self, world: "ReplicatedWorld") -> None:
        self._world = world

    def now_us(self) -> int:
        """Microseconds."""
        return self._world.quiet_since_us or self._world.scheduler.now_us


class ReplicatedWorld(World):
    """As World; the cells of messages that engines know are groups.

    `quiet_since_us`: since then nothing changes any more, and nobody has to look at maps.
    """

    def __init__(
        self, plan: ReplicatedPlan | ReplicatedFifoPlan | ChainsPlan, promised: Promised
    ) -> None:
        self.promised = promised
        self.replication = plan.replication
        self.is_fifo = plan.is_fifo
        self.quiet_since_us = 0
        self.has_strikes = True
        self.slots_booted = 0
        self.tables_apart_us = 0
        self.chance = Random(f"{plan.name}/groups")
        self.managers_weather = Weather()
        self.full_until_us: dict[str, int] = {}
        self.lost = ""
        self.fifo_sent: Counter[QueueName] = Counter()
        self.group_names = [
            f"g{plan.replication.factor}.{number:02}" for number in range(plan.replication.groups)
        ]
        self.shipped: dict[str, list[tuple[int, int]]] = {}
        self.cells_used: dict[str, GroupCells] = {}
        self.reconciled: list[Reconciled] = []
        self.maps: dict[str, tuple[CachedMap, Slot]] = {}
        self.looks = Random(f"{plan.name}/looks")
        promised.look_again = self._look_again
        self.chance_directed = Random(f"{plan.name}/directed")
        promised.misses, promised.delays = self._miss, self._delay
        super().__init__(plan)
        reach_us = self.replication.tables_set_us
        if reach_us:
            self.offset_us_min = min(self.offset_us_min, -reach_us - TABLE_US)
            self.offset_us_max = max(self.offset_us_max, reach_us + TABLE_US)
        self.managers = [Manager(self, number) for number in range(plan.replication.managers)]

    def end(self) -> None:
        """Its managers end, too."""
        super().end()
        for manager in self.managers:
            manager.retire()

    def begin_manager(self, process: Process) -> None:
        """A manager starts, before anything of it asks for the time."""

    # What the base asks for

    def cells_of_messages(self, slot: Slot) -> Mapping[str, Cell]:
        """The groups, as a front end has them that has just started."""
        if not self.slots_booted:
            self._begin()
        process = slot.process
        places = Places(slot.cells["meta"], MapTime(self), process)
        known = CachedMap(places.read_all, MapTime(self))
        if self.slots_booted < self.plan.front_ends or self.quiet_since_us:
            known.take(self.true_map())
        self.slots_booted += 1
        cells = {store: slot.cells[store] for store in self.cell_names}
        members = Members(cells, known, process, process)
        used = fifo_cells(members) if self.is_fifo else standard_cells(members)
        for group in self.group_names:
            used[group]
        self.cells_used[process.name] = used
        self.maps[process.name] = known, slot
        process.start(self._refresh(process, known, used))
        if self.replication.beats and not self.quiet_since_us:
            heart = heart_of(self, process, cells, known, used.fanouts)
            heart.served = self._share
            process.start(beat(self, heart, places.beat))
        if not self.is_fifo:
            process.start(self._ship(process))
        return {group: used[group] for group in self.group_names}

    def placing_of(self, slot: Slot) -> WorldPlacing:
        """Queues are listed by their groups, for those who copy them."""
        return WorldPlacing(slot.cells["meta"], self.group_names)

    def _begin(self) -> None:
        """Place the groups, and watch all stores from now on."""
        self.records = Records(self, self.promised)
        for store in self.stores:
            store.witness = self.records.at(store)
        for name in self.cell_names:
            record = CellRecord(name, "simulated", {}, ACTIVE, nonce=b"\0" * 8)
            self.stores[0].cell._put(cell_key(name), encode_cell(record))
        for number, group in enumerate(self.group_names):
            chosen = [
                self.cell_names[(number + at) % len(self.cell_names)]
                for at in range(self.replication.factor)
            ]
            placement = Placement(group, 1, tuple(map(Member, chosen)), self.scheduler.now_us)
            stored = StoredPlacement(placement, self.replication.factor, b"\0" * 8)
            self.records.placed(placement)
            self.records.stored[group] = stored
            self.stores[0].cell._put(placement_key(group), encode_placement(stored))

    def apart_us(self) -> int:
        """By how much the clocks of cells differ, or have done."""
        offsets_us = [store.offset_us for store in self.stores]
        return max(self.tables_apart_us, max(offsets_us) - min(offsets_us))

    def true_map(self) -> PlaceMap:
        """What the registry has."""
        stored = {
            name: replace(self.records.stored[name], placement=at)
            for name, at in self.records.present.items()
        }
        return PlaceMap(stored, {}, MapTime(self).now_us())

    def observe(self, served: FrontEndsServed) -> None:
        """As World; and count what is sent to FIFO queues."""
        super().observe(served)
        if self.is_fifo and served.operation.startswith("SendMessage"):
            self.fifo_sent[served.account, served.region, served.queue] += served.messages

    def _share(self) -> Served:
        """What one front end has served: of all that was, its share."""
        return Served(
            fifo_sent={name: sent // len(self.slots) for name, sent in self.fifo_sent.items()}
        )

    async def _refresh(self, process: Process, known: CachedMap, used: GroupCells) -> None:
        """And what a server does once a second, whoever sends."""
        random = Random(f"{self.plan.name}/{process.name}/map")
        while True:
            await known.try_refresh()
            used.let_go()
            await self.scheduler.pause(int(random.random() * MAP_AGE_US_MAX * 0.9))
            if self.quiet_since_us:
                known.take(self.true_map())
                return

    def _look_again(self, fanout: Fanout) -> None:
        known, slot = next(
            self.maps[name]
            for name, used in self.cells_used.items()
            if fanout in used.fanouts().values()
        )
        if self.replication.looks and self.has_strikes:
            is_cut = slot.cells["meta"].cut_until_us > self.scheduler.now_us
            if not is_cut and self.looks.random() < self.replication.looks:
                known.take(self.true_map())

    async def _ship(self, process: Process) -> None:
        used, done = self.cells_used[process.name], self.shipped.setdefault(process.name, [])
        while True:
            began_us = self.scheduler.now_us
            with suppress(CellUnavailableError):
                for fanout in used.fanouts().values():
                    await fanout.ship()
            # A queue's own group may have been handed some on the way.
            if all(fanout.oldest_us() is None for fanout in used.fanouts().values()):
                done.append((began_us, self.scheduler.now_us))
            every_us = self.replication.ships_every_us
            await self.scheduler.pause(10 * SECOND_US if self.quiet_since_us else every_us)

    def stall_a_write(self) -> None:
        """Let a front end stand still half way with its next write, until who joins serves."""
        if self.has_strikes and self.chance.random() < self.replication.stalls:
            name = self.chance.choice(self.slots).process.name
            self.promised.stalls[name] = self.chance.randrange(GRACE_US, 3 * GRACE_US)

    def _miss(self, at: Placement) -> int:
        """Half way with a write by this map, while somebody joins of whom the map does not know."""
        if not self.replication.misses or not self.has_strikes:
            return 0
        present = self.records.present[at.group].members if at.group in self.records.present else ()
        if all(at.has(member) for member in present):
            return 0
        if self.chance_directed.random() >= self.replication.misses:
            return 0
        return self.chance_directed.randrange(GRACE_US, 3 * GRACE_US)

    def _delay(self, key: Key) -> int:
        """Between the read of a copy and its write: until that may have changed, or be gone."""
        plan = self.replication
        if not (self.has_strikes and plan.delays and key.partition.startswith(plan.delays_of)):
            return 0
        if self.chance_directed.random() >= plan.delays:
            return 0
        return self.chance_directed.randrange(*plan.delays_us)

    # The state of the groups

    def is_whole(self) -> bool:
        """Whether every group has as many full members as it can have, and no others."""
        lost = {store.name for store in self.stores if store.down_until_us > self.scheduler.now_us}
        wanted = min(len(set(self.cell_names) - lost), self.replication.factor)
        return all(
            len(at.members) == wanted
            and all(member.full and member.cell not in lost for member in at.members)
            for at in self.records.present.values()
        )

    def has_all_copies(self) -> bool:
        """Whether every group has as many full members as it can have; others may join it.

        To join is the first step of a move, which a manager that ends may have begun just before.
        """
        lost = {store.name for store in self.stores if store.down_until_us > self.scheduler.now_us}
        wanted = min(len(set(self.cell_names) - lost), self.replication.factor)
        return all(
            sum(member.full and member.cell not in lost for member in at.members) >= wanted
            for at in self.records.present.values()
        )

    def reconciled_for(self, front_ends: Iterable[str], began_us: int) -> None:
        """A manager has compared all copies, from then until now."""
        ended_us = self.scheduler.now_us
        self.reconciled.append(Reconciled(frozenset(front_ends), began_us, ended_us))

    def is_told(self) -> bool:
        """Whether managers have seen to all front ends that are gone."""
        alive = {slot.process.name for slot in self.slots}
        beats = self.stores[0].cell.items()
        return all(
            item.key.sort.decode() in alive for item in beats if item.key.partition == HEARTBEATS
        )

    def is_full(self, cell: str) -> bool:
        """Whether the cell says that it refuses data."""
        return self.full_until_us.get(cell, 0) > self.scheduler.now_us

    def cells_of_manager(self, process: Process) -> dict[str, ManagersCell]:
        """Ways of a manager to all stores."""
        ways = {
            store.name: ManagersCell(
                store, process, self.scheduler, self.managers_weather, self.random, self.plan
            )
            for store in self.stores
        }
        for way in ways.values():
            way.stops = self.replication.stops if self.has_strikes else 0.0
        return ways

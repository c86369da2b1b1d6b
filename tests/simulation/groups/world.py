"""A universe's things: a cell, front ends that serve groups, and the network before them."""

import traceback
from random import Random
from typing import Any

from control_plane.consumer_groups.groups import consumer_groups
from control_plane.core.consumer_group import decode
from control_plane.core.group_offset import read_offset
from control_plane.stream_operations.group_catalog import group_operations
from data_plane.core.errors import RefusedError
from data_plane.core.sealing import TokenSeal
from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.protocol.operation import Call, Operation
from tests.simulation.faulty_cell import FaultyCell, Store
from tests.simulation.groups.plan import GroupPlan
from tests.simulation.groups.shards import SeenShards, Shards
from tests.simulation.history import Attempt, History
from tests.simulation.process import Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.sealed import ACCOUNT, REGION, REGISTRY_SECRET
from tests.simulation.weather import Weather
from tests.simulation.world import START_US, Answer, Slot, World

UNAVAILABLE = 503


class GroupSlot(Slot):
    """A place where the operations of groups run."""

    def __init__(self, world: "GroupWorld", number: int) -> None:
        self.operations: dict[str, Operation]
        self._group_world = world
        super().__init__(world, number)

    def boot(self) -> None:
        """Start with cold caches."""
        world, plan = self._group_world, self._group_world.group_plan
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        skew_us = world.random.randint(-plan.skew_us_max, plan.skew_us_max)
        self.process = process = Process(name, world.scheduler, f"{plan.name}/{name}", skew_us)
        process.on_crash.append(self._crashed)
        store = world.stores[0]
        cell = FaultyCell(store, process, world.scheduler, world.weather, world.random, plan)
        self.cells = {store.name: cell}
        seen = SeenShards(world.shards, world.scheduler, world.random)
        groups = consumer_groups(cell, seen, seen, process, process, process)
        seal = TokenSeal(REGISTRY_SECRET, "lists")
        self.operations = {one.name: one for one in group_operations(groups, seal)}

    def _crashed(self) -> None:
        self._group_world.note(f"{self.process.name} crashes")
        self._boot_soon()


class GroupWitness:
    """Sees all that becomes of a group and its offsets, in the cell itself."""

    def __init__(self, world: "GroupWorld") -> None:
        self._world = world
        self.ended: set[int] = set()
        self.back: list[str] = []
        self.owners: dict[tuple[int, int], set[str]] = {}

    def put(self, front_end: str, key: Key, after: Attributes) -> None:
        """Groups are put whole."""
        if not key.partition.startswith(f"O|{ACCOUNT}|"):
            return
        group = decode(ACCOUNT, REGION, key.sort.decode(), after)
        self._world.note(f"{front_end}: epoch {group.epoch} of {sorted(group.members)}")
        for place, hold in group.holds.items():
            if hold.owner:
                self.owners.setdefault((place.shard, hold.epoch), set()).add(hold.owner)

    def updated(self, key: Key, before: Attributes | None, after: Attributes) -> None:
        """Offsets are updated."""
        if not key.partition.endswith("|o"):
            return
        old, new = read_offset(before), read_offset(after)
        shard = int(key.sort.decode().rpartition("|")[2], 16)
        self._world.note(f"shard {shard}: done {new.offset}, {new.owner} under {new.epoch}")
        if (old.offset or 0) > (new.offset or 0) or old.epoch > new.epoch:
            self.back.append(f"shard {shard} went from {old} to {new}")
        if new.is_end:
            self.ended.add(shard)


class GroupWorld(World):
    """Everything that exists. `random` decides about faults, and about what members do."""

    def __init__(self, plan: GroupPlan) -> None:
        self.plan = self.group_plan = plan
        self.random = Random(f"{plan.name}/world")
        self.scheduler = Scheduler(Random(f"{plan.name}/scheduler"), START_US)
        self.history = History()
        self.weather = Weather()
        self.offset_us_min = self.offset_us_max = 0
        self.alive = True
        self.frozen_until_us = 0
        self.redelivered = 0
        self.probed: list[Any] = []
        self.places = {}
        self.shards = Shards(self.scheduler, self.random, plan.shards)
        wrong_us = self.random.randint(-plan.skew_us_max, plan.skew_us_max)
        self.stores = [Store("meta", self.scheduler, wrong_us, stamps=plan.stamps)]
        self.cell_names = []
        self.witness = GroupWitness(self)
        self.stores[0].witness = self.witness
        self.group_slots = [GroupSlot(self, number) for number in range(plan.front_ends)]
        self.slots = [*self.group_slots]

    def spent(self) -> Any:
        """All requests: there is one cell."""
        return self.stores[0].cell.requests

    async def answer(self, attempt: Attempt, slot: Slot) -> Answer:
        """Operations alone: what comes before them is the same as for queues."""
        assert isinstance(slot, GroupSlot)
        return await self._perform(slot.operations[attempt.call.operation], attempt, slot.process)

    async def _perform(self, operation: Operation, attempt: Attempt, process: Process) -> Answer:
        call = attempt.call
        request = Call(
            request_id=call.invocation_id,
            account=ACCOUNT,
            region=REGION,
            base_url="",
            now_us=process.now_us(),
            params=call.params,
            invocation_id=call.invocation_id,
            attempt=attempt.number,
        )
        try:
            return 200, await operation.perform(request)
        except RefusedError as refusal:
            return 400, {"__type": refusal.fault.shape, "message": refusal.message}
        except CellUnavailableError as error:
            return UNAVAILABLE, {"__type": "ServiceUnavailable", "message": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may break
            trace = "".join(traceback.format_exception(error))
            self.history.broken.append(f"{operation.name} broke: {trace}")
            return 500, {}

"""What strikes a replicated universe: cells, front ends and managers, alone and together."""

from collections.abc import Callable, Mapping
from itertools import chain
from random import Random
from typing import Final

from tests.simulation.faults import expire_some
from tests.simulation.faulty_cell import FaultyCell, Store
from tests.simulation.process import Process
from tests.simulation.replicated.plan import MAP_AGE_US_MAX, SECOND_US
from tests.simulation.replicated.world import ReplicatedWorld
from tests.simulation.world import JUMP_US_MAX

SETTLE_US = 30 * SECOND_US
WHOLE_US_MAX = 600 * SECOND_US
NEVER_US = 1 << 60


async def strike(world: ReplicatedWorld) -> None:
    """Without end: faults at moments, some of them together."""
    plan = world.replication
    while True:
        await world.scheduler.pause(world.chance.randrange(1, 2 * plan.between_strikes_us))
        for _ in range(world.chance.choice((1, 1, 2, 3))):
            _STRIKES[world.chance.choice(plan.strikes)](world)


def _a_cell(world: ReplicatedWorld) -> None:
    _fail(world, world.chance.choice(_stores(world)))


def _two_cells(world: ReplicatedWorld) -> None:
    for store in world.chance.sample(_stores(world), 2):
        _fail(world, store)


def _cell_and_front_end(world: ReplicatedWorld) -> None:
    _a_cell(world)
    _restart_front_end(world)


def _cell_and_manager(world: ReplicatedWorld) -> None:
    _a_cell(world)
    manager = world.chance.choice(world.managers).process
    if world.chance.random() < 0.5:
        manager.crash()
    else:
        _freeze(world, manager)


def _front_ends_lose_a_cell(world: ReplicatedWorld) -> None:
    chosen = world.chance.choice(world.slots)
    store = world.chance.choice(_stores(world))
    for slot in world.slots:
        if slot is chosen or world.chance.random() < 0.3:
            _cut(world, slot.process, slot.cells[store.name])


def _managers_lose_a_cell(world: ReplicatedWorld) -> None:
    """The front ends may reach it all the time."""
    chosen = world.chance.choice(world.managers)
    store = world.chance.choice(_stores(world))
    for manager in world.managers:
        if manager is chosen or world.chance.random() < 0.7:
            _cut(world, manager.process, manager.cells[store.name])


def _old_map(world: ReplicatedWorld) -> None:
    slot = world.chance.choice(world.slots)
    _cut(world, slot.process, slot.cells["meta"], 2 * MAP_AGE_US_MAX)


def _freeze_front_end(world: ReplicatedWorld) -> None:
    _freeze(world, world.chance.choice(world.slots).process)


def _freeze_manager(world: ReplicatedWorld) -> None:
    _freeze(world, world.chance.choice(world.managers).process)


def _restart_front_end(world: ReplicatedWorld) -> None:
    world.chance.choice(world.slots).process.crash()


def _restart_manager(world: ReplicatedWorld) -> None:
    world.chance.choice(world.managers).process.crash()


def _set_clock(world: ReplicatedWorld) -> None:
    process = world.chance.choice(world.slots).process
    reach_us = world.chance.choice((3 * SECOND_US, JUMP_US_MAX // world.plan.haste))
    process.offset_us = world.chance.randint(-reach_us, reach_us)
    world.note_clock(process)
    world.note(f"{process.name}: its clock is wrong by {process.offset_us} us")


_STRIKES: Final[Mapping[str, Callable[[ReplicatedWorld], None]]] = {
    "a cell": _a_cell,
    "two cells": _two_cells,
    "cell and front end": _cell_and_front_end,
    "cell and manager": _cell_and_manager,
    "front end and cell": _front_ends_lose_a_cell,
    "manager and cell": _managers_lose_a_cell,
    "old map": _old_map,
    "front end frozen": _freeze_front_end,
    "manager frozen": _freeze_manager,
    "front end restarts": _restart_front_end,
    "manager restarts": _restart_manager,
    "clock": _set_clock,
    "expiry": expire_some,
}


def _stores(world: ReplicatedWorld) -> list[Store]:
    return [store for store in world.stores if store.name in world.cell_names]


def _span_us(random: Random) -> int:
    return int(random.random() ** 2 * random.choice((3, 15, 80)) * SECOND_US)


def _fail(world: ReplicatedWorld, store: Store) -> None:
    for_us = _span_us(world.chance)
    store.down_until_us = max(store.down_until_us, world.scheduler.now_us + for_us)
    world.note(f"{store.name} is down for {for_us} us")


def _freeze(world: ReplicatedWorld, process: Process) -> None:
    for_us = _span_us(world.chance)
    process.frozen_until_us = world.scheduler.now_us + for_us
    world.note(f"{process.name} is frozen for {for_us} us")


def _cut(
    world: ReplicatedWorld, process: Process, cell: FaultyCell, most_us: int = 60 * SECOND_US
) -> None:
    for_us = min(_span_us(world.chance), most_us)
    cell.cut_until_us = world.scheduler.now_us + for_us
    cell.replies_only = world.chance.random() < 0.5
    world.note(f"{process.name} is cut off from {cell._store.name} for {for_us} us")


async def settle(world: ReplicatedWorld) -> None:
    """The faults end, and the groups become whole; then, in some universes, a cell is lost."""
    world.weather.calm_down()
    world.has_strikes = False
    world.note("the faults end")
    scheduler = world.scheduler
    for store in world.stores:
        store.down_until_us = 0
    ways = [slot.cells for slot in world.slots] + [one.cells for one in world.managers]
    for cell in chain.from_iterable(cells.values() for cells in ways):
        cell.cut_until_us = 0
    await scheduler.pause(SETTLE_US)
    processes = [slot.process for slot in world.slots] + [one.process for one in world.managers]
    frozen_us = max(process.frozen_until_us for process in processes) - scheduler.now_us
    if frozen_us > 0:
        await scheduler.pause(frozen_us + SETTLE_US)
    skew_us_max = world.plan.skew_us_max
    for slot in world.slots:
        process = slot.process
        process.offset_us = max(-skew_us_max, min(process.offset_us, skew_us_max))
    await _until_whole(world)
    if world.replication.loss:
        # Everybody has long looked at the map.
        await scheduler.pause(2 * MAP_AGE_US_MAX)
        await _until_whole(world)  # again: a manager that erred may have dropped a member since
        _lose(world)
        await _until_whole(world)
        await scheduler.pause(2 * MAP_AGE_US_MAX)
    world.quiet_since_us = scheduler.now_us
    await scheduler.pause(2 * MAP_AGE_US_MAX)


def _lose(world: ReplicatedWorld) -> None:
    members = world.records.present[world.group_names[0]].members
    lost = members[0 if world.replication.loss == "first" else -1].cell
    for store in world.stores:
        if store.name == lost:
            store.down_until_us = NEVER_US
            world.note(f"{lost} is lost")


async def _until_whole(world: ReplicatedWorld) -> None:
    until_us = world.scheduler.now_us + WHOLE_US_MAX
    while not world.is_whole():
        if world.scheduler.now_us > until_us:
            world.history.broken.append(f"groups do not become whole: {world.records.present}")
            return
        await world.scheduler.pause(SECOND_US)

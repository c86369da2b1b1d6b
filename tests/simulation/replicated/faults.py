"""What strikes a replicated universe: cells, front ends and managers, alone and together."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Final

from control_plane.places.groups import common_group
from control_plane.places.items import (
    ACTIVE,
    DRAINING,
    FAILED,
    cell_key,
    decode_cell,
    encode_cell,
)
from control_plane.places.moving import move_alone
from control_plane.places.report import CellCommandError
from control_plane.places.stored import NONCE_BYTES, Places, StalePlanError, by_what_is_now
from data_plane.ports import CellUnavailableError
from tests.simulation.faults import expire_some
from tests.simulation.faulty_cell import FaultyCell, Store
from tests.simulation.process import Process
from tests.simulation.replicated.managing import Manager
from tests.simulation.replicated.plan import (
    MAP_AGE_US_MAX,
    QUEUE_ALONE,
    SECOND_US,
    ChainsPlan,
    managers_weather,
)
from tests.simulation.replicated.world import ReplicatedWorld
from tests.simulation.world import JUMP_US_MAX

SETTLE_US = 30 * SECOND_US
WHOLE_US_MAX = 600 * SECOND_US
NEVER_US = 1 << 60


@asynccontextmanager
async def faults(plan: ChainsPlan, world: ReplicatedWorld) -> AsyncIterator[None]:
    """Bad weather, and what strikes beside it, while the body is done; then they end."""
    world.weather.change_to(plan.climate.weather)
    world.managers_weather.change_to(managers_weather(plan))
    strikes = world.scheduler.start(strike(world), world)
    world.scheduler.start(set_tables(world), world)
    yield
    strikes.drop()
    await settle(world)


async def strike(world: ReplicatedWorld) -> None:
    """Without end: faults at moments, some of them together."""
    plan = world.replication
    while True:
        await world.scheduler.pause(world.chance.randrange(1, 2 * plan.between_strikes_us))
        for _ in range(world.chance.choice((1, 1, 2, 3))):
            _STRIKES[world.chance.choice(plan.strikes)](world)


def _a_cell(world: ReplicatedWorld) -> None:
    _fail(world, world.chance.choice(_stores(world)))


def _cell_for_long(world: ReplicatedWorld) -> None:
    """It comes back when the faults end, with what it had; one at a time."""
    store = world.chance.choice(_stores(world))
    if all(other.down_until_us < NEVER_US for other in _stores(world)):
        store.down_until_us = NEVER_US
        world.note(f"{store.name} is down for long")


def _cell_for_good(world: ReplicatedWorld) -> None:
    """It loses what it has, and is away until no group has it: once, where two full copies stay.

    Where one stayed, a manager that errs could give up that one.
    """
    store = world.chance.choice(_stores(world))
    full = [
        sum(member.full for member in at.members if member.cell != store.name)
        for at in world.records.present.values()
    ]
    if world.lost or min(full) < 2 or any(one.down_until_us == NEVER_US for one in _stores(world)):
        return
    world.lost = store.name
    store.down_until_us = NEVER_US
    store.cell._partitions.clear()
    world.note(f"{store.name} loses everything")


def _cell_is_full(world: ReplicatedWorld) -> None:
    """It says so, and takes what comes all the same: managers are to go by what is said."""
    name = world.chance.choice(world.cell_names)
    world.full_until_us[name] = world.scheduler.now_us + _span_us(world.chance)
    world.note(f"{name} is full until {world.full_until_us[name]}")


def _operator(world: ReplicatedWorld) -> None:
    """Somebody says what is to become of a cell."""
    name = world.chance.choice(world.cell_names)
    set_state(world, name, world.chance.choice((FAILED, DRAINING, ACTIVE, ACTIVE)))


def set_state(world: ReplicatedWorld, name: str, state: str) -> None:
    """As the command line does it, at once."""
    registry = world.stores[0].cell
    key = cell_key(name)
    item = registry._find(key)
    assert item is not None
    nonce = world.chance.randbytes(NONCE_BYTES)
    record = replace(
        decode_cell(name, item), state=state, since_us=world.scheduler.now_us, nonce=nonce
    )
    registry._put(key, encode_cell(record))
    world.note(f"{name} is called {state}")


def _queue_alone(world: ReplicatedWorld) -> None:
    """Somebody moves a queue: a process that may be stopped and cut off as others are."""
    queues = sorted(world.records.uids.items())
    if not queues:
        return
    name, uid = world.chance.choice(queues)
    to = world.chance.sample(world.cell_names, world.chance.randint(1, world.replication.factor))
    manager = world.chance.choice(world.managers)
    if manager.process.alive:
        manager.process.start(_move_alone(world, manager, name, uid, to))


async def _move_alone(
    world: ReplicatedWorld, manager: Manager, name: str, uid: str, to: list[str]
) -> None:
    places = Places(manager.cells["meta"], manager.process, manager.process)
    place = common_group(world.records.groups[uid])
    world.note(f"{name} is to move to {to}")
    try:
        await by_what_is_now(lambda: move_alone(places, place, uid, to, world.cell_names))
    except (CellCommandError, CellUnavailableError) as error:
        world.note(f"{name} is not moved: {error}")


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
    "cell for long": _cell_for_long,
    "cell for good": _cell_for_good,
    "cell is full": _cell_is_full,
    "operator": _operator,
    QUEUE_ALONE: _queue_alone,
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
    process.freeze(for_us)
    world.note(f"{process.name} is frozen for {for_us} us")


def _cut(
    world: ReplicatedWorld, process: Process, cell: FaultyCell, most_us: int = 60 * SECOND_US
) -> None:
    for_us = min(_span_us(world.chance), most_us)
    cell.cut_until_us = world.scheduler.now_us + for_us
    cell.replies_only = world.chance.random() < 0.5
    world.note(f"{process.name} is cut off from {cell._store.name} for {for_us} us")


async def set_tables(world: ReplicatedWorld) -> None:
    """Without end: the clock of a table is set, within what they may differ by."""
    reach_us = world.replication.tables_set_us
    random = Random(f"{world.plan.name}/tables")
    while reach_us:
        await world.scheduler.pause(random.randrange(1, 20 * SECOND_US))
        store = random.choice(world.stores)
        store.offset_us = random.randint(-reach_us, reach_us)
        world.tables_apart_us = 2 * reach_us
        world.note(f"{store.name}: its clock is wrong by {store.offset_us} us")


async def settle(world: ReplicatedWorld) -> None:
    """The faults end, and the groups become whole; then, in some universes, a cell is lost."""
    world.weather.calm_down()
    world.managers_weather.calm_down()
    world.has_strikes = False
    for way in chain.from_iterable(one.cells.values() for one in world.managers):
        way.stops = 0.0
    for name in world.cell_names:
        set_state(world, name, ACTIVE)
    world.full_until_us.clear()
    world.promised.stalls.clear()
    world.note("the faults end")
    scheduler = world.scheduler
    for store in world.stores:
        if store.name != world.lost:
            store.down_until_us = 0
    ways: list[Mapping[str, FaultyCell]] = [slot.cells for slot in world.slots]
    ways += [manager.cells for manager in world.managers]
    for cell in chain.from_iterable(cells.values() for cells in ways):
        cell.cut_until_us = 0
    await scheduler.pause(SETTLE_US)
    processes = [slot.process for slot in world.slots] + [one.process for one in world.managers]
    frozen_us = max(process.settles_us for process in processes) - scheduler.now_us
    if frozen_us > 0:
        await scheduler.pause(frozen_us + SETTLE_US)
    skew_us_max = world.plan.skew_us_max
    for slot in world.slots if not world.plan.machines_us else ():
        process = slot.process
        process.offset_us = max(-skew_us_max, min(process.offset_us, skew_us_max))
    if world.lost:
        await _bury(world)
    await _until_whole(world)
    await _until_told(world)
    if world.replication.loss:
        # Everybody has long looked at the map.
        await scheduler.pause(2 * MAP_AGE_US_MAX)
        await _until_whole(world)  # again: a manager that erred may have dropped a member since
        world.records.look_at_what_came_back()
        _lose(world)
        await _until_whole(world)
        await scheduler.pause(2 * MAP_AGE_US_MAX)
    for manager in world.managers:
        manager.retire()
    await scheduler.pause(SECOND_US)
    if not world.has_all_copies():
        world.history.broken.append(f"groups do not stay whole: {world.records.present}")
    world.records.look_at_what_came_back()
    world.quiet_since_us = scheduler.now_us
    await scheduler.pause(2 * MAP_AGE_US_MAX)


async def _bury(world: ReplicatedWorld) -> None:
    """An operator takes the cell that was lost out of all groups, whatever stays; it is new then.

    A manager does not, where that would leave less than half of the copies.
    """
    manager = world.managers[0]
    places = Places(manager.cells["meta"], manager.process, manager.process)
    for group in sorted(world.records.present):
        epoch = 0
        while epoch != (epoch := world.records.present[group].epoch):
            with suppress(StalePlanError):  # The manager was faster: look again.
                await places.drop_member(group, world.lost, epoch=epoch, forced=True)
    await world.scheduler.pause(2 * MAP_AGE_US_MAX)
    for store in world.stores:
        if store.name == world.lost:
            store.down_until_us = 0
    world.note(f"{world.lost} is back, and empty")
    world.lost = ""


def _lose(world: ReplicatedWorld) -> None:
    members = world.records.present[world.group_names[0]].members
    lost = members[0 if world.replication.loss == "first" else -1].cell
    for store in world.stores:
        if store.name == lost:
            store.down_until_us = NEVER_US
            world.note(f"{lost} is lost")


async def _until_told(world: ReplicatedWorld) -> None:
    until_us = world.scheduler.now_us + WHOLE_US_MAX
    while not world.is_told():
        if world.scheduler.now_us > until_us:
            world.history.broken.append("nobody tells what front ends that are gone told nobody")
            return
        await world.scheduler.pause(SECOND_US)


async def _until_whole(world: ReplicatedWorld) -> None:
    until_us = world.scheduler.now_us + WHOLE_US_MAX
    while not world.is_whole():
        if world.scheduler.now_us > until_us:
            world.history.broken.append(f"groups do not become whole: {world.records.present}")
            return
        await world.scheduler.pause(SECOND_US)

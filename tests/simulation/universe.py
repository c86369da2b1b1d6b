"""One seed's universe from its beginning to its end: main phase, drain, last look."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from tests.simulation.clients import Client, consume, create_queues, drain, produce, purge
from tests.simulation.history import History
from tests.simulation.oracle import Violation, check
from tests.simulation.plan import Plan, bounds_as, make_plan
from tests.simulation.process import Process
from tests.simulation.scheduler import StuckError, Task
from tests.simulation.world import JUMP_US_MAX, Slot, World

SETTLE_US = 200_000_000
"""After this, nothing that the faults have sent is under way any more."""
DRAIN_US = JUMP_US_MAX + 120_000_000
"""By then every lease of the main phase has ended, also those of clocks that were ahead."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a universe. `requests` counts those that cells served."""

    plan: Plan
    history: History
    violations: list[Violation]
    requests: int


def run(seed: int) -> Outcome:
    """Let a universe be, and judge it."""
    plan = make_plan(seed)
    with bounds_as(plan.bounds):
        world = World(plan)
        task = world.scheduler.start(_live(world), world)
        try:
            world.scheduler.run(task.outcome)
        except StuckError as stuck:
            world.history.broken.append(str(stuck))
        violations = check(plan, world)
        for slot in world.slots:
            slot.process.on_crash.clear()
            slot.process.crash()
    requests = sum(world.spent().values())
    return Outcome(plan, world.history, violations, requests)


async def _live(world: World) -> None:
    plan, scheduler = world.plan, world.scheduler
    start_us = scheduler.now_us
    await create_queues(Client(world, "founder"), plan.queues)
    world.weather.change_to(plan.climate.weather)
    weather = scheduler.start(_strike(world), world)
    if plan.sequential:
        await _one_after_the_other(world)
    else:
        await _side_by_side(world, start_us + plan.sends_each * 4_000_000 + 20_000_000)
    weather.drop()
    await _settle(world)
    if plan.drain == "cold":
        for slot in world.slots:
            slot.process.crash()
        await scheduler.pause(10_000_000)
    only = world.random.choice(world.slots) if plan.drain == "one" else None
    drains = [
        drain(Client(world, f"drain-{queue.name}", only=only), queue.name, DRAIN_US)
        for queue in plan.queues
    ]
    if plan.sequential:
        for one in drains:
            await one
    else:
        await _all(world, drains)
    await _look_again(world)


async def _side_by_side(world: World, until_us: int) -> None:
    plan = world.plan
    calls = [produce(Client(world, f"producer{i}"), plan) for i in range(plan.producers)]
    calls += [consume(Client(world, f"consumer{i}"), plan, until_us) for i in range(plan.consumers)]
    if plan.purges:
        calls.append(purge(Client(world, "purger"), plan, until_us))
    await _all(world, calls)


async def _one_after_the_other(world: World) -> None:
    plan = world.plan
    for number in range(3):
        await produce(Client(world, f"producer{number}"), plan)
        until_us = world.scheduler.now_us + 30_000_000
        await consume(Client(world, f"consumer{number}"), plan, until_us)
        for slot in world.slots:
            await slot.process.start(slot.bag.sweep()).outcome


async def _all(world: World, calls: list[Coroutine[Any, Any, None]]) -> None:
    tasks: list[Task] = [world.scheduler.start(call, world) for call in calls]
    for task in tasks:
        await task.outcome


async def _settle(world: World) -> None:
    """The faults end; what they left behind stays."""
    world.weather.calm_down()
    world.note("the faults end")
    for store in world.stores:
        store.down_until_us = 0
    for slot in world.slots:
        for cell in slot.cells.values():
            cell.cut_until_us = 0
    await world.scheduler.pause(SETTLE_US)
    for slot in world.slots:
        skew_us_max = world.plan.skew_us_max
        slot.process.offset_us = max(-skew_us_max, min(slot.process.offset_us, skew_us_max))


async def _look_again(world: World) -> None:
    """Whatever is delivered now had been deleted."""
    plan, scheduler = world.plan, world.scheduler
    world.note("drained")
    await scheduler.pause(40_000_000)
    await _look_once(world)
    await scheduler.pause(660_000_000)
    for leap_us in plan.leaps_us:
        scheduler.leap(leap_us)
        world.note(f"{leap_us // 1_000_000} s pass")
        for store in world.stores:
            if store.name != "meta":
                world.note(f"{store.name}: {store.expire_some(world.random)} items expire")
        await scheduler.pause(10_000_000)
        await _look_once(world)
    for slot in world.slots:
        slot.process.crash()
    await scheduler.pause(10_000_000)
    await _look_once(world)


async def _look_once(world: World) -> None:
    for slot in world.slots:
        client = Client(world, f"last-{slot.name}", only=slot)
        for queue in world.plan.queues:
            for _ in range(2):
                await drain(client, queue.name, 1)


async def _strike(world: World) -> None:
    """Faults that come at moments, some of them together."""
    climate, random, scheduler = world.plan.climate, world.random, world.scheduler
    while climate.events:
        await scheduler.pause(random.randrange(1, climate.between_events_us))
        for _ in range(random.randint(1, climate.together_max)):
            slot = random.choice(world.slots)
            _strike_once(world, random.choice(climate.events), slot)


def _strike_once(world: World, event: str, slot: Slot) -> None:
    random, now_us, process = world.random, world.scheduler.now_us, slot.process
    for_us = int(random.random() ** 2 * 60_000_000)
    store = random.choice(world.stores)
    match event:
        case "outage":
            store.down_until_us = now_us + for_us
            world.note(f"{store.name} is down for {for_us} us")
        case "partition":
            cell = slot.cells[store.name]
            cell.cut_until_us = now_us + for_us
            cell.replies_only = random.random() < 0.5
            world.note(f"{process.name} is cut off from {store.name} for {for_us} us")
        case "freeze":
            process.frozen_until_us = now_us + 2 * for_us
            world.note(f"{process.name} is frozen for {2 * for_us} us")
        case "jump":
            _jump(world, process)
        case "restart":
            process.crash()
        case "expiry":
            world.note(f"{store.name}: {store.expire_some(random)} items expire")


def _jump(world: World, process: Process) -> None:
    reach_us = world.random.choice((3_000_000, JUMP_US_MAX))
    process.offset_us = world.random.randint(-reach_us, reach_us)
    world.note_clock(process)
    world.note(f"{process.name}: its clock is wrong by {process.offset_us} us")

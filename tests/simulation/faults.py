"""Faults that strike a world at moments, the passing of time, and the end of all faults."""

from tests.simulation.process import Process
from tests.simulation.world import JUMP_US_MAX, Slot, World

SETTLE_US = 200_000_000
"""After this, nothing that the faults have sent is under way any more."""

FROZEN_US_MAX = 120_000_000
"""How long a front end stands still; what else strikes lasts half as long."""


async def settle(world: World) -> None:
    """The faults end; what they left behind stays."""
    world.weather.calm_down()
    world.note("the faults end")
    for store in world.stores:
        store.down_until_us = 0
    for slot in world.slots:
        for cell in slot.cells.values():
            cell.cut_until_us = 0
    await world.scheduler.pause(SETTLE_US)
    frozen_us = max(slot.process.settles_us for slot in world.slots) - world.scheduler.now_us
    if frozen_us > 0:  # Stalled with a request that is still under way.
        await world.scheduler.pause(frozen_us + SETTLE_US)
    # Where machines are set nobody goes by their clocks, right or wrong.
    for slot in world.slots if not world.plan.machines_us else ():
        skew_us_max = world.plan.skew_us_max
        slot.process.offset_us = max(-skew_us_max, min(slot.process.offset_us, skew_us_max))
    await world.settled()


def expire_some(world: World) -> None:
    """Cells of messages remove items whose time to live has passed."""
    for store in world.stores:
        if store.name != "meta":
            world.note(f"{store.name}: {store.expire_some(world.random)} items expire")


async def strike(world: World) -> None:
    """Without end: faults that come at moments, some of them together."""
    climate, random, scheduler = world.plan.climate, world.random, world.scheduler
    while climate.events:
        await scheduler.pause(random.randrange(1, climate.between_events_us))
        for _ in range(random.randint(1, climate.together_max)):
            slot = random.choice(world.slots)
            _strike_once(world, random.choice(climate.events), slot)


def _strike_once(world: World, event: str, slot: Slot) -> None:
    random, now_us, process = world.random, world.scheduler.now_us, slot.process
    for_us = int(random.random() ** 2 * (FROZEN_US_MAX // 2))
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
            # Two minutes at most: no longer stand still than what a body is kept for.
            if process.frozen_until_us > now_us:
                return
            process.freeze(2 * for_us)
            world.note(f"{process.name} is frozen for {2 * for_us} us")
        case "jump":
            _jump(world, process)
        case "restart":
            process.crash()
        case "expiry":
            world.note(f"{store.name}: {store.expire_some(random)} items expire")


def _jump(world: World, process: Process) -> None:
    reach_us = world.random.choice((3_000_000, JUMP_US_MAX // world.plan.haste))
    process.offset_us = world.random.randint(-reach_us, reach_us)
    world.note_clock(process)
    world.note(f"{process.name}: its clock is wrong by {process.offset_us} us")

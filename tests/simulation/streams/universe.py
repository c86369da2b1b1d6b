"""One seed's universe of streams: main phase, repair, all is read, records expire, time leaps."""

from random import Random

from tests.simulation.clients import Client
from tests.simulation.faults import expire_some
from tests.simulation.replicated.faults import faults
from tests.simulation.replicated.plan import SECOND_US, hasty_places
from tests.simulation.replicated.promised import watched
from tests.simulation.streams import oracle
from tests.simulation.streams.clients import create_streams, produce, read, reshard
from tests.simulation.streams.keeping import keep
from tests.simulation.streams.numbering import work
from tests.simulation.streams.plan import (
    HOUR_US,
    RETENTION_US,
    StreamsPlan,
    make_kept_plan,
    make_numbered_plan,
    make_streams_plan,
)
from tests.simulation.streams.world import StreamsWorld
from tests.simulation.universe import Outcome, all_of, live, restart_all

MAIN_US = 60 * SECOND_US
READ_US_MAX = 600 * SECOND_US
PUTS_AFTER_A_LEAP = 3
UPKEEP_US = 70 * SECOND_US
"""Within this every front end looks after its streams."""


class _Everything(Random):
    """Chooses as many as there are."""

    def randint(self, _a: int, b: int) -> int:
        return b


def run_numbered(seed: int) -> Outcome:
    """Let the universe of a seed be in which producers number their records, and judge it."""
    return _run(make_numbered_plan(seed))


def run(seed: int) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    return _run(make_streams_plan(seed))


def run_kept(seed: int) -> Outcome:
    """Let the universe of a seed be in which retentions change, and judge it."""
    return _run(make_kept_plan(seed))


def _run(its: StreamsPlan) -> Outcome:
    with hasty_places(), watched() as promised:

        def make(plan: StreamsPlan) -> StreamsWorld:
            return StreamsWorld(plan, promised)

        return live(its, _story, oracle.check, make)


async def _story(plan: StreamsPlan, world: StreamsWorld) -> None:
    scheduler = world.scheduler
    until_us = scheduler.now_us + plan.puts_each * 4 * SECOND_US + MAIN_US
    await create_streams(Client(world, "founder"), plan)
    async with faults(plan, world):
        began_us = scheduler.now_us
        await _use(plan, world, until_us)
        ended_us = scheduler.now_us
    if plan.drain == "cold":
        await restart_all(world)
    await _read_all(plan, world, "drain")
    middle_us = began_us + (ended_us - began_us) * world.chance.randrange(100) // 100
    if any(plan.kept_hours):
        await _while_retentions_change(plan, world, middle_us)
        return
    await _while_records_expire(plan, world, middle_us)
    for number, leap_us in enumerate(plan.leaps_us):
        await leap(world, leap_us)
        producer = Client(world, f"after{number}")
        await produce(producer, plan, PUTS_AFTER_A_LEAP)
        if world.chance.random() < 0.5:
            await restart_all(world)
        await _read_all(plan, world, f"leap{number}")


async def _use(plan: StreamsPlan, world: StreamsWorld, until_us: int) -> None:
    names = [f"producer{i}" for i in range(plan.producers)]
    if plan.numbered:
        calls = [
            work(Client(world, f"{name}-{job.name}-{job.stream}"), plan, job, until_us)
            for job in world.jobs
            for name in names
        ]
    else:
        calls = [produce(Client(world, name), plan, plan.puts_each) for name in names]
    calls += [_read_on(Client(world, f"reader{i}"), plan, until_us) for i in range(plan.readers)]
    calls.append(reshard(Client(world, "operator"), plan, until_us))
    if plan.kept_hours[0]:
        calls.append(keep_for_longer(plan, world, until_us))
    await all_of(world, calls)


async def _read_on(client: Client, plan: StreamsPlan, until_us: int) -> None:
    await read(client, client.random.choice(plan.streams), until_us)


async def _read_all(plan: StreamsPlan, world: StreamsWorld, why: str) -> None:
    """Every front end has all of it."""
    for slot in world.slots:
        for stream in plan.streams:
            client = Client(world, f"{why}-{slot.name}-{stream}", only=slot)
            until_us = world.scheduler.now_us + READ_US_MAX
            reading = await read(client, stream, until_us, to_the_end=True)
            if reading is None or reading.ended_us is None:
                world.history.broken.append(f"{client.name} does not come to the end of {stream}")


async def _while_records_expire(plan: StreamsPlan, world: StreamsWorld, middle_us: int) -> None:
    """Some are older than the retention then, others are not; clocks of front ends are wrong."""
    await leap(world, RETENTION_US // 2)  # Within a day somebody looks after each shard.
    await leap(world, middle_us + RETENTION_US - world.scheduler.now_us)
    for slot in world.slots:
        slot.process.offset_us = world.chance.randint(-plan.looks_wrong_us, plan.looks_wrong_us)
        world.note_clock(slot.process)
    await world.scheduler.pause(SECOND_US)
    await _read_all(plan, world, "look")
    for slot in world.slots:
        slot.process.offset_us = 0
    # What waits for the time of a clock that was set back looks again within a minute.
    await world.scheduler.pause(UPKEEP_US)


async def keep_for_longer(plan: StreamsPlan, world: StreamsWorld, until_us: int) -> None:
    """Raise the retention of each stream at some time before."""
    keeper = Client(world, "keeper")
    await keeper.pause(1, until_us - world.scheduler.now_us)
    world.kept = await keep(keeper, plan.streams, RETENTION_US // HOUR_US, plan.kept_hours[0])


async def _while_retentions_change(plan: StreamsPlan, world: StreamsWorld, middle_us: int) -> None:
    """A day, a change of the retention, and another day, in which nobody is away for as long."""
    await world.scheduler.pause(UPKEEP_US)
    await leap_to(world, middle_us + RETENTION_US)
    await _read_all(plan, world, "day")
    if await keep_on(plan, world):
        await _read_all(plan, world, "changed")
    for hours in (36, 48):
        await leap_to(world, middle_us + hours * HOUR_US)
        await _read_all(plan, world, f"after {hours} hours")


async def keep_on(plan: StreamsPlan, world: StreamsWorld) -> bool:
    """Change the retentions after a day; whether they are to change."""
    longer, then = plan.kept_hours
    if then:
        known = world.kept if longer else plan.streams
        await keep(Client(world, "keeper2"), known, longer or RETENTION_US // HOUR_US, then)
        await world.scheduler.pause(UPKEEP_US)
    return then > 0


async def leap_to(world: StreamsWorld, until_us: int) -> None:
    """Time passes by half days; between them every front end looks after its streams."""
    while (left_us := until_us - world.scheduler.now_us) > 0:
        await leap(world, min(left_us, RETENTION_US // 2))
        await world.scheduler.pause(UPKEEP_US)


async def leap(world: StreamsWorld, leap_us: int) -> None:
    """Time passes; what is past its time to live goes, sooner or later."""
    world.scheduler.leap(leap_us)
    world.note(f"{leap_us // SECOND_US} s pass")
    if world.chance.random() < 0.5:
        for store in world.stores:
            store.expire_some(_Everything())
    expire_some(world)
    await world.scheduler.pause(10 * SECOND_US)
    expire_some(world)
    await world.scheduler.pause(10 * SECOND_US)

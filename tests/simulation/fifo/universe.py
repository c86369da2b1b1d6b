"""One seed's universe of FIFO queues: main phase, drain, then more waves after leaps of time."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation.clients import ALL_NAMES, Client, delete, drain
from tests.simulation.faults import expire_some, settle, strike
from tests.simulation.fifo.clients import (
    change_queues,
    consume,
    create_queues,
    produce,
    purge,
)
from tests.simulation.fifo.journal import Journal
from tests.simulation.fifo.oracle import check
from tests.simulation.fifo.plan import FifoPlan, make_fifo_dropping_plan, make_fifo_plan
from tests.simulation.machines import probe, set_machines, with_machines
from tests.simulation.oracle import Violation
from tests.simulation.universe import (
    DRAIN_US,
    Outcome,
    all_of,
    judged_on_machines,
    live,
    restart_all,
)
from tests.simulation.world import World

EMPTY_RECEIVES = 4
WAVE_SENDS = 2


def run(seed: int) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    return let_be(make_fifo_plan(seed))


def run_dropping(seed: int) -> Outcome:
    """As the universe of the seed, with purges, and front ends that drop what was purged."""
    return let_be(make_fifo_dropping_plan(seed))


def run_on_machines(seed: int) -> Outcome:
    """As the universe of the seed, on tables, and machines whose clocks are set."""
    plan = make_fifo_plan(seed)
    random = Random(f"{seed}/fifo/on machines")
    return let_be(replace(plan, **with_machines(plan, random)))


def let_be(
    plan: FifoPlan,
    judge: Callable[[FifoPlan, World, Journal], list[Violation]] = check,
    make: Callable[[FifoPlan], World] = World,
) -> Outcome:
    """Let the universe of a plan be, and judge it."""
    journals: list[Journal] = []

    async def watched_story(plan: FifoPlan, world: World) -> None:
        journals.append(watched(world))
        await _story(plan, world)

    def judge_all(plan: FifoPlan, world: World) -> list[Violation]:
        return judge(plan, world, journals[0])

    return live(
        plan, watched_story, judged_on_machines(judge_all) if plan.machines_us else judge_all, make
    )


def watched(world: World) -> Journal:
    """A journal of what the cells of messages take from now on."""
    journal = Journal(world.scheduler)
    for store in world.stores:
        if store.name in world.cell_names:
            store.witness = journal.at(store)
    return journal


async def _story(plan: FifoPlan, world: World) -> None:
    scheduler = world.scheduler
    start_us = scheduler.now_us
    await create_queues(Client(world, "founder"), plan.queues)
    world.weather.change_to(plan.climate.weather)
    weather = scheduler.start(strike(world), world)
    if plan.machines_us:
        scheduler.start(set_machines(world), world)
    if plan.sequential:
        await _one_after_the_other(plan, world)
    else:
        await _side_by_side(plan, world, start_us + plan.sends_each * 4_000_000 + 20_000_000)
    weather.drop()
    await settle(world)
    _pass_time(world, plan.sleep_us)
    if plan.drain == "cold":
        await restart_all(world)
    await _drain(plan, world)
    if plan.machines_us:
        await probe(world, plan.queues, fifo=True)
    for number, leap_us in enumerate(plan.leaps_us):
        await _next_wave(plan, world, number, leap_us)
    await restart_all(world)
    await _empty(plan, world, "last")


async def _side_by_side(plan: FifoPlan, world: World, until_us: int) -> None:
    calls = [
        produce(Client(world, f"producer{i}"), plan, sends=plan.sends_each)
        for i in range(plan.producers)
    ]
    calls += [consume(Client(world, f"consumer{i}"), plan, until_us) for i in range(plan.consumers)]
    calls.append(change_queues(Client(world, "owner"), plan))
    if plan.purges:
        calls.append(purge(Client(world, "purger"), plan, until_us))
    await all_of(world, calls)


async def _one_after_the_other(plan: FifoPlan, world: World) -> None:
    for number in range(3):
        await produce(Client(world, f"producer{number}"), plan, sends=plan.sends_each)
        until_us = world.scheduler.now_us + 30_000_000
        await consume(Client(world, f"consumer{number}"), plan, until_us)
        for slot in world.slots:
            await slot.process.start(slot.engine.sweep()).outcome


async def _drain(plan: FifoPlan, world: World) -> None:
    only = world.random.choice(world.slots) if plan.drain == "one" else None
    drains = [
        drain(Client(world, f"drain-{queue.name}", only=only), queue.name, DRAIN_US)
        for queue in plan.queues
    ]
    if plan.sequential:
        for one in drains:
            await one
    else:
        await all_of(world, drains)
    world.note("drained")


async def _next_wave(plan: FifoPlan, world: World, number: int, leap_us: int) -> None:
    """Time passes, and items go; then each front end goes on, with what it remembers."""
    scheduler = world.scheduler
    _pass_time(world, leap_us)
    if world.random.random() < 0.5:
        world.random.choice(world.slots).process.crash()
    await scheduler.pause(10_000_000)
    for slot in world.slots:
        client = Client(world, f"wave{number}-{slot.name}", only=slot)
        await produce(client, plan, sends=WAVE_SENDS)
    await _empty(plan, world, f"wave{number}")


def _pass_time(world: World, leap_us: int) -> None:
    world.scheduler.leap(leap_us)
    world.note(f"{leap_us // 1_000_000} s pass")
    expire_some(world)


async def _empty(plan: FifoPlan, world: World, name: str) -> None:
    """Receive and delete, through every front end, until nothing comes any more."""
    scheduler = world.scheduler
    began_us = scheduler.now_us
    for slot in world.slots:
        client = Client(world, f"{name}-{slot.name}", only=slot)
        for queue in plan.queues:
            empty = 0
            shown_us = began_us + queue.delay_s * 1_000_000
            while empty < EMPTY_RECEIVES:
                asked_us = scheduler.now_us
                output = await client.call(
                    "ReceiveMessage",
                    queue.name,
                    {"QueueUrl": queue.name, "MaxNumberOfMessages": 10, **ALL_NAMES},
                )
                messages = output.get("Messages", []) if output else []
                handles = [message["ReceiptHandle"] for message in messages]
                await delete(client, queue.name, handles)
                empty = 0 if handles or asked_us <= shown_us else empty + 1
                await client.pause(1_000_000, 3_000_000)
    world.note("drained")

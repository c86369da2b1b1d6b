"""One seed's universe from its beginning to its end: main phase, drain, last look."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from tests.simulation.clients import Client, consume, create_queues, drain, produce, purge
from tests.simulation.faults import expire_some, settle, strike
from tests.simulation.history import History
from tests.simulation.machines import probe, set_machines, tables_are_known, with_machines
from tests.simulation.oracle import Violation, check
from tests.simulation.plan import Plan, Surroundings, bounds_as, make_dropping_plan, make_plan
from tests.simulation.scheduler import StuckError, Task
from tests.simulation.world import JUMP_US_MAX, World

P = TypeVar("P", bound=Surroundings)
W = TypeVar("W", bound=World)

DRAIN_US = JUMP_US_MAX + 120_000_000
"""By then every lease of the main phase has ended, also those of clocks that were ahead."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a universe. `requests` counts those that cells served.

    `redelivered` counts messages that came again after their delete, which may be where they are
    replicated.
    """

    plan: Surroundings
    history: History
    violations: list[Violation]
    requests: int
    redelivered: int = 0


def run(seed: int) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    plan = make_plan(seed)
    return live(plan, story, check)


def run_dropping(seed: int) -> Outcome:
    """As the universe of the seed, with purges, and front ends that drop what was purged."""
    return live(make_dropping_plan(seed), story, check)


def run_on_machines(seed: int) -> Outcome:
    """As the universe of the seed, on tables, and machines whose clocks are set."""
    plan = make_plan(seed)
    random = Random(f"{seed}/on machines")
    return live(replace(plan, **with_machines(plan, random)), story, judged_on_machines(check))


def judged_on_machines(
    judge: Callable[[P, W], list[Violation]],
) -> Callable[[P, W], list[Violation]]:
    """What else is wrong where machines' clocks are set."""

    def judge_all(plan: P, world: W) -> list[Violation]:
        return [*judge(plan, world), *tables_are_known(world.stores), *world.probed]

    return judge_all


def live(
    plan: P,
    story: Callable[[P, W], Coroutine[Any, Any, None]],
    judge: Callable[[P, W], list[Violation]],
    make: Callable[[P], W] = World,  # type: ignore[assignment]
) -> Outcome:
    """Let a story happen to its end in a world of this plan."""
    with bounds_as(plan.bounds):
        world = make(plan)
        task = world.scheduler.start(story(plan, world), world)
        try:
            world.scheduler.run(task.outcome)
        except StuckError as stuck:
            world.history.broken.append(str(stuck))
        violations = judge(plan, world)
        world.end()
    requests = sum(world.spent().values())
    return Outcome(plan, world.history, violations, requests, world.redelivered)


async def story(plan: Plan, world: World) -> None:
    """What happens in a universe."""
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
    if plan.drain == "cold":
        await restart_all(world)
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
    await _look_again(plan, world)


async def _side_by_side(plan: Plan, world: World, until_us: int) -> None:
    calls = [produce(Client(world, f"producer{i}"), plan) for i in range(plan.producers)]
    calls += [consume(Client(world, f"consumer{i}"), plan, until_us) for i in range(plan.consumers)]
    if plan.purges:
        names = [queue.name for queue in plan.queues]
        calls.append(purge(Client(world, "purger"), names, until_us))
    await all_of(world, calls)


async def _one_after_the_other(plan: Plan, world: World) -> None:
    for number in range(3):
        await produce(Client(world, f"producer{number}"), plan)
        until_us = world.scheduler.now_us + 30_000_000
        await consume(Client(world, f"consumer{number}"), plan, until_us)
        for slot in world.slots:
            await slot.process.start(slot.engine.sweep()).outcome


async def all_of(world: World, calls: list[Coroutine[Any, Any, None]]) -> None:
    """Let calls of clients happen side by side."""
    tasks: list[Task] = [world.scheduler.start(call, world) for call in calls]
    for task in tasks:
        await task.outcome


async def restart_all(world: World, pause_us: int = 10_000_000) -> None:
    """Every front end ends, and starts with cold caches."""
    for slot in world.slots:
        slot.process.crash()
    await world.scheduler.pause(pause_us)


async def drain_all(world: World, how: str, names: Sequence[str], for_us: int = DRAIN_US) -> None:
    """Receive and delete all there is: at "any" front end, at "one", or when all are "cold"."""
    if how == "cold":
        await restart_all(world)
    only = world.random.choice(world.slots) if how == "one" else None
    await all_of(
        world,
        [drain(Client(world, f"drain-{name}", only=only), name, for_us) for name in names],
    )
    world.note("drained")


async def look_once(world: World, names: Sequence[str], why: str = "last") -> None:
    """Each front end receives and deletes what it finds, twice from each queue."""
    for slot in world.slots:
        client = Client(world, f"{why}-{slot.name}", only=slot)
        for name in names:
            for _ in range(2):
                await drain(client, name, 1)


async def _look_again(plan: Plan, world: World) -> None:
    """Whatever is delivered now had been deleted."""
    scheduler = world.scheduler
    names = [queue.name for queue in plan.queues]
    world.note("drained")
    if plan.machines_us:
        await probe(world, plan.queues, fifo=False)
    await scheduler.pause(40_000_000)
    await look_once(world, names)
    await scheduler.pause(660_000_000)
    for leap_us in plan.leaps_us:
        scheduler.leap(leap_us)
        world.note(f"{leap_us // 1_000_000} s pass")
        expire_some(world)
        await scheduler.pause(10_000_000)
        await look_once(world, names)
    await restart_all(world)
    await look_once(world, names)

"""One seed's universe of replicated cells: main phase, repair, maybe a loss, drain, last look."""

from tests.simulation.clients import Client, consume, create_queues, produce, purge
from tests.simulation.fifo import clients as fifo_clients
from tests.simulation.fifo.plan import HASTE
from tests.simulation.machines import set_machines
from tests.simulation.oracle import Violation
from tests.simulation.replicated import fifo_oracle, oracle
from tests.simulation.replicated.directed import direct, direct_fifo
from tests.simulation.replicated.faults import set_tables, settle, strike
from tests.simulation.replicated.plan import (
    ReplicatedFifoPlan,
    ReplicatedPlan,
    hasty_places,
    make_fifo_plan,
    make_plan,
    managers_weather,
)
from tests.simulation.replicated.promised import watched
from tests.simulation.replicated.world import ReplicatedWorld
from tests.simulation.universe import Outcome, all_of, drain_all, live, look_once, restart_all
from tests.simulation.world import JUMP_US_MAX

MAIN_US = 60_000_000
DRAIN_US = JUMP_US_MAX // HASTE + 70_000_000
"""By then every lease of the main phase has ended, also those of clocks that were ahead."""


def run(seed: int, *, fifo: bool = False, directed: str = "") -> Outcome:
    """Let the universe of a seed be, and judge it; `directed`: towards something (directed.py)."""
    with hasty_places(), watched() as promised:

        def make(plan: ReplicatedPlan | ReplicatedFifoPlan) -> ReplicatedWorld:
            return ReplicatedWorld(plan, promised)

        if fifo:
            return live(direct_fifo(make_fifo_plan(seed), directed), _story, _judge, make)
        return live(direct(make_plan(seed), directed), _story, _judge, make)


def _judge(plan: ReplicatedPlan | ReplicatedFifoPlan, world: ReplicatedWorld) -> list[Violation]:
    if isinstance(plan, ReplicatedFifoPlan):
        return fifo_oracle.check(plan, world)
    return oracle.check(plan, world)


async def _story(plan: ReplicatedPlan | ReplicatedFifoPlan, world: ReplicatedWorld) -> None:
    scheduler = world.scheduler
    until_us = scheduler.now_us + plan.sends_each * 4_000_000 + MAIN_US
    founder = Client(world, "founder")
    if isinstance(plan, ReplicatedFifoPlan):
        await fifo_clients.create_queues(founder, plan.queues)
    else:
        await create_queues(founder, plan.queues)
    world.weather.change_to(plan.climate.weather)
    world.managers_weather.change_to(managers_weather(plan))
    strikes = scheduler.start(strike(world), world)
    if plan.machines_us:
        scheduler.start(set_machines(world), world)
        scheduler.start(set_tables(world), world)
    if isinstance(plan, ReplicatedFifoPlan):
        await _use_fifo_queues(plan, world, until_us)
    else:
        await _use_queues(plan, world, until_us)
    strikes.drop()
    await settle(world)
    names = [queue.name for queue in plan.queues]
    await drain_all(world, plan.drain, names, DRAIN_US)
    await scheduler.pause(40_000_000)
    await restart_all(world)
    await look_once(world, names)


async def _use_queues(plan: ReplicatedPlan, world: ReplicatedWorld, until_us: int) -> None:
    calls = [produce(Client(world, f"producer{i}"), plan) for i in range(plan.producers)]
    calls += [consume(Client(world, f"consumer{i}"), plan, until_us) for i in range(plan.consumers)]
    if plan.purges:
        names = [queue.name for queue in plan.queues]
        calls.append(purge(Client(world, "purger"), names, until_us))
    await all_of(world, calls)


async def _use_fifo_queues(plan: ReplicatedFifoPlan, world: ReplicatedWorld, until_us: int) -> None:
    calls = [
        fifo_clients.produce(Client(world, f"producer{i}"), plan, sends=plan.sends_each)
        for i in range(plan.producers)
    ]
    calls += [
        fifo_clients.consume(Client(world, f"consumer{i}"), plan, until_us)
        for i in range(plan.consumers)
    ]
    calls.append(fifo_clients.change_queues(Client(world, "owner"), plan))
    if plan.purges:
        calls.append(fifo_clients.purge(Client(world, "purger"), plan, until_us))
    await all_of(world, calls)

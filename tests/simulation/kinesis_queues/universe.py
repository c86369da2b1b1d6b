"""One seed's universe of queues of the Kinesis API: main phase, repair, drain, last looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from control_plane.stream_operations import split_shard, update_shard_count
from control_plane.stream_operations.named import check_provisioned
from tests.simulation.clients import Client
from tests.simulation.kinesis_queues import oracle
from tests.simulation.kinesis_queues.consumers import (
    Consumer,
    change_counts,
    create,
    drain,
    put_on_demand,
)
from tests.simulation.kinesis_queues.plan import (
    KinesisQueuePlan,
    KinesisQueuesPlan,
    make_kinesis_queues_plan,
)
from tests.simulation.kinesis_queues.world import KinesisQueuesWorld
from tests.simulation.replicated.faults import faults
from tests.simulation.replicated.plan import SECOND_US, hasty_places
from tests.simulation.replicated.promised import watched
from tests.simulation.stream_queues.universe import LOOK_US, MAIN_US, while_records_expire
from tests.simulation.streams.clients import create_streams, produce, reshard
from tests.simulation.universe import DRAIN_US, Outcome, all_of, live, restart_all

DRAIN_ALL_US = 2 * MAIN_US


def run(seed: int, *, loses: bool = False) -> Outcome:
    """Let the universe of a seed be, and judge it; in some, cells fail, and one is lost."""
    plan = make_kinesis_queues_plan(seed, loses=loses)
    with hasty_places(), _resharding(), watched() as promised:
        return live(plan, _story, oracle.check, partial(KinesisQueuesWorld, promised=promised))


@contextmanager
def _resharding() -> Iterator[None]:
    """Streams on demand are split and merged, as a service does it, and their owners cannot."""
    modules = (split_shard, update_shard_count)
    for module in modules:
        vars(module)["check_provisioned"] = lambda _definition: None
    try:
        yield
    finally:
        for module in modules:
            vars(module)["check_provisioned"] = check_provisioned


async def _story(plan: KinesisQueuesPlan, world: KinesisQueuesWorld) -> None:
    until_us = world.scheduler.now_us + plan.puts_each * 4 * SECOND_US + MAIN_US
    founder = Client(world, "founder")
    await create_streams(founder, plan)
    await put_on_demand(founder, plan)
    for queue in plan.queues:
        if not queue.late:
            await create(founder, queue)
    async with faults(plan, world):
        await _use(plan, world, until_us)
    if plan.drain == "cold":
        await restart_all(world)
    await _drain_all(plan, world)
    await _look_again(world)
    await while_records_expire(plan, world, partial(_look, world))


async def _use(plan: KinesisQueuesPlan, world: KinesisQueuesWorld, until_us: int) -> None:
    calls = [
        produce(Client(world, f"producer{i}"), plan, plan.puts_each) for i in range(plan.producers)
    ]
    calls += [
        Consumer(Client(world, f"consumer{i}")).consume(until_us) for i in range(plan.consumers)
    ]
    calls += [
        _create_late(Client(world, f"founder-{queue.name}"), queue)
        for queue in plan.queues
        if queue.late
    ]
    calls.append(reshard(Client(world, "operator"), plan, until_us))
    calls.append(change_counts(Client(world, "owner"), plan, until_us))
    await all_of(world, calls)


async def _create_late(client: Client, queue: KinesisQueuePlan) -> None:
    await client.pause(1, MAIN_US)
    await create(client, queue)


async def _drain_all(plan: KinesisQueuesPlan, world: KinesisQueuesWorld) -> None:
    """Count what is there once no lease lasts, receive and acknowledge it, and count again.

    Dead letters come last: some may lie behind more records than a front end looks at.
    """
    await world.scheduler.pause(DRAIN_US)
    world.at_rest = await world.counted()
    world.drain_began_us = world.scheduler.now_us
    only = world.chance.choice(world.slots) if plan.drain == "one" else None
    for dead in world.chance.choice(((False, True), (True, False, True))):
        clients = [(Client(world, f"drain-{name}-{dead}", only=only), name) for name in world.arns]
        drains = [drain(client, name, DRAIN_ALL_US, dead=dead) for client, name in clients]
        await all_of(world, drains)
    world.drained_us = world.scheduler.now_us
    world.at_end = await world.counted()
    world.note("drained")


async def _look_again(world: KinesisQueuesWorld) -> None:
    """Whatever is delivered now was acknowledged: as front ends know it, then as it is stored."""
    await world.scheduler.pause(LOOK_US)
    await _look(world, "last")
    await restart_all(world)
    await _look(world, "cold")


async def _look(world: KinesisQueuesWorld, why: str) -> None:
    """Each front end receives and acknowledges what it finds, twice from each queue."""
    for slot in world.slots:
        client = Client(world, f"{why}-{slot.name}", only=slot)
        for name in world.arns:
            for dead in (False, True, False, True):
                await drain(client, name, 1, dead=dead)

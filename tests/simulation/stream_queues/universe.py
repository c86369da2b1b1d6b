"""One seed's universe of queues over streams: main phase, repair, drain, last looks, retention."""

import json
from collections.abc import Awaitable, Callable
from functools import partial

from control_plane.core.replication import GUARANTEE
from data_plane.core.queue import EXACTLY_ONCE
from tests.simulation.clients import ALL_NAMES, Client, consume_from, drain, purge
from tests.simulation.replicated.faults import faults
from tests.simulation.replicated.plan import SECOND_US, hasty_places
from tests.simulation.replicated.promised import watched
from tests.simulation.sealed import ACCOUNT, REGION
from tests.simulation.stream_queues import oracle
from tests.simulation.stream_queues.plan import (
    StreamQueuePlan,
    StreamQueuesPlan,
    make_half_way_plan,
    make_kept_plan,
    make_purged_plan,
    make_stream_queues_plan,
)
from tests.simulation.stream_queues.world import PURGE_KNOWN_US, StreamQueuesWorld
from tests.simulation.streams.clients import create_streams, produce, reshard
from tests.simulation.streams.plan import HOUR_US, RETENTION_US, StreamsPlan
from tests.simulation.streams.universe import (
    UPKEEP_US,
    keep_for_longer,
    keep_on,
    leap,
    leap_to,
)
from tests.simulation.streams.world import StreamsWorld
from tests.simulation.universe import DRAIN_US, Outcome, all_of, live, look_once, restart_all

MAIN_US = 60 * SECOND_US
PUTS_THEN = 4
"""Before time leaps."""
PURGE_AGAIN_US = 61 * SECOND_US
"""So soon a queue may be purged again."""
KEPT_DRAIN_US = 30 * SECOND_US
LOOK_US = 40 * SECOND_US
LATE_US = 40 * 60 * SECOND_US


def run(seed: int, *, loses: bool = False) -> Outcome:
    """Let the universe of a seed be, and judge it; in some, cells fail, and one is lost."""
    return _judged(make_stream_queues_plan(seed, loses=loses))


def run_half_way(seed: int) -> Outcome:
    """As the universe of the seed, in which moves of dead letters are often left half way."""
    return _judged(make_half_way_plan(seed))


def run_purged(seed: int) -> Outcome:
    """As the universe of the seed, in which somebody purges its queues."""
    return _judged(make_purged_plan(seed))


def run_kept(seed: int) -> Outcome:
    """As the universe of the seed, in which retentions of its streams change."""
    return _judged(make_kept_plan(seed))


def _judged(plan: StreamQueuesPlan) -> Outcome:
    with hasty_places(), watched() as promised:
        return live(plan, _story, oracle.check, partial(StreamQueuesWorld, promised=promised))


async def _story(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
    until_us = world.scheduler.now_us + plan.puts_each * 4 * SECOND_US + MAIN_US
    founder = Client(world, "founder")
    await create_streams(founder, plan)
    for queue in plan.queues:
        await _create_dead_letter_queue(founder, queue)
        if not queue.late:
            await _create(founder, queue)
    async with faults(plan, world):
        await _use(plan, world, until_us)
    world.healed_us = world.scheduler.now_us
    if plan.purges and world.chance.random() < 0.5:
        await _purge_all(plan, world)
    if plan.drain == "cold":
        await restart_all(world)
    await _drain_all(plan, world)
    await _look_again(plan, world)
    if any(plan.kept_hours):
        await _while_retentions_change(plan, world)
        return
    names = [queue.name for queue in plan.queues]
    await while_records_expire(plan, world, partial(look_once, world, names))


def _arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


async def _create(client: Client, queue: StreamQueuePlan) -> None:
    """The queue; one that is late may fail to be."""
    attributes = {
        "TidegateStreamArn": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{queue.stream}",
        "TidegateStartingPosition": "LATEST" if queue.late else "TRIM_HORIZON",
        "VisibilityTimeout": str(queue.visibility_s),
        **({"FifoQueue": "true"} if queue.fifo else {}),
    }
    if queue.receives_max:
        policy = {
            "deadLetterTargetArn": _arn(queue.dead),
            "maxReceiveCount": queue.receives_max,
        }
        attributes["RedrivePolicy"] = json.dumps(policy)
    world = client.world
    assert isinstance(world, StreamQueuesWorld)
    params = {"QueueName": queue.name, "Attributes": attributes}
    created = await client.call("CreateQueue", queue.name, params)
    assert created is not None or queue.late, "queues are created while all is well"
    if created is not None:
        world.created_us[queue.name] = world.scheduler.now_us


async def _create_dead_letter_queue(client: Client, queue: StreamQueuePlan) -> None:
    """A standard one with a guarantee that has it lie on a chain, as all else here does."""
    if queue.receives_max:
        attributes = {"FifoQueue": "true"} if queue.fifo else {GUARANTEE: EXACTLY_ONCE}
        params = {"QueueName": queue.dead, "Attributes": attributes}
        assert await client.call("CreateQueue", queue.dead, params) is not None


async def _create_late(client: Client, queue: StreamQueuePlan, within_us: int) -> None:
    await client.pause(1, within_us)
    await _create(client, queue)


async def _use(plan: StreamQueuesPlan, world: StreamQueuesWorld, until_us: int) -> None:
    names = [queue.name for queue in plan.queues]
    calls = [
        produce(Client(world, f"producer{i}"), plan, plan.puts_each) for i in range(plan.producers)
    ]
    calls += [
        consume_from(Client(world, f"consumer{i}"), names, until_us) for i in range(plan.consumers)
    ]
    calls += [
        _create_late(Client(world, f"founder-{queue.name}"), queue, MAIN_US)
        for queue in plan.queues
        if queue.late
    ]
    calls.append(reshard(Client(world, "operator"), plan, until_us))
    if plan.kept_hours[0]:
        calls.append(keep_for_longer(plan, world, until_us))
    if plan.purges:
        calls.append(
            purge(Client(world, "purger"), [queue.name for queue in plan.queues], until_us)
        )
    await all_of(world, calls)


async def _purge_all(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
    """Purge each queue; when every front end knows of it, records are put that stay."""
    client = Client(world, "last purger")
    await produce(Client(world, "before the purge"), plan, PUTS_THEN)
    await world.scheduler.pause(PURGE_AGAIN_US)
    for name in world.created_us:
        await client.call("PurgeQueue", name, {"QueueUrl": name})
    await world.scheduler.pause(PURGE_KNOWN_US + world.apart_us())
    await produce(Client(world, "after the purge"), plan, PUTS_THEN)


async def _drain_all(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
    """Receive and delete what is there; then what was moved meanwhile."""
    world.drain_began_us = world.scheduler.now_us
    only = world.chance.choice(world.slots) if plan.drain == "one" else None
    for names in (
        [queue.name for queue in plan.queues],
        [queue.dead for queue in plan.queues if queue.receives_max],
    ):
        clients = [(Client(world, f"drain-{name}", only=only), name) for name in names]
        await all_of(world, [drain(client, name, DRAIN_US) for client, name in clients])
    world.drained_us = world.scheduler.now_us
    world.note("drained")


async def _look_again(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
    """Whatever is delivered now had been deleted: as front ends know it, then as it is stored."""
    names = [queue.name for queue in plan.queues]
    await world.scheduler.pause(LOOK_US)
    await look_once(world, names, "last")
    await restart_all(world)
    await look_once(world, names, "cold")


async def _while_retentions_change(plan: StreamQueuesPlan, world: StreamQueuesWorld) -> None:
    """Records are put and met; after a day retentions change; what is kept is received then.

    What was met is in the memory of front ends.
    """
    scheduler, random = world.scheduler, world.chance
    began_us = scheduler.now_us
    await produce(Client(world, "after"), plan, PUTS_THEN)
    middle_us = (began_us + scheduler.now_us) // 2
    for slot in world.slots if random.random() < 0.7 else ():
        for queue in plan.queues:
            params = {"QueueUrl": queue.name, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
            client = Client(world, f"meets-{slot.name}", only=slot)
            await client.call("ReceiveMessage", queue.name, {**params, **ALL_NAMES})
    await scheduler.pause(UPKEEP_US)
    await leap_to(world, middle_us + RETENTION_US)
    await keep_on(plan, world)
    await leap_to(world, middle_us + random.choice((24, 36, 48)) * HOUR_US)
    only = random.choice((None, *world.slots))
    for queue in plan.queues:
        looked_us = scheduler.now_us
        await drain(Client(world, f"kept-{queue.name}", only=only), queue.name, KEPT_DRAIN_US)
        world.emptied.append((queue.name, looked_us, scheduler.now_us))
    await leap(world, RETENTION_US // 2)
    await look_once(world, [queue.name for queue in plan.queues], "kept")


async def while_records_expire(
    plan: StreamsPlan, world: StreamsWorld, look: Callable[[str], Awaitable[None]]
) -> None:
    """Some of what is put now is older than the retention at the next look, the rest at the last.

    What is looked for late is still stored: for an hour longer than it is shown.
    """
    began_us = world.scheduler.now_us
    await produce(Client(world, "after"), plan, PUTS_THEN)
    middle_us = (began_us + world.scheduler.now_us) // 2
    await leap(world, RETENTION_US // 2)  # Within a day somebody looks after each shard.
    late_us = world.chance.choice((0, LATE_US))
    await leap(world, middle_us + RETENTION_US + late_us - world.scheduler.now_us)
    await look("look")
    await leap(world, RETENTION_US // 2)
    await leap(world, RETENTION_US // 2)
    await look("expired")

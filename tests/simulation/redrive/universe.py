"""One seed's universe with dead letters: what is in it, and what happens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from tests.simulation.clients import ALL_NAMES, Client, delete
from tests.simulation.faults import settle, strike
from tests.simulation.fifo import plan as fifo_plan
from tests.simulation.fifo.universe import watched
from tests.simulation.plan import BLOB_BOUNDS, SMALL_BOUNDS, Surroundings
from tests.simulation.sealed import ACCOUNT
from tests.simulation.universe import Outcome, all_of, drain_all, live, look_once, restart_all
from tests.simulation.weather import choose_climate
from tests.simulation.world import World

REGION: Final = "eu-west-1"
RETENTION_S: Final = 345_600
"""Of all queues, but that some dead-letter queues keep messages for less."""
TASKS: Final = ("none", "other", "home")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPlan(Surroundings):
    """Queues `sources` whose messages go to `dead` when they were received `receives_max` times.

    `tasks`: whether there are move tasks, and whether they move to `other` or to where the messages
    came from. `policies_change`: somebody changes the redrive policies meanwhile.
    `throughput_changes`: somebody changes the throughput limits of FIFO queues.
    """

    fifo: bool
    sources: tuple[str, ...]
    receives_max: int
    visibility_s: int
    dead_retention_s: int
    tasks: str
    policies_change: bool
    throughput_changes: bool
    consumers: int
    sends_each: int
    drain: str

    @property
    def name(self) -> str:
        """Other randomness than in the other universes of this seed."""
        return f"{self.seed}/redrive{'/fifo' * self.fifo}"

    @property
    def dead(self) -> str:
        """The dead-letter queue."""
        return "dead.fifo" if self.fifo else "dead"

    @property
    def other(self) -> str:
        """Where tasks may move messages to."""
        return "other.fifo" if self.fifo else "other"

    @property
    def queues(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.sources, self.dead, self.other)


def make_plan(seed: int, *, fifo: bool = False) -> DeadLetterPlan:
    """The plan of a seed."""
    return _fifo_plan(seed) if fifo else _standard_plan(seed)


def _fifo_plan(seed: int) -> DeadLetterPlan:
    """Like that of standard queues, with the weather and the bounds of FIFO queues."""
    random = Random(f"{seed}/redrive/fifo/plan")
    other = fifo_plan.make_fifo_plan(seed)
    hasty = random.random() < 0.5
    plan = _standard_plan(seed)
    return replace(
        plan,
        fifo=True,
        sources=tuple(f"{name}.fifo" for name in plan.sources),
        climate=other.climate,
        stamps=other.stamps,
        live_present=True,
        blob_threshold_bytes=other.blob_threshold_bytes,
        haste=fifo_plan.HASTE if hasty else 1,
        bounds={
            **(fifo_plan.SMALL_BOUNDS if random.random() < 0.5 else {}),
            **(fifo_plan.HASTY_BOUNDS if hasty else {}),
        },
        throughput_changes=random.random() < 0.25,
    )


def _standard_plan(seed: int) -> DeadLetterPlan:
    random = Random(f"{seed}/redrive/plan")
    stamps = random.random() < 0.6
    has_blobs = not stamps and random.random() < 0.4
    small = random.random() < 0.4
    tasks = random.choice(TASKS)
    return DeadLetterPlan(
        seed=seed,
        front_ends=random.choice((1, 2, 2, 3)),
        cells=random.choice((1, 2)),
        climate=choose_climate(random),
        skew_us_max=random.choice((0, 50_000, 2_000_000)),
        live_present=random.random() < 0.6,
        stamps=stamps,
        blob_threshold_bytes=random.choice((0, 90, 150)) if has_blobs else None,
        bounds={**(SMALL_BOUNDS if small else {}), **(BLOB_BOUNDS if has_blobs else {})},
        sequential=False,
        moves=tasks != "none",
        fifo=False,
        sources=("q0", "q1")[: random.choice((1, 1, 2))],
        receives_max=random.choice((1, 1, 2, 3)),
        visibility_s=random.choice((1, 3, 8)),
        dead_retention_s=random.choice((90, RETENTION_S, RETENTION_S, RETENTION_S)),
        tasks=tasks,
        policies_change=random.random() < 0.3,
        throughput_changes=False,
        consumers=random.choice((1, 2, 3)),
        sends_each=random.choice((3, 6, 10)),
        drain=random.choice(("any", "one", "cold")),
    )


def run(seed: int, *, fifo: bool = False) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    from tests.simulation.redrive.oracle import check  # noqa: PLC0415 - it needs the plan's type

    return live(make_plan(seed, fifo=fifo), _story, check)


def arn(queue: str) -> str:
    """The queue's ARN."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"


async def _story(plan: DeadLetterPlan, world: World) -> None:
    scheduler = world.scheduler
    if plan.fifo:
        watched(world)
    until_us = scheduler.now_us + plan.sends_each * 4_000_000 + 40_000_000
    await _create_queues(plan, Client(world, "founder"))
    world.weather.change_to(plan.climate.weather)
    weather = scheduler.start(strike(world), world)
    calls = [_produce(plan, Client(world, f"producer{i}")) for i in range(2)]
    calls += [
        _consume(plan, Client(world, f"consumer{i}"), until_us) for i in range(plan.consumers)
    ]
    calls.append(_bury(plan, Client(world, "undertaker"), until_us))
    if plan.moves:
        calls.append(_redrive(plan, Client(world, "redriver"), until_us))
    if plan.policies_change:
        calls.append(_change_policies(plan, Client(world, "changer"), until_us))
    if plan.throughput_changes:
        calls.append(_change_throughput(plan, Client(world, "owner"), until_us))
    await all_of(world, calls)
    weather.drop()
    await settle(world)
    await drain_all(world, plan.drain, plan.queues)
    # Whatever is delivered now had been deleted, or moved.
    await scheduler.pause(40_000_000)
    await restart_all(world, 700_000_000)
    await look_once(world, plan.queues)


async def _create_queues(plan: DeadLetterPlan, client: Client) -> None:
    for name in (plan.dead, plan.other, *plan.sources):
        retention_s = plan.dead_retention_s if name == plan.dead else RETENTION_S
        attributes = {
            "VisibilityTimeout": str(plan.visibility_s),
            "MessageRetentionPeriod": str(retention_s),
        }
        if plan.fifo:
            attributes |= {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
        if name in plan.sources:
            attributes["RedrivePolicy"] = _policy(plan, plan.receives_max)
        params = {"QueueName": name, "Attributes": attributes}
        assert await client.call("CreateQueue", name, params) is not None


def _policy(plan: DeadLetterPlan, receives_max: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn(plan.dead), "maxReceiveCount": receives_max})


async def _produce(plan: DeadLetterPlan, client: Client) -> None:
    random = client.random
    for number in range(plan.sends_each):
        queue = random.choice(plan.sources)
        await client.pause(1_000, random.choice((20_000, 3_000_000, 9_000_000)))
        entries = [
            {"Id": f"e{i}", **_message(plan, random, f"{client.name}.{number}.{i}@{queue}")}
            for i in range(random.choice((1, 1, 2, 5)))
        ]
        await client.call("SendMessageBatch", queue, {"QueueUrl": queue, "Entries": entries})


def _message(plan: DeadLetterPlan, random: Random, name: str) -> Mapping[str, Any]:
    message: dict[str, Any] = {"MessageBody": name + "#" + "é\n" * random.choice((0, 3, 300))}
    if plan.fifo:
        message["MessageGroupId"] = name.split(".", maxsplit=1)[0] + random.choice("ab")
        message["MessageDeduplicationId"] = name
    if random.random() < 0.3:
        message["MessageAttributes"] = {
            "raw": {"DataType": "Binary.x", "BinaryValue": "AAH/"},
        }
    return message


async def _consume(plan: DeadLetterPlan, client: Client, until_us: int) -> None:
    """Receive from the sources, and forget most of it."""
    random = client.random
    while client.world.scheduler.now_us < until_us:
        queue = random.choice(plan.sources)
        await _receive(client, queue, random.choice((0, 0, 1, 3)), 0.25)
        await client.pause(1_000, random.choice((50_000, 1_000_000, 4_000_000)))


async def _bury(plan: DeadLetterPlan, client: Client, until_us: int) -> None:
    """Receive from the other queues, and delete some of it."""
    while client.world.scheduler.now_us < until_us:
        queue = client.random.choice((plan.dead, plan.dead, plan.other))
        await _receive(client, queue, client.random.choice((0, 1, plan.visibility_s)), 0.4)
        await client.pause(1_000, client.random.choice((1_000_000, 8_000_000)))


async def _receive(client: Client, queue: str, visibility_s: int, deletes: float) -> None:
    random = client.random
    params: dict[str, Any] = {
        "QueueUrl": queue,
        "MaxNumberOfMessages": random.choice((1, 3, 10)),
        "VisibilityTimeout": visibility_s,
        **ALL_NAMES,
    }
    if random.random() < 0.3:
        params["WaitTimeSeconds"] = random.choice((1, 3))
    if queue.endswith(".fifo") and random.random() < 0.3:
        params["ReceiveRequestAttemptId"] = f"{client.name}.{client.world.scheduler.now_us}"
    handles = await _received(client, queue, params)
    if random.random() < 0.15:
        await client.pause(1_000_000, 12_000_000)  # and what comes now is late
    if handles and random.random() < 0.25:
        await _change(client, queue, random.choice(handles))
    if "ReceiveRequestAttemptId" in params and random.random() < 0.3:
        handles += await _received(client, queue, params)
    await delete(client, queue, [handle for handle in handles if random.random() < deletes])


async def _received(client: Client, queue: str, params: Mapping[str, Any]) -> list[str]:
    output = await client.call("ReceiveMessage", queue, params)
    return [message["ReceiptHandle"] for message in (output or {}).get("Messages", ())]


async def _change(client: Client, queue: str, handle: str) -> None:
    seconds = client.random.choice((0, 0, 2, 10))
    params = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
    await client.call("ChangeMessageVisibility", queue, params)


async def _redrive(plan: DeadLetterPlan, client: Client, until_us: int) -> None:
    """Start tasks, and cancel some of them."""
    random = client.random
    while client.world.scheduler.now_us < until_us:
        await client.pause(3_000_000, 25_000_000)
        params: dict[str, Any] = {"SourceArn": arn(plan.dead)}
        if plan.tasks == "other":
            params["DestinationArn"] = arn(plan.other)
        if random.random() < 0.6:
            params["MaxNumberOfMessagesPerSecond"] = random.choice((1, 2, 50))
        output = await client.call("StartMessageMoveTask", plan.dead, params)
        if output is not None and random.random() < 0.2:
            await client.pause(1_000, 8_000_000)
            await client.call("CancelMessageMoveTask", plan.dead, output)


async def _change_policies(plan: DeadLetterPlan, client: Client, until_us: int) -> None:
    random = client.random
    while client.world.scheduler.now_us < until_us:
        await client.pause(1_000_000, 15_000_000)
        policy = random.choice(("", *(_policy(plan, count) for count in (1, 2, 50))))
        queue = random.choice(plan.sources)
        params = {"QueueUrl": queue, "Attributes": {"RedrivePolicy": policy}}
        await client.call("SetQueueAttributes", queue, params)


async def _change_throughput(plan: DeadLetterPlan, client: Client, until_us: int) -> None:
    random = client.random
    while client.world.scheduler.now_us < until_us:
        await client.pause(5_000_000, 40_000_000)
        queue = random.choice(plan.queues)
        limit = random.choice(("perQueue", "perMessageGroupId"))
        params = {"QueueUrl": queue, "Attributes": {"FifoThroughputLimit": limit}}
        await client.call("SetQueueAttributes", queue, params)

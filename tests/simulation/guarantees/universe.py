"""One seed's universe of a queue that delivers at most once and one that does exactly once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final

from data_plane.core.queue import AT_MOST_ONCE, EXACTLY_ONCE
from tests.simulation.clients import ALL_NAMES, Client, delete
from tests.simulation.faults import settle, strike
from tests.simulation.fifo.universe import watched
from tests.simulation.plan import Surroundings
from tests.simulation.redrive import universe as redrive
from tests.simulation.universe import Outcome, all_of, drain_all, live, look_once, restart_all
from tests.simulation.world import World

RETENTION_S: Final = 345_600


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteePlan(Surroundings):
    """Clients of the queues `most` and `exact`; `drain` is as in the other universes."""

    fifo: bool
    visibility_s: int
    producers: int
    consumers: int
    sends_each: int
    drain: str

    @property
    def name(self) -> str:
        """Other randomness than in the other universes of this seed."""
        return f"{self.seed}/guarantees{'/fifo' * self.fifo}"

    @property
    def most(self) -> str:
        """The queue that delivers at most once."""
        return "most.fifo" if self.fifo else "most"

    @property
    def exact(self) -> str:
        """The queue that delivers exactly once."""
        return "exact.fifo" if self.fifo else "exact"

    @property
    def queues(self) -> tuple[str, ...]:
        """Both."""
        return (self.most, self.exact)


def make_plan(seed: int, *, fifo: bool = False) -> GuaranteePlan:
    """The plan of a seed: its surroundings are those of its universe with dead letters."""
    random = Random(f"{seed}/guarantees{'/fifo' * fifo}/plan")
    other = redrive.make_plan(seed, fifo=fifo)
    around = {field.name: getattr(other, field.name) for field in fields(Surroundings)}
    return GuaranteePlan(
        **around | {"moves": False},
        fifo=fifo,
        visibility_s=random.choice((1, 3, 8)),
        producers=random.choice((1, 2)),
        consumers=random.choice((1, 2, 3)),
        sends_each=random.choice((4, 8, 12)),
        drain=random.choice(("any", "one", "cold")),
    )


def run(seed: int, *, fifo: bool = False) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    from tests.simulation.guarantees.oracle import check  # noqa: PLC0415 - it needs the plan's type

    return live(make_plan(seed, fifo=fifo), _story, check)


async def _story(plan: GuaranteePlan, world: World) -> None:
    scheduler = world.scheduler
    if plan.fifo:
        watched(world)
    until_us = scheduler.now_us + plan.sends_each * 4_000_000 + 40_000_000
    await _create_queues(plan, Client(world, "founder"))
    world.weather.change_to(plan.climate.weather)
    weather = scheduler.start(strike(world), world)
    calls = [_produce(plan, Client(world, f"producer{i}")) for i in range(plan.producers)]
    for i in range(plan.consumers):
        calls.append(_take(plan, Client(world, f"taker{i}"), until_us))
        calls.append(_consume(plan, Client(world, f"consumer{i}"), until_us))
    await all_of(world, calls)
    weather.drop()
    await settle(world)
    await drain_all(world, plan.drain, plan.queues)
    # Whatever is delivered now had been deleted.
    await scheduler.pause(40_000_000)
    await restart_all(world, 700_000_000)
    await look_once(world, plan.queues)


async def _create_queues(plan: GuaranteePlan, client: Client) -> None:
    for name in plan.queues:
        attributes = {
            "VisibilityTimeout": str(plan.visibility_s),
            "MessageRetentionPeriod": str(RETENTION_S),
            "TidegateDeliveryGuarantee": AT_MOST_ONCE if name == plan.most else EXACTLY_ONCE,
        }
        if plan.fifo:
            attributes |= {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
        params = {"QueueName": name, "Attributes": attributes}
        assert await client.call("CreateQueue", name, params) is not None


async def _produce(plan: GuaranteePlan, client: Client) -> None:
    random = client.random
    for number in range(plan.sends_each):
        queue = random.choice(plan.queues)
        await client.pause(1_000, random.choice((20_000, 3_000_000, 9_000_000)))
        entries = [
            {"Id": f"e{i}", **_message(plan, random, f"{client.name}.{number}.{i}@{queue}")}
            for i in range(random.choice((1, 1, 3, 6)))
        ]
        await client.call("SendMessageBatch", queue, {"QueueUrl": queue, "Entries": entries})


def _message(plan: GuaranteePlan, random: Random, name: str) -> Mapping[str, Any]:
    message: dict[str, Any] = {"MessageBody": name + "#" + "é\n" * random.choice((0, 3, 300))}
    if plan.fifo:
        message["MessageGroupId"] = name.split(".", maxsplit=1)[0] + random.choice("abc")
        message["MessageDeduplicationId"] = name
    return message


async def _take(plan: GuaranteePlan, client: Client, until_us: int) -> None:
    """Receive what is delivered at most once."""
    number = 0
    while client.world.scheduler.now_us < until_us:
        number += 1
        params = _receive(client.random, plan.most)
        if plan.fifo and client.random.random() < 0.5:
            # The SDK's repetitions of the call have it, too.
            params["ReceiveRequestAttemptId"] = f"{client.name}.{number}"
        await client.call("ReceiveMessage", plan.most, params)
        await client.pause(1_000, client.random.choice((50_000, 2_000_000, 6_000_000)))


def _receive(random: Random, queue: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "QueueUrl": queue,
        "MaxNumberOfMessages": random.choice((1, 3, 10)),
        **ALL_NAMES,
    }
    if random.random() < 0.5:
        params["VisibilityTimeout"] = random.choice((0, 1, 3))
    if random.random() < 0.4:
        params["WaitTimeSeconds"] = random.choice((1, 3, 20))
    return params


async def _consume(plan: GuaranteePlan, client: Client, until_us: int) -> None:
    """Receive, and acknowledge with handles that are good, late, or of somebody overtaken."""
    random, queue = client.random, plan.exact
    handles: list[str] = []
    while client.world.scheduler.now_us < until_us:
        output = await client.call("ReceiveMessage", queue, _receive(random, queue))
        new = [message["ReceiptHandle"] for message in (output or {}).get("Messages", ())]
        if random.random() < 0.2:
            await client.pause(1_000_000, 12_000_000)  # and what comes now is late
        await delete(client, queue, [handle for handle in new if random.random() < 0.5])
        handles += new
        if handles and random.random() < 0.5:
            await _use(client, queue, random.choice(handles))
        await client.pause(1_000, random.choice((50_000, 2_000_000, 6_000_000)))


async def _use(client: Client, queue: str, handle: str) -> None:
    """Use a handle, whatever has become of it."""
    if client.random.random() < 0.6:
        await delete(client, queue, [handle], one_by_one=client.random.random() < 0.5)
        return
    seconds = client.random.choice((0, 2, 25))
    params = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
    await client.call("ChangeMessageVisibility", queue, params)

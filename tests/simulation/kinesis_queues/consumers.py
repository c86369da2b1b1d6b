"""Clients of queues of the Kinesis API: consumers, those who see to dead letters, an operator."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.simulation.clients import PATIENCE_US, Client
from tests.simulation.kinesis_queues.plan import KinesisQueuePlan, KinesisQueuesPlan
from tests.simulation.kinesis_queues.world import KinesisQueuesWorld
from tests.simulation.sealed import ACCOUNT, REGION

RECEIVE: Final = "ReceiveQueueRecords"
RECEIVE_DEAD: Final = "ReceiveDeadLetterQueueRecords"
RESTORE: Final = "RestoreDeadLetterQueueRecords"
COUNTS: Final = (0, 1, 2, 3, 5)
HANDLES_KEPT: Final = 6
DRAIN_VISIBILITY_S: Final = 600


def acknowledge_of(*, dead: bool) -> str:
    """The operation."""
    return "AcknowledgeDeadLetterQueueRecords" if dead else "AcknowledgeQueueRecords"


def hide_of(*, dead: bool) -> str:
    """The operation."""
    return "UpdateDeadLetterQueueRecordsVisibility" if dead else "UpdateQueueRecordsVisibility"


HIDES: Final = frozenset(hide_of(dead=dead) for dead in (False, True))


def dead_letters(dies_after: int) -> Mapping[str, Any]:
    """A DeadLetterConfiguration."""
    if not dies_after:
        return {"TargetType": "NONE"}
    return {"TargetType": "BUILT_IN", "MaxReceiveCount": dies_after}


def _world(client: Client) -> KinesisQueuesWorld:
    assert isinstance(client.world, KinesisQueuesWorld)
    return client.world


async def put_on_demand(client: Client, plan: KinesisQueuesPlan) -> None:
    """The streams of the plan, which have so many shards that owners could not give them."""
    for name in plan.streams:
        params = {
            "StreamARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}",
            "StreamModeDetails": {"StreamMode": "ON_DEMAND"},
        }
        assert await client.call("UpdateStreamMode", name, params) is not None


async def create(client: Client, queue: KinesisQueuePlan) -> None:
    """The queue; one that is late may fail to be."""
    params = {
        "QueueName": queue.name,
        "StreamConfigurationList": [
            {
                "StreamARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{queue.stream}",
                "StartingPosition": {"Type": "LATEST" if queue.late else "TRIM_HORIZON"},
            }
        ],
        "QueueAttributes": {
            "VisibilityTimeoutSeconds": queue.visibility_s,
            "DeadLetterConfiguration": dead_letters(queue.dies_after),
        },
    }
    world = _world(client)
    created = await client.call("CreateQueue", queue.name, params)
    assert created is not None or queue.late, "queues are created while all is well"
    if created is not None:
        world.arns[queue.name] = created["QueueDescription"]["QueueARN"]
        world.created_us[queue.name] = world.scheduler.now_us


async def change_counts(client: Client, plan: KinesisQueuesPlan, until_us: int) -> None:
    """Say now and then that records die sooner, later, or not at all."""
    world, random = _world(client), client.random
    while plan.changes_us:
        await client.pause(1, 2 * plan.changes_us)
        if world.scheduler.now_us >= until_us:
            return
        if world.arns:
            name = random.choice(sorted(world.arns))
            attributes = {"DeadLetterConfiguration": dead_letters(random.choice(COUNTS))}
            params = {"QueueARN": world.arns[name], "QueueAttributes": attributes}
            await client.call("UpdateQueue", name, params)


async def receive(client: Client, name: str, *, dead: bool, **options: Any) -> list[str]:
    """The handles of what is received."""
    params = {"QueueARN": _world(client).arns[name], **options}
    output = await client.call(RECEIVE_DEAD if dead else RECEIVE, name, params)
    return [record["ReceiptHandle"] for record in output["QueueRecords"]] if output else []


async def settle(
    client: Client, name: str, operation: str, handles: Sequence[str], **more: int
) -> None:
    """Do it to all of them in one call."""
    if handles:
        entries = [{"ReceiptHandle": handle, **more} for handle in handles]
        params = {"QueueARN": _world(client).arns[name], "Entries": entries}
        await client.call(operation, name, params)


class Consumer:
    """Receives records and dead letters; acknowledges, extends, releases, restores or forgets them.

    Some of what it asks for comes late, or by a handle that it had before.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._before: list[tuple[str, bool, str]] = []

    async def consume(self, until_us: int) -> None:
        """Until then."""
        client, random = self.client, self.client.random
        world = _world(client)
        while world.scheduler.now_us < until_us:
            if world.arns:
                name, dead = random.choice(sorted(world.arns)), random.random() < 0.4
                options: dict[str, Any] = {
                    "Limit": random.choice((1, 3, 10, 10)),
                    "WaitTimeSeconds": random.choice((1, 1, 1, 3, 20)),
                }
                if random.random() < 0.6:
                    options["VisibilityTimeoutSeconds"] = random.choice((0, 1, 1, 3, 10, 45))
                handles = await receive(client, name, dead=dead, **options)
                if handles:
                    await self._work(random, name, handles, dead=dead)
            await client.pause(1_000, random.choice((50_000, 50_000, 2_000_000, 6_000_000)))

    async def _work(self, random: Random, name: str, handles: Sequence[str], *, dead: bool) -> None:
        client = self.client
        if random.random() < 0.15:
            await client.pause(1_000_000, 20_000_000)  # one that is late
        if random.random() < 0.4:
            await self._hide(random, name, handles, dead=dead)
        if random.random() < 0.3 and self._before:
            await self._by_an_old_handle(random)
        fate = random.random()
        if fate < (0.3 if dead else 0.45):
            done = [handle for handle in handles if random.random() < 0.8]
            await settle(client, name, acknowledge_of(dead=dead), done)
        elif dead and fate < 0.9:
            await settle(client, name, RESTORE, handles)
            if random.random() < 0.3:
                await settle(client, name, RESTORE, handles)
        self._before += [(name, dead, handle) for handle in handles]
        del self._before[:-HANDLES_KEPT]

    async def _hide(self, random: Random, name: str, handles: Sequence[str], *, dead: bool) -> None:
        """Extend some, or give them back."""
        chosen = random.sample(list(handles), random.randint(1, len(handles)))
        seconds = random.choice((0, 0, 2, 25))
        await settle(
            self.client, name, hide_of(dead=dead), chosen, VisibilityTimeoutSeconds=seconds
        )

    async def _by_an_old_handle(self, random: Random) -> None:
        name, dead, handle = random.choice(self._before)
        how = random.randrange(3 if dead else 2)
        if how == 0:
            await settle(self.client, name, acknowledge_of(dead=dead), [handle])
        elif how == 1:
            await self._hide(random, name, [handle], dead=dead)
        else:
            await settle(self.client, name, RESTORE, [handle])


async def drain(client: Client, name: str, for_us: int, *, dead: bool) -> None:
    """Receive and acknowledge everything for this long.

    Whoever gave up too soon would see what it was given only after that.
    """
    scheduler = client.world.scheduler
    client.patience_us_min = max(PATIENCE_US)
    until_us = scheduler.now_us + for_us
    options = {"VisibilityTimeoutSeconds": DRAIN_VISIBILITY_S, "WaitTimeSeconds": 1}
    while scheduler.now_us < until_us:
        handles = await receive(client, name, dead=dead, **options)
        if handles:
            await settle(client, name, acknowledge_of(dead=dead), handles)
        else:
            await client.pause(5_000_000, 15_000_000)

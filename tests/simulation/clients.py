"""Clients as they are: SDKs that retry, producers, consumers that forget, somebody who purges."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.simulation.plan import Plan, QueuePlan
from tests.simulation.world import Slot, World

Params = Mapping[str, Any]

ATTEMPTS_MAX = 4
SERVER_FAULT = 500
ALL_NAMES = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
NEXT_FRONT_END_CHANCE = 0.3
PATIENCE_US = (2_000_000, 30_000_000)


class Client:
    """An SDK's client: one call at a time, repeated with the same invocation id if need be."""

    def __init__(self, world: World, name: str, *, only: Slot | None = None) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.plan.name}/{name}")
        self.patience_us_min = 0
        self._only = only
        self._slot = only or self.random.choice(world.slots)

    async def call(self, operation: str, queue: str, params: Params) -> Params | None:
        """The output of a call that succeeded, or None: refused, or nobody knows."""
        world = self.world
        call = world.history.call(self.name, operation, queue, params)
        patience_us = max(self.random.choice(PATIENCE_US), self.patience_us_min)
        patience_us += params.get("WaitTimeSeconds", 0) * 1_000_000
        for number in range(ATTEMPTS_MAX):
            if number or self.random.random() < NEXT_FRONT_END_CHANCE:
                self._slot = self._only or self.random.choice(world.slots)
            attempt = world.history.invoke(world.scheduler.now_us, call, self._slot.process.name)
            answer = await world.request(attempt, self._slot, patience_us)
            if answer is not None:
                status, output = answer
                if status < SERVER_FAULT:
                    return output if status == 200 else None
            await self.pause(50_000, 1_000_000 << number)
        return None

    async def pause(self, least_us: int, most_us: int) -> None:
        """Think."""
        await self.world.scheduler.pause(self.random.randrange(least_us, most_us))


async def create_queues(client: Client, queues: Sequence[QueuePlan]) -> None:
    """What has to be there first."""
    for queue in queues:
        created = await client.call(
            "CreateQueue",
            queue.name,
            {
                "QueueName": queue.name,
                "Attributes": {
                    "VisibilityTimeout": str(queue.visibility_s),
                    "DelaySeconds": str(queue.delay_s),
                    "MessageRetentionPeriod": str(queue.retention_s),
                },
            },
        )
        assert created is not None, "queues are created while all is well"


async def produce(client: Client, plan: Plan) -> None:
    """Send single messages and batches, some of them delayed."""
    random = client.random
    grouping = Random(f"{plan.name}/{client.name}/groups")
    for number in range(plan.sends_each):
        queue = random.choice(plan.queues)
        await client.pause(1_000, random.choice((20_000, 3_000_000, 9_000_000)))
        if random.random() < 0.5:
            message = _message(random, f"{client.name}.{number}.0@{queue.name}")
            message |= _group(grouping, plan)
            await client.call("SendMessage", queue.name, {"QueueUrl": queue.name, **message})
            continue
        entries = [
            {
                "Id": f"e{i}",
                **_message(random, f"{client.name}.{number}.{i}@{queue.name}"),
                **_group(grouping, plan),
            }
            for i in range(random.randint(2, 10))
        ]
        await client.call(
            "SendMessageBatch", queue.name, {"QueueUrl": queue.name, "Entries": entries}
        )


def _message(random: Random, name: str) -> dict[str, Any]:
    """A message whose body says where it belongs."""
    message: dict[str, Any] = {"MessageBody": name + "#" + "é\n" * random.choice((0, 3, 300))}
    if random.random() < 0.3:
        message["MessageAttributes"] = {
            "kind": {"DataType": "String", "StringValue": name},
            "raw": {"DataType": "Binary.x", "BinaryValue": "AAH/"},
        }
    if random.random() < 0.15:
        message["DelaySeconds"] = random.choice((0, 1, 7))
    return message


def _group(grouping: Random, plan: Plan) -> dict[str, str]:
    """A message's group, if it has one: most belong to the same."""
    if not plan.groups or grouping.random() < 0.2:
        return {}
    busiest = grouping.random() < 0.6
    return {"MessageGroupId": f"group{0 if busiest else grouping.randrange(plan.groups)}"}


async def consume(client: Client, plan: Plan, until_us: int) -> None:
    """Receive, and then delete, change the visibility, or forget."""
    await consume_from(client, [queue.name for queue in plan.queues], until_us)


async def consume_from(client: Client, names: Sequence[str], until_us: int) -> None:
    """As consume, from the queues of these names."""
    random = client.random
    while client.world.scheduler.now_us < until_us:
        name = random.choice(names)
        params: dict[str, Any] = {
            "QueueUrl": name,
            "MaxNumberOfMessages": random.choice((1, 3, 10, 10)),
            **ALL_NAMES,
        }
        if random.random() < 0.6:
            params["VisibilityTimeout"] = random.choice((0, 1, 3, 10, 45))
        if random.random() < 0.5:
            params["WaitTimeSeconds"] = random.choice((1, 3, 20))
        output = await client.call("ReceiveMessage", name, params)
        messages = output.get("Messages", []) if output else []
        if messages:
            await _work(client, name, [message["ReceiptHandle"] for message in messages])
        await client.pause(1_000, random.choice((50_000, 2_000_000, 6_000_000)))


async def _work(client: Client, queue: str, handles: Sequence[str]) -> None:
    random = client.random
    fate = random.random()
    if fate < 0.12:
        return  # a consumer that crashed
    if fate < 0.2:
        await client.pause(1_000_000, 20_000_000)  # one that is late
    elif fate < 0.4:
        await _change(client, queue, handles)
        if random.random() < 0.5:
            return
        await client.pause(1_000, 3_000_000)
    done = [handle for handle in handles if random.random() < 0.85]
    await delete(client, queue, done, one_by_one=random.random() < 0.25)


async def _change(client: Client, queue: str, handles: Sequence[str]) -> None:
    random = client.random
    chosen = random.sample(list(handles), random.randint(1, len(handles)))
    entries = [
        {"Id": str(i), "ReceiptHandle": handle, "VisibilityTimeout": random.choice((0, 0, 2, 25))}
        for i, handle in enumerate(chosen)
    ]
    if len(entries) == 1:
        del entries[0]["Id"]
        await client.call("ChangeMessageVisibility", queue, {"QueueUrl": queue, **entries[0]})
    else:
        await client.call(
            "ChangeMessageVisibilityBatch", queue, {"QueueUrl": queue, "Entries": entries}
        )


async def delete(
    client: Client, queue: str, handles: Sequence[str], *, one_by_one: bool = False
) -> None:
    """Delete messages, in one batch or singly."""
    if one_by_one:
        for handle in handles:
            params = {"QueueUrl": queue, "ReceiptHandle": handle}
            await client.call("DeleteMessage", queue, params)
    elif handles:
        entries = [{"Id": str(i), "ReceiptHandle": handle} for i, handle in enumerate(handles)]
        await client.call("DeleteMessageBatch", queue, {"QueueUrl": queue, "Entries": entries})


async def purge(client: Client, names: Sequence[str], until_us: int) -> None:
    """Purge one of these queues now and then."""
    while client.world.scheduler.now_us < until_us:
        await client.pause(2_000_000, 40_000_000)
        name = client.random.choice(names)
        await client.call("PurgeQueue", name, {"QueueUrl": name})


async def drain(client: Client, queue: str, for_us: int) -> None:
    """Receive and delete everything for this long.

    Whoever gave up too soon would see what it was given only after that.
    """
    scheduler = client.world.scheduler
    client.patience_us_min = max(PATIENCE_US)
    until_us = scheduler.now_us + for_us
    while scheduler.now_us < until_us:
        output = await client.call(
            "ReceiveMessage",
            queue,
            {
                "QueueUrl": queue,
                "MaxNumberOfMessages": 10,
                "VisibilityTimeout": 600,
                **ALL_NAMES,
            },
        )
        messages = output.get("Messages", []) if output else []
        if messages:
            await delete(client, queue, [message["ReceiptHandle"] for message in messages])
        else:
            await client.pause(5_000_000, 15_000_000)

"""Clients of FIFO queues: they wait for each acknowledgement, and use handles that are old."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.simulation.clients import ALL_NAMES, Client, delete
from tests.simulation.fifo.plan import FifoPlan, FifoQueuePlan

Entry = dict[str, Any]

CALLS_MAX = 3
"""How often a sender calls anew, with the same deduplication ids, before it gives a message up."""
SHARED_GROUP_CHANCE = 0.2
DUPLICATE_CHANCE = 0.25


async def create_queues(client: Client, queues: Sequence[FifoQueuePlan]) -> None:
    """What has to be there first."""
    for queue in queues:
        attributes = {
            "FifoQueue": "true",
            "VisibilityTimeout": str(queue.visibility_s),
            "DelaySeconds": str(queue.delay_s),
            "MessageRetentionPeriod": str(queue.retention_s),
            "ContentBasedDeduplication": str(queue.content_based).lower(),
            "DeduplicationScope": "messageGroup" if queue.group_scope else "queue",
            "FifoThroughputLimit": _throughput_limit(high=queue.high_throughput),
        }
        params = {"QueueName": queue.name, "Attributes": attributes}
        created = await client.call("CreateQueue", queue.name, params)
        assert created is not None, "queues are created while all is well"


def _throughput_limit(*, high: bool) -> str:
    return "perMessageGroupId" if high else "perQueue"


async def produce(client: Client, plan: FifoPlan, *, sends: int) -> None:
    """Send to groups of its own and to one that all share, each message after the one before.

    What failed is sent again under the same deduplication ids; what was sent is sent again now and
    then, too, with the same body or another.
    """
    random = client.random
    sender = _Sender(client, plan)
    for number in range(sends):
        await client.pause(1_000, random.choice((20_000, 3_000_000, 9_000_000)))
        queue = random.choice(plan.queues)
        count = random.choice((1, 1, random.randint(2, 10)))
        entries = [sender.message(queue, f"{number}.{i}") for i in range(count)]
        for _ in range(CALLS_MAX):
            if await _send(client, queue, entries):
                break
            await client.pause(1_000, 5_000_000)


async def _send(client: Client, queue: FifoQueuePlan, entries: list[Entry]) -> bool:
    if len(entries) == 1 and client.random.random() < 0.8:
        params = {"QueueUrl": queue.name, **entries[0]}
        return await client.call("SendMessage", queue.name, params) is not None
    batch = [{"Id": f"e{i}", **entry} for i, entry in enumerate(entries)]
    params = {"QueueUrl": queue.name, "Entries": batch}
    return await client.call("SendMessageBatch", queue.name, params) is not None


class _Sender:
    """Makes messages and duplicates of messages that it has made."""

    def __init__(self, client: Client, plan: FifoPlan) -> None:
        self._client = client
        self._plan = plan
        self._made: dict[str, list[Entry]] = {queue.name: [] for queue in plan.queues}

    def message(self, queue: FifoQueuePlan, number: str) -> Entry:
        """A new message, or one that is a duplicate if it comes in time."""
        random, made = self._client.random, self._made[queue.name]
        if made and random.random() < DUPLICATE_CHANCE:
            return self._duplicate(random, random.choice(made), f"{number}@{queue.name}")
        name = f"{self._client.name}.{number}"
        entry = {"MessageBody": _body(random, f"{name}@{queue.name}"), "MessageGroupId": "shared"}
        if random.random() >= SHARED_GROUP_CHANCE:
            group = random.randrange(self._plan.groups_each)
            entry["MessageGroupId"] = f"{self._client.name}-{group}"
        if not queue.content_based or random.random() < 0.5:
            # Where the scope is the group, others use the same ids.
            entry["MessageDeduplicationId"] = number if queue.group_scope else name
        made.append(entry)
        return entry

    def _duplicate(self, random: Random, first: Entry, number: str) -> Entry:
        if "MessageDeduplicationId" not in first or random.random() < 0.6:
            return first
        return {**first, "MessageBody": _body(random, f"{self._client.name}.{number}.again")}


def _body(random: Random, name: str) -> str:
    return name + "#" + "é\n" * random.choice((0, 3, 300))


async def consume(client: Client, plan: FifoPlan, until_us: int) -> None:
    """Receive, and then delete, change the visibility, forget, or use handles that are old."""
    random = client.random
    old: list[tuple[str, str]] = []
    number = 0
    while client.world.scheduler.now_us < until_us:
        queue = random.choice(plan.queues)
        number += 1
        params: dict[str, Any] = {
            "QueueUrl": queue.name,
            "MaxNumberOfMessages": random.choice((1, 3, 10, 10)),
            **ALL_NAMES,
        }
        if random.random() < 0.6:
            params["VisibilityTimeout"] = random.choice((0, 1, 3, 10, 45))
        if random.random() < 0.5:
            params["WaitTimeSeconds"] = random.choice((1, 3, 20))
        if random.random() < 0.4:
            # The SDK's repetitions of the call have it, too.
            params["ReceiveRequestAttemptId"] = f"{client.name}.{number}"
        output = await client.call("ReceiveMessage", queue.name, params)
        messages = output.get("Messages", []) if output else []
        handles = [message["ReceiptHandle"] for message in messages]
        if handles:
            await _work(client, queue.name, handles)
            old += [(queue.name, handle) for handle in handles]
        if old and random.random() < 0.15:
            name, handle = random.choice(old)
            await _use(client, name, handle)
        await client.pause(1_000, random.choice((50_000, 2_000_000, 6_000_000)))


async def _work(client: Client, queue: str, handles: Sequence[str]) -> None:
    random = client.random
    fate = random.random()
    if fate < 0.12:
        return  # a consumer that crashed
    if fate < 0.2:
        await client.pause(1_000_000, 20_000_000)  # one that is late
    elif fate < 0.45:
        for handle in random.sample(list(handles), random.randint(1, len(handles))):
            await _change(client, queue, handle, random.choice((0, 0, 2, 25)))
        if random.random() < 0.5:
            return
        await client.pause(1_000, 3_000_000)
    done = [handle for handle in handles if random.random() < 0.85]
    if random.random() < 0.3:
        random.shuffle(done)
    await delete(client, queue, done, one_by_one=random.random() < 0.25)


async def _use(client: Client, queue: str, handle: str) -> None:
    if client.random.random() < 0.6:
        await delete(client, queue, [handle], one_by_one=True)
    else:
        await _change(client, queue, handle, client.random.choice((0, 10)))


async def _change(client: Client, queue: str, handle: str, visibility_s: int) -> None:
    params = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": visibility_s}
    await client.call("ChangeMessageVisibility", queue, params)


async def purge(client: Client, plan: FifoPlan, until_us: int) -> None:
    """Purge queues; what was sent before is sent again after it, and is no duplicate then."""
    random = client.random
    number = 0
    while client.world.scheduler.now_us < until_us:
        queue = random.choice(plan.queues)
        number += 1
        name = f"{client.name}.{number}@{queue.name}"
        entry: Entry = {"MessageBody": name, "MessageGroupId": "shared"}
        if not queue.content_based:
            entry["MessageDeduplicationId"] = name
        await _send(client, queue, [entry])
        await client.pause(1_000, 20_000_000)
        await client.call("PurgeQueue", queue.name, {"QueueUrl": queue.name})
        await client.pause(1_000, 160_000_000 // plan.haste)
        await _send(client, queue, [entry])


async def change_queues(client: Client, plan: FifoPlan) -> None:
    """Raise the retention of queues, and change their throughput limits to and fro."""
    for queue in plan.queues:
        await client.pause(1_000_000, 30_000_000)
        if queue.raised_retention_s is not None:
            retention = str(queue.raised_retention_s)
            await _set(client, queue, {"MessageRetentionPeriod": retention})
        if queue.changes_throughput:
            for high in (not queue.high_throughput, queue.high_throughput):
                await _set(client, queue, {"FifoThroughputLimit": _throughput_limit(high=high)})
                await client.pause(1_000_000, 30_000_000)


async def _set(client: Client, queue: FifoQueuePlan, attributes: dict[str, str]) -> None:
    params = {"QueueUrl": queue.name, "Attributes": attributes}
    await client.call("SetQueueAttributes", queue.name, params)

"""Histories of a service in which nothing goes wrong: an audit has nothing to say of them."""

import json
from pathlib import Path
from random import Random
from typing import Final

from tests.audits.service import ACCOUNT, REGION, ServiceInTime

STEPS: Final = 60
_SHORT_S: Final = 60
_URL: Final = f"http://sqs.example/{ACCOUNT}"
_QUEUES: Final[dict[str, dict[str, str]]] = {
    "dead": {},
    "dead.fifo": {"FifoQueue": "true"},
    "orders": {},
    "short": {"MessageRetentionPeriod": str(_SHORT_S)},
    "delayed": {"DelaySeconds": "20"},
    "failing": {"RedrivePolicy": "dead"},
    "fifo.fifo": {"FifoQueue": "true"},
    "failing.fifo": {"FifoQueue": "true", "RedrivePolicy": "dead.fifo"},
}


class Histories:
    """What time does to a service, and the clients of several histories; the same for each seed.

    Each history has queues, and chances, of its own; kills and waits are those of all.
    """

    def __init__(self, folder: Path, seed: int, cells: int = 1, count: int = 1) -> None:
        self.random = Random(seed)
        self.service = ServiceInTime(folder, seed, cells)
        self.kills = 0
        self._each = [
            _History(self.service, Random(f"{seed} {at}"), f"h{at}-") for at in range(count)
        ]

    async def run(self, steps: int = STEPS) -> None:
        """So many steps, and the end of the server; the last export is for the caller to make."""
        await self.service.start()
        for history in self._each:
            await history.begin()
        doings = (*(self._go_on,) * 19, *(self._wait,) * 5, self._kill, self._restart)
        for _ in range(steps):
            await self.random.choice(doings)()
        await self.service.pass_time(40)
        await self.service.stop()

    async def _go_on(self) -> None:
        for history in self._each:
            await history.step()

    async def _wait(self) -> None:
        await self.service.pass_time(self.random.choice((1, 20, 65, 200, 4000)))

    async def _kill(self) -> None:
        self.kills += 1
        await self.service.kill()
        await self._begin_again()

    async def _restart(self) -> None:
        await self.service.stop()
        await self._begin_again()

    async def _begin_again(self) -> None:
        if self.random.random() < 0.5:
            await self.service.export()
        self.service.clock.advance(self.random.choice((1, 100)))
        await self.service.start()


class _History:
    """What the clients of some queues do, whose names begin with `prefix`."""

    def __init__(self, service: ServiceInTime, random: Random, prefix: str) -> None:
        self.service = service
        self.random = random
        self._prefix = prefix
        self._bodies = 0

    async def begin(self) -> None:
        """Make the queues."""
        for name in _QUEUES:
            await self._create(name)

    async def step(self) -> None:
        """Something, by chance."""
        doings = (
            *(self._send,) * 8,
            *(self._take,) * 6,
            *(self._fail,) * 3,
            *(self._purge, self._make_anew, self._redrive, self._keep_longer),
        )
        await self.random.choice(doings)()

    async def _create(self, name: str) -> None:
        attributes = dict(_QUEUES[name])
        if dead := attributes.get("RedrivePolicy"):
            arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self._prefix}{dead}"
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
            attributes["RedrivePolicy"] = json.dumps(policy)
        queue = self._prefix + name
        await self.service.ask("CreateQueue", QueueName=queue, Attributes=attributes)

    def _any(self, *of: str) -> str:
        return self._prefix + self.random.choice(of or list(_QUEUES))

    async def _send(self, to: str = "") -> None:
        """Some messages, one by one over minutes, or in batches."""
        name = to or self._any()
        pause_s = self.random.choice((0, 0.5, 7))
        for _ in range(self.random.randint(1, 12)):
            if self.random.random() < 0.3:
                entries = [
                    {"Id": str(number), **self._message(name)}
                    for number in range(self.random.randint(1, 10))
                ]
                await self.service.ask(
                    "SendMessageBatch", QueueUrl=f"{_URL}/{name}", Entries=entries
                )
            else:
                await self.service.ask(
                    "SendMessage", QueueUrl=f"{_URL}/{name}", **self._message(name)
                )
            await self.service.pass_time(pause_s)

    def _message(self, name: str) -> dict[str, str]:
        self._bodies += 1
        its = {"MessageBody": f"{self._bodies} " + "b" * self.random.choice((1, 50, 3000))}
        if name.endswith(".fifo"):
            its |= {
                "MessageGroupId": f"g{self.random.randrange(3)}",
                "MessageDeduplicationId": f"{self._bodies}",
            }
        return its

    async def _receive(self, name: str, visible_s: int) -> list[str]:
        answer = await self.service.ask(
            "ReceiveMessage",
            QueueUrl=f"{_URL}/{name}",
            MaxNumberOfMessages=self.random.randint(1, 10),
            VisibilityTimeout=visible_s,
        )
        return [message["ReceiptHandle"] for message in answer.get("Messages", ())]

    async def _take(self) -> None:
        """Receive and delete, all of it or nearly."""
        name = self._any()
        url = f"{_URL}/{name}"
        for _ in range(self.random.randint(1, 8)):
            handles = await self._receive(name, 30)
            for handle in handles[: self.random.choice((1, 10, 10))]:
                await self.service.ask("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)

    async def _fail(self) -> None:
        """Send, and receive until messages move to where dead letters go."""
        name = self._any("failing", "failing.fifo")
        await self._send(name)
        for _ in range(4):
            await self._receive(name, 1)
            await self.service.pass_time(2)

    async def _purge(self) -> None:
        await self.service.ask("PurgeQueue", QueueUrl=f"{_URL}/{self._any()}")

    async def _make_anew(self) -> None:
        """Delete a queue, and make it again under its name."""
        name = self.random.choice(("orders", "short", "fifo.fifo"))
        await self.service.ask("DeleteQueue", QueueUrl=f"{_URL}/{self._prefix}{name}")
        await self.service.pass_time(self.random.choice((1, 70)))
        await self._create(name)

    async def _redrive(self) -> None:
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self._prefix}dead"
        await self.service.ask("StartMessageMoveTask", SourceArn=arn)
        await self.service.pass_time(5)

    async def _keep_longer(self) -> None:
        """Another retention: where it is longer, what is stored lives longer, too."""
        url = f"{_URL}/{self._any('orders', 'fifo.fifo')}"
        retention = {
            "MessageRetentionPeriod": str(self.random.choice((86_400, 400_000, 1_209_600)))
        }
        await self.service.ask("SetQueueAttributes", QueueUrl=url, Attributes=retention)


async def steady(service: ServiceInTime, seconds: int) -> None:
    """A message each half second, all of them received and deleted."""
    await service.start()
    await service.ask("CreateQueue", QueueName="orders")
    url = f"{_URL}/orders"
    for number in range(2 * seconds):
        await service.ask("SendMessage", QueueUrl=url, MessageBody=f"{number}")
        await service.pass_time(0.5)
        answer = await service.ask("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
        entries = [
            {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(answer.get("Messages", ()))
        ]
        if entries:
            await service.ask("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    await service.pass_time(60)
    await service.stop()

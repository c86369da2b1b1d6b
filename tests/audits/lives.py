"""Histories of servers that crash at any step, each life a process, and the book of their client.

The client's book is beside what the server wrote: what was asked, what was answered, when.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any, Final

from data_plane.blobs.files import FileBlobs
from data_plane.embedded.cell import EmbeddedCell
from tests.audits.service import ServiceInTime

QUEUES: Final = ("orders", "mail", "events.fifo")
SENDS: Final = ("SendMessage", "SendMessageBatch")
_STEPS_MAX: Final = 40
_LEASE_S: Final = 30
_UNIT_BYTES: Final = 65_536
_SIZES: Final = (1, 300, 9_000, 70_000)

Step = Callable[[], None]


class Client:
    """Asks one thing after another, and writes down each before it is asked, and when answered."""

    def __init__(self, service: ServiceInTime, account: str, book: Path, life: int) -> None:
        self._service = service
        self._account = account
        self._book = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._random = Random(f"{account} {life}")
        self._life = life
        self._sent = 0

    def note(self, **line: Any) -> None:
        """A line of the book; it is there though the process is killed."""
        told = {"time_us": self._service.clock.now_us(), **line}
        os.write(self._book, json.dumps(told).encode() + b"\n")

    async def make_queues(self) -> None:
        for name in QUEUES:
            fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            # A queue that is to be made is none that is asked for.
            await self._ask("CreateQueue", {"QueueName": name, "Attributes": fifo}, "")

    async def go_on(self) -> None:
        """Some of what clients do, and time that passes."""
        for _ in range(_STEPS_MAX):
            name = self._random.choice(QUEUES)
            await self._random.choice((self._send, self._send, self._take))(name)
            await self._service.pass_time(self._random.choice((0, 0.5, 2, 9, 70)))

    async def drain(self) -> None:
        """Take all that is left, and so learn what was stored of that which had no answer."""
        await self._service.pass_time(2 * _LEASE_S)
        for name in QUEUES:
            while await self._take(name):
                pass

    async def _send(self, name: str) -> None:
        count = self._random.choice((1, 1, 1, 4))
        bodies = [self._body() for _ in range(count)]
        url = {"QueueUrl": f"http://sqs.example/{self._account}/{name}"}
        entries = [{"MessageBody": body, **self._fifo(name)} for body in bodies]
        size_bytes = sum(map(len, bodies))
        said: dict[str, Any] = {
            "bodies": [body.partition(" ")[0] for body in bodies],
            "bytes": size_bytes,
            "messages": count,
            "units": max(1, -(-size_bytes // _UNIT_BYTES)),
        }
        if count == 1 and self._random.random() < 0.7:
            await self._ask("SendMessage", {**url, **entries[0]}, name, **said)
            return
        numbered = [{"Id": str(at), **entry} for at, entry in enumerate(entries)]
        await self._ask("SendMessageBatch", {**url, "Entries": numbered}, name, **said)

    def _body(self) -> str:
        self._sent += 1
        return f"{self._life}.{self._sent} ".ljust(self._random.choice(_SIZES), "b")

    def _fifo(self, name: str) -> dict[str, str]:
        if not name.endswith(".fifo"):
            return {}
        return {
            "MessageGroupId": f"g{self._random.randrange(3)}",
            "MessageDeduplicationId": f"{self._life}.{self._sent}.{self._random.random()}",
        }

    async def _take(self, name: str) -> bool:
        url = {"QueueUrl": f"http://sqs.example/{self._account}/{name}"}
        asked = {"MaxNumberOfMessages": 10, "VisibilityTimeout": _LEASE_S}
        found = await self._ask("ReceiveMessage", {**url, **asked}, name)
        for message in found.get("Messages", ()):
            handle = {"ReceiptHandle": message["ReceiptHandle"]}
            await self._ask("DeleteMessage", {**url, **handle}, name)
        return bool(found.get("Messages"))

    async def _ask(
        self, operation: str, params: dict[str, Any], queue: str, **said: Any
    ) -> dict[str, Any]:
        its = {"operation": operation, "queue": queue, **said}
        self.note(what="asked", **its)
        answer = await self._service.ask(operation, **params)
        got = answer.get("Messages", ())
        bodies = [message["Body"] for message in got]
        if operation == "ReceiveMessage":
            its |= {"bodies": [body.partition(" ")[0] for body in bodies], "messages": len(bodies)}
            its |= {"bytes": sum(map(len, bodies))}
            its |= {"units": max(1, -(-its["bytes"] // _UNIT_BYTES))}
        if operation == "DeleteMessage":
            its |= {"messages": 1}
        self.note(what="answered", **its)
        return answer


def live(folder: Path, account: str, life: int, began_us: int, kill_at: int) -> None:
    """A life of the server, to its end if it has less than `kill_at` steps; 0: to its end."""
    # Each life draws other names and numbers than those before it.
    service = ServiceInTime(folder, int(account) * 1_000 + life, account=account)
    service.usage_place = folder.parent / "usage"
    service.clock.time_us = max(service.clock.time_us, began_us)
    client = Client(service, account, folder / "book.jsonl", life)
    tell_of_steps(_killer(kill_at))

    async def run() -> None:
        await service.start()
        client.note(what="began")
        await client.make_queues()
        await client.go_on()
        if not kill_at:
            await client.drain()
        await service.stop()
        client.note(what="ended")

    asyncio.run(run())


def _killer(kill_at: int) -> Step:
    left = kill_at

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), SIGKILL)

    return step


def tell_of_steps(step: Step) -> None:
    """Call it before and after each write to the cell, and each object of usage."""
    submit, put = EmbeddedCell._submit, FileBlobs.put

    def told(what: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def tell(*args: Any, **options: Any) -> Any:
            step()
            result = await what(*args, **options)
            step()
            return result

        return tell

    EmbeddedCell._submit = told(submit)  # type: ignore[method-assign,assignment]
    FileBlobs.put = told(put)  # type: ignore[method-assign,assignment]


def book_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a client's book."""
    with (folder / "book.jsonl").open() as lines:
        yield from map(json.loads, lines)

"""A store filled to the brim: its owner frees it by the service's own calls, and uses it again."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from control_plane.service import OPERATOR, RunningService, ServicePorts, ServiceSettings
from control_plane.stored_bytes import StoredBytes
from data_plane.core.queue import Queue
from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Cell, CellFullError, Key
from data_plane.protocol.http import HttpRequest
from data_plane.replication.chain import Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.placement import Member, Placement
from data_plane.stored.merging import lacking
from data_plane.system import SystemEntropy
from tests.conformance.embedded_cell import MIB, embedded
from tests.conformance.test_embedded_cell import file_size_limit
from tests.conformance.waited_clock import WaitedClock, WaitsOnClock
from tests.unit.data_plane.master_keys import HeldKeys

AT = Placement("g3.00", 4, (Member("a"), Member("b", 3), Member("c")))
DISK_BYTES = 16 * MIB


def body_of(number: int) -> str:
    """A body of 30,000 characters that no compression makes much smaller."""
    return base64.b64encode(Random(number).randbytes(22_500)).decode()


KINDS = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
UNDER_WAY = pytest.mark.parametrize("under_way", [False, True], ids=["later", "under way"])
CELLS = pytest.mark.parametrize("names", ["a", "abc"], ids=["one cell", "several"])


def _note_nothing(event: str, **_fields: object) -> None:
    """Nobody reads acts of administration here."""


class Site:
    """A service over embedded cells, and somebody who calls it."""

    def __init__(self, cells: dict[str, EmbeddedCell], clock: WaitedClock, *, fifo: bool) -> None:
        self.cells = cells
        self.clock = clock
        self.fifo = fifo
        self._sent = 0
        waits = WaitsOnClock(clock)
        standard: Cell = cells["a"]
        chain: Cell = cells["a"]
        if len(cells) > 1:
            standard = self.fanout = Fanout(lambda: AT, cells, waits, lacking)
            chain = Chain(lambda: AT, cells, waits)
        self.ground = ground = ServicePorts(
            cells={"g": standard},
            fifo_cells={"g": chain},
            control=chain,
            bodies={},
            clock=clock,
            entropy=SystemEntropy(),
            waits=waits,
            registry_secret=bytes(32),
            master_keys=HeldKeys(),
            written_after_us=30_000_000,
        )
        self.service = RunningService(
            ground,
            ServiceSettings(verifies=False, sixty_second_rules=False),
            lambda _served: None,
            _note_nothing,
        )

    def name(self, name: str) -> str:
        return f"{name}.fifo" if self.fifo else name

    async def call(
        self, operation: str, target: str = "AmazonSQS", **params: Any
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer."""
        version = "1.0" if target == "AmazonSQS" else "1.1"
        response = await self.service.front_end.answer(
            HttpRequest(
                method="POST",
                path="/",
                query="",
                headers={
                    "content-type": f"application/x-amz-json-{version}",
                    "x-amz-target": f"{target}.{operation}",
                    "host": "localhost",
                },
                body=json.dumps(params).encode(),
            )
        )
        return response.status, json.loads(response.body or b"{}")

    async def done(self, operation: str, **params: Any) -> dict[str, Any]:
        """The answer of a call that must succeed."""
        status, answer = await self.call(operation, **params)
        assert status == 200, (operation, status, answer)
        return answer

    async def queue(self, name: str) -> Queue:
        """What the registry knows of a queue that is there."""
        found = await self.service.registry.find(OPERATOR, "us-east-1", self.name(name))
        assert found is not None
        return found

    async def create(self, name: str, **attributes: str) -> None:
        fifo = {"FifoQueue": "true"} if self.fifo else {}
        await self.done("CreateQueue", QueueName=self.name(name), Attributes=attributes | fifo)

    async def send(self, name: str) -> int:
        """Send a message of a group of its own: the status."""
        self._sent += 1
        extra = {}
        if self.fifo:
            token = f"n{self._sent}"
            extra = {"MessageGroupId": token, "MessageDeduplicationId": token}
        params = {"QueueUrl": self.name(name), "MessageBody": body_of(self._sent), **extra}
        return (await self.call("SendMessage", **params))[0]

    async def fill(self, name: str) -> int:
        """Send until nothing is taken any more: how many were taken."""
        taken = 0
        while True:
            statuses = await asyncio.gather(*(self.send(name) for _ in range(10)))
            taken += statuses.count(200)
            assert set(statuses) <= {200, 503}
            if 200 not in statuses:
                return taken

    async def receive(self, name: str, **params: Any) -> list[dict[str, Any]]:
        answer = await self.done(
            "ReceiveMessage", QueueUrl=self.name(name), MaxNumberOfMessages=10, **params
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    async def delete(self, name: str, messages: list[dict[str, Any]]) -> None:
        entries = [
            {"Id": f"e{i}", "ReceiptHandle": message["ReceiptHandle"]}
            for i, message in enumerate(messages)
        ]
        answer = await self.done("DeleteMessageBatch", QueueUrl=self.name(name), Entries=entries)
        assert "Failed" not in answer or not answer["Failed"], answer

    async def drop_all(self) -> int:
        """Let the time pass after which the sweep begins, and the sweep end."""
        self.clock.advance(31)
        dropped = 0
        while True:
            count = await self.service.sweep.step()
            dropped += count
            left = await self.service.registry.purges(9) + await self.service.registry.dropped(9)
            if not count and not left:
                return dropped

    def stored_bytes(self) -> StoredBytes:
        """What is counted, when it is measured."""
        cells: dict[str, Cell] = dict(self.cells)
        return StoredBytes(
            lambda: cells, lambda: self.service.registry, lambda: self.service.streams.registry
        )

    @property
    def full(self) -> list[bool]:
        """Which cells take nothing that is sent; where one does not, none is sent anything.

        The others may have room for some more: each commits in batches of its own.
        """
        return [not cell.has_room(0) for cell in self.cells.values()]

    @property
    def used_bytes(self) -> int:
        return max(cell.used_bytes for cell in self.cells.values())


@asynccontextmanager
async def opened(folder: Path, names: str, *, fifo: bool) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        clock = WaitedClock()
        cells = {
            name: await stack.enter_async_context(embedded(folder / name, clock))  # type: ignore[arg-type]
            for name in names
        }
        yield Site(cells, clock, fifo=fifo)


def play(folder: Path, names: str, story: Callable[[Site], Awaitable[None]], *, fifo: bool) -> None:
    async def main() -> None:
        async with opened(folder, names, fifo=fifo) as site:
            with file_size_limit(DISK_BYTES):
                await story(site)

    asyncio.run(main())


@CELLS
@KINDS
def test_a_purge_frees_a_full_store(tmp_path: Path, names: str, *, fifo: bool) -> None:
    async def story(site: Site) -> None:
        for name in ("big", "kept"):
            await site.create(name)
        assert await site.send("kept") == 200
        filled = await site.fill("big")
        assert any(site.full)
        sizes = {name: cell.disk_bytes for name, cell in site.cells.items()}
        used_bytes = site.used_bytes
        await site.done("PurgeQueue", QueueUrl=site.name("big"))
        assert await site.receive("big") == []
        assert await site.drop_all() > 10
        assert site.used_bytes < used_bytes / 3
        assert not any(site.full)
        again = await site.fill("big")
        assert again > filled * 0.8
        assert sizes == {name: cell.disk_bytes for name, cell in site.cells.items()}
        assert all(cell.counters.failed_commits == 0 for cell in site.cells.values())
        assert [message["Body"] for message in await site.receive("kept")] == [body_of(1)]

    play(tmp_path, names, story, fifo=fifo)


async def fill_up(cell: EmbeddedCell, is_enough: Callable[[], bool] = lambda: False) -> None:
    """Fill one cell with messages of nobody's."""
    for number in count():
        if is_enough():
            return
        key = Key("G|ffffffffffffffff|00|0", number.to_bytes(8, "big"))
        try:
            await cell.put(key, {"v": 1, "k": "s", "z": body_of(number).encode()})
        except CellFullError:
            return


@UNDER_WAY
@KINDS
def test_what_is_sent_beside_a_full_cell_is_stored_in_all_or_in_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fifo: bool, under_way: bool
) -> None:
    """So nothing is left half way that a purge would have to put into the full cell first."""

    async def story(site: Site) -> None:
        await site.create("big")
        assert await site.send("big") == 200
        await fill_up(site.cells["c"])
        assert site.full == [False, False, True]
        if under_way:
            # What was let in before the cell got full: it is decided, and all get it.
            monkeypatch.setattr(Chain if fifo else Fanout, "has_room", lambda *_: True)
        used_bytes = {name: site.cells[name].used_bytes for name in "abc"}
        assert {await site.send("big") for _ in range(5)} == {200 if under_way else 503}
        for name, before_bytes in used_bytes.items():
            assert (site.cells[name].used_bytes > before_bytes + 100_000) is under_way
        await site.done("PurgeQueue", QueueUrl=site.name("big"))
        assert await site.receive("big") == []

    play(tmp_path, "abc", story, fifo=fifo)


@CELLS
@KINDS
def test_what_queues_have_stored_is_counted(tmp_path: Path, names: str, *, fifo: bool) -> None:
    async def story(site: Site) -> None:
        await site.create("big")
        await site.create("small")

        async def measured() -> list[float]:
            """What two queues and their account have stored, in messages."""
            stored = site.stored_bytes()
            await stored.measure()
            assert stored.capacity_bytes > 8 * MIB
            bytes_of: list[int] = []
            for name in ("small", "big"):
                queue = await site.queue(name)
                bytes_of.insert(0, await stored.of_one(queue))
            bytes_of.insert(0, await stored.of_account(queue))
            return [round(size_bytes / 23_000, 1) for size_bytes in bytes_of]

        for _ in range(20):
            assert await site.send("big") == 200
        assert await site.send("small") == 200
        assert await measured() == pytest.approx([21, 20, 1], rel=0.1)
        await site.done("PurgeQueue", QueueUrl=site.name("big"))
        await site.drop_all()
        left = 20 if fifo else 0  # all in the block that the purge itself lies in
        assert await measured() == pytest.approx([left + 1, left, 1], rel=0.1)
        await site.done("DeleteQueue", QueueUrl=site.name("big"))
        await site.drop_all()
        stored = site.stored_bytes()
        await stored.measure()
        of_account = await stored.of_account(await site.queue("small"))
        assert of_account == pytest.approx(23_000, rel=0.1)

    play(tmp_path, names, story, fifo=fifo)


@CELLS
@KINDS
def test_a_deletion_frees_a_full_store(tmp_path: Path, names: str, *, fifo: bool) -> None:
    async def story(site: Site) -> None:
        await site.create("big")
        filled = await site.fill("big")
        used_bytes = site.used_bytes
        await site.done("DeleteQueue", QueueUrl=site.name("big"))
        assert await site.drop_all() > 0
        assert site.used_bytes < used_bytes / 3
        await site.create("big")
        assert await site.fill("big") > filled * 0.8

    play(tmp_path, names, story, fifo=fifo)


@CELLS
@KINDS
def test_a_full_store_is_received_from_and_drained(
    tmp_path: Path, names: str, *, fifo: bool
) -> None:
    async def story(site: Site) -> None:
        await site.create("big")
        filled = await site.fill("big")
        received = 0
        while messages := await site.receive("big", VisibilityTimeout=600):
            await site.done(
                "ChangeMessageVisibility",
                QueueUrl=site.name("big"),
                ReceiptHandle=messages[0]["ReceiptHandle"],
                VisibilityTimeout=900,
            )
            received += len(messages)
            await site.delete("big", messages)
        assert received == filled

    play(tmp_path, names, story, fifo=fifo)


@CELLS
@KINDS
def test_dead_letters_move_in_a_full_store(tmp_path: Path, names: str, *, fifo: bool) -> None:
    """As far as the reserve goes; then they wait, and nothing of that is a refusal."""

    async def story(site: Site) -> None:
        await site.create("dead")
        arn = f"arn:aws:sqs:us-east-1:000000000000:{site.name('dead')}"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        await site.create("big", RedrivePolicy=policy)
        filled = await site.fill("big")
        seen = set[str]()
        for _ in range(filled):
            messages = await site.receive("big", VisibilityTimeout=0)
            seen |= {message["MessageId"] for message in messages}
            if len(seen) == filled:
                break
        for _ in range(20):
            assert await site.receive("big") == []
        dead = await site.receive("dead", VisibilityTimeout=600)
        assert {message["MessageId"] for message in dead} <= seen
        assert dead
        await site.done("PurgeQueue", QueueUrl=site.name("big"))
        await site.drop_all()
        assert await site.send("big") == 200

    play(tmp_path, names, story, fifo=fifo)

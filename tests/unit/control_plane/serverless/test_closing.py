"""Upkeep where no server runs: a queue that sandboxes alone use does not get slower."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from control_plane.serverless.closing import SWEEP_PERIOD_US, Closing
from data_plane.bag.bounds import LOW_WATER_MESSAGES
from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.ports import SETTLE_US, CellUnavailableError
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.bodies import BodyStore
from tests.unit.data_plane.bag.apart import FailingBlobs, NarrowCell, text
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD
from tests.unit.data_plane.log.conftest import QUEUE as FIFO
from tests.unit.repeatable import HandClock, SeededEntropy

Story = Callable[["Site"], Coroutine[Any, Any, None]]
COLLECTED_AFTER_S = 601
"""A block of a log is kept for ten minutes after its last delete, one of a bag for 20 s."""

SETTLED_S = SETTLE_US / 1_000_000 + 1


class Site:
    """A cell that leaves everything to its time to live, as DynamoDB, and counts requests."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.clock = HandClock()
        self.entropy = SeededEntropy()
        self.cell = NarrowCell(self.clock)
        self.blobs = FailingBlobs(self.clock)
        self.sent = 0


class Sandbox:
    """A front end of which each call is an invocation."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.queue = site.queue
        bodies = {"a": BodyStore(site.blobs)}
        cells = {"a": site.cell}
        ports = (cells, site.clock, site.entropy, EventLoopWaits(site.clock), bodies)
        self.engine = Engine(Bag(*ports), Log(*ports))
        self.closing = Closing(self.engine, cells, bodies, site.clock)

    async def send(self, *bodies: str) -> None:
        messages = []
        for body in bodies:
            self.site.sent += 1
            name = f"{self.site.sent}" if self.queue.fifo else ""
            messages.append(Outgoing(body=body, size=len(body), group=name, deduplication_id=name))
        await self.engine.send(self.queue, SendCall(self.queue.account, messages))
        await self.closing.close()

    async def consume(self) -> int:
        """Receive up to ten messages and delete them; how many there were."""
        got = await self.engine.receive(self.queue, count=10, visibility_s=30, until_us=0)
        await self.closing.close()
        if got:
            handles = [decode(delivery.receipt_handle, self.queue) for delivery in got]
            await self.engine.delete(self.queue, handles)
            await self.closing.close()
        return len(got)

    async def items_read_of(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> int:
        before = self.site.cell.items_read
        await call()
        return self.site.cell.items_read - before


@pytest.fixture(params=[STANDARD, FIFO], ids=["standard", "fifo"])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.param)


def test_sandboxes_that_live_for_a_few_messages_do_not_leave_more_and_more_to_read(
    site: Site,
) -> None:
    async def life() -> int:
        """Of one sandbox: ten messages come and go, and it asks for more."""
        sandbox = Sandbox(site)

        async def live() -> None:
            for _ in range(10):
                await sandbox.send("m")
            while await sandbox.consume():
                pass

        read = await sandbox.items_read_of(live)
        site.clock.advance(600)
        return read

    async def story() -> None:
        read = [await life() for _ in range(120)]
        assert max(read[60:]) <= max(read[10:30])
        assert max(read) < 3 * LOW_WATER_MESSAGES

    asyncio.run(story())


def test_what_a_burst_left_is_read_by_the_next_sandbox_alone(site: Site) -> None:
    """It ends before anything has settled, and receives carry no mark along after it."""

    async def story() -> None:
        sandbox = Sandbox(site)
        for _ in range(640):
            await sandbox.send("m")
        while await sandbox.consume():
            pass
        site.clock.advance(SETTLED_S)
        read = []
        for _ in range(4):
            cold = Sandbox(site)
            read.append(await cold.items_read_of(cold.consume))
            site.clock.advance(SETTLED_S)
        assert read[0] > 10 * max(read[1:])

    asyncio.run(story())


def test_marks_cost_a_write_a_minute_at_most_beside_what_receives_carry_along(
    site: Site,
) -> None:
    async def story() -> None:
        sandbox = Sandbox(site)
        minutes, each_minute = 30, 6
        before = site.cell.requests.copy()
        for _ in range(minutes * each_minute):
            await sandbox.send("m")
            assert await sandbox.consume() == 1
            site.clock.advance(60 / each_minute)
        messages = minutes * each_minute
        leases_and_deletes = 2 * messages
        marks = (site.cell.requests - before)["update"] - leases_and_deletes
        assert 0 < marks <= minutes + messages // LOW_WATER_MESSAGES + 1

    asyncio.run(story())


def test_a_sandbox_that_has_nothing_to_write_writes_nothing(site: Site) -> None:
    async def story() -> None:
        sandbox = Sandbox(site)
        for _ in range(20):
            await sandbox.consume()
            site.clock.advance(SWEEP_PERIOD_US / 1_000_000)
        assert set(site.cell.requests) <= {"get", "get_many", "query"}

    asyncio.run(story())


def test_bodies_of_what_was_deleted_go_with_a_later_invocation(site: Site) -> None:
    async def story() -> None:
        sandbox = Sandbox(site)
        for _ in range(6):
            await sandbox.send(*"abcdefghij")
        await sandbox.send(*(text(20_000) for _ in range(4)))
        await sandbox.send("in the next block")
        while await sandbox.consume():
            pass
        assert len(await site.blobs.names(limit=100)) == 1
        site.clock.advance(COLLECTED_AFTER_S)
        await sandbox.consume()
        assert await site.blobs.names(limit=100) == []

    asyncio.run(story())


def test_what_a_cell_did_not_take_stays_due_and_fails_nobody(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object) -> None:
        raise CellUnavailableError("away")

    async def story() -> None:
        sandbox = Sandbox(site)
        for _ in range(5):
            await sandbox.send(*"abcdefghij")
        while await sandbox.consume():
            pass
        site.clock.advance(SWEEP_PERIOD_US / 1_000_000)
        await sandbox.engine.receive(site.queue, count=1, visibility_s=30, until_us=0)
        with monkeypatch.context() as broken:
            broken.setattr(site.cell, "update", refuse)
            await sandbox.closing.close()
        assert "away" in caplog.text
        before = site.cell.requests["update"]
        await sandbox.closing.close()
        assert site.cell.requests["update"] == before + 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())

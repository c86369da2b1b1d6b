"""Move tasks run: by several servers, at their rate, across restarts, to their ends."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from control_plane import message_moves, message_moves_running
from control_plane.core import move_task
from control_plane.message_moves import MessageMoves
from control_plane.message_moves_running import MoveRunner
from control_plane.operations.catalog import queue_operations
from control_plane.registry import Registry
from data_plane.bag.engine import Bag
from data_plane.core.errors import RefusedError
from data_plane.core.message import Outgoing, Redriven, SendCall
from data_plane.core.queue import Queue
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.ports import CellUnavailableError
from data_plane.protocol.operation import Call, Params
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.control_plane.conftest import ACCOUNT, REGION
from tests.unit.data_plane.bag.pipe import StoppingCell
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

Story = Callable[["Site"], Coroutine[Any, Any, None]]


class Server:
    """One server's registry, engines and runner."""

    def __init__(self, site: "Site") -> None:
        clock, entropy, waits = site.clock, site.entropy, EventLoopWaits(site.clock)
        cells = {"a": site.cell}
        self.registry = Registry(site.meta, ["a"], clock, entropy, secret=SECRET)
        self.engine = Engine(
            Bag(cells, clock, entropy, waits, queues=self.registry),
            Log(cells, clock, entropy, waits, queues=self.registry),
        )
        self.moves = MessageMoves(site.meta, clock, entropy)
        self.runner = MoveRunner(self.moves, self.registry, self.engine, clock, entropy, waits)
        operations = queue_operations(self.registry, self.engine, self.moves)
        self.operations = {operation.name: operation for operation in operations}


class Site:
    """Servers over the same cells; queues `orders`, `dead` (its dead letters) and `other`."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.entropy = SeededEntropy()
        self.meta = StoppingCell(self.clock)
        self.cell = StoppingCell(self.clock)
        self.one = Server(self)

    async def call(self, action: str, *, server: Server | None = None, **params: Any) -> Params:
        chosen = server or self.one
        queue = None
        if "QueueUrl" in params:
            queue = await chosen.registry.find(ACCOUNT, REGION, params["QueueUrl"])
        call = Call("r", ACCOUNT, REGION, "", self.clock.now_us(), params, queue)
        return await chosen.operations[action].perform(call)

    async def open(self) -> None:
        for name in ("dead", "other"):
            await self.call("CreateQueue", QueueName=name)
        policy = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
        await self.call("CreateQueue", QueueName="orders", Attributes={"RedrivePolicy": policy})

    async def queue(self, name: str) -> Queue:
        found = await self.one.registry.find(ACCOUNT, REGION, name)
        assert found is not None
        return found

    async def bury(self, count: int) -> None:
        """Let so many messages of `orders` come into its dead-letter queue."""
        await self.send("orders", count)
        for _ in range(2 * count):
            await self.receive("orders", visibility_s=0)
        assert (await self.one.engine.counts(await self.queue("dead"))).visible >= count

    async def send(self, name: str, count: int) -> None:
        queue = await self.queue(name)
        for start in range(0, count, 10):
            messages = [
                Outgoing(body=f"m{i}", size=2) for i in range(start, min(count, start + 10))
            ]
            await self.one.engine.send(queue, SendCall(ACCOUNT, messages))

    async def receive(self, name: str, visibility_s: int = 3600) -> list[str]:
        """Bodies, of ten messages at most."""
        deliveries = await self.one.engine.receive(
            await self.queue(name), count=10, visibility_s=visibility_s, until_us=0
        )
        return [delivery.message.body for delivery in deliveries]

    async def all_of(self, name: str) -> list[str]:
        bodies: list[str] = []
        while some := await self.receive(name):
            bodies += some
        return bodies

    async def start(self, **params: Any) -> str:
        answer = await self.call("StartMessageMoveTask", SourceArn=arn("dead"), **params)
        return str(answer["TaskHandle"])

    async def task(self) -> Params:
        answer = await self.call("ListMessageMoveTasks", SourceArn=arn("dead"))
        (newest,) = answer["Results"]
        return dict(newest)

    async def steps(self, count: int, *servers: Server) -> None:
        """So many steps of each server, a second apart."""
        for _ in range(count):
            for server in servers or (self.one,):
                await server.runner.step()
            self.clock.advance(1)


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def story(tell: Story) -> Callable[[], None]:
    """A test that is a coroutine over a site."""

    def test() -> None:
        async def run() -> None:
            site = Site()
            await site.open()
            await tell(site)

        asyncio.run(run())

    test.__name__ = tell.__name__
    return test


def names(count: int) -> list[str]:
    return sorted(f"m{i}" for i in range(count))


@story
async def test_messages_go_back_to_where_they_came_from(site: Site) -> None:
    await site.bury(25)
    handle = await site.start()
    assert await site.task() == {
        "Status": "RUNNING",
        "SourceArn": arn("dead"),
        "TaskHandle": handle,
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 25,
        "StartedTimestamp": site.clock.now_us() // 1000,
    }
    started_ms = site.clock.now_us() // 1000
    site.clock.advance(0.2)
    await site.one.runner.step()
    assert await site.task() == {
        "Status": "COMPLETED",
        "SourceArn": arn("dead"),
        "ApproximateNumberOfMessagesMoved": 25,
        "ApproximateNumberOfMessagesToMove": 25,
        "StartedTimestamp": started_ms,
    }
    assert sorted(await site.all_of("orders")) == names(25)
    assert await site.all_of("dead") == []


@story
async def test_messages_go_to_the_destination_that_is_asked_for(site: Site) -> None:
    await site.bury(3)
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=500)
    await site.steps(3)
    task = await site.task()
    assert task["Status"] == "COMPLETED"
    assert (task["DestinationArn"], task["MaxNumberOfMessagesPerSecond"]) == (arn("other"), 500)
    assert sorted(await site.all_of("other")) == names(3)


@story
async def test_the_rate_is_kept(site: Site) -> None:
    await site.bury(10)
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=2)
    arrived = []
    for _ in range(8):
        await site.steps(1)
        arrived.append(len(await site.receive("other")))
    assert arrived[:6] == [1, 2, 2, 2, 2, 1]
    assert (await site.task())["Status"] == "COMPLETED"


@story
async def test_a_task_is_completed_with_its_last_message(site: Site) -> None:
    await site.bury(4)
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=1)
    for moved in (1, 2, 3):
        await site.steps(1)
        task = await site.task()
        assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("RUNNING", moved)
    await site.steps(1)
    # Whether there is a fifth one shows when the rate allows to look for it.
    assert (await site.task())["ApproximateNumberOfMessagesMoved"] == 4
    await site.steps(1)
    assert (await site.task())["Status"] == "COMPLETED"


@story
async def test_two_servers_run_one_task_and_nothing_moves_twice(site: Site) -> None:
    await site.bury(40)
    two = Server(site)
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=10)
    await site.steps(7, site.one, two)
    assert sorted(await site.all_of("other")) == names(40)
    assert (await site.task())["ApproximateNumberOfMessagesMoved"] == 40


@story
async def test_others_leave_a_task_to_its_owner_until_that_is_silent(site: Site) -> None:
    await site.bury(40)
    two = Server(site)
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=1)
    await site.steps(1)
    before = site.cell.requests.copy()
    for _ in range(5):
        await two.runner.step()
        site.clock.advance(1)
    assert site.cell.requests == before
    await site.steps(3, two)
    assert site.cell.requests != before


@story
async def test_two_owners_at_once_do_no_harm(site: Site) -> None:
    """Whoever believes to be the owner moves on; conditions of writes decide about messages."""
    await site.bury(40)
    two = Server(site)
    two.runner._owner = site.one.runner._owner = "0123456789ab"
    await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=10)
    for _ in range(12):
        await asyncio.gather(site.one.runner.step(), two.runner.step())
        site.clock.advance(1)
    assert sorted(await site.all_of("other")) == names(40)
    assert (await site.task())["Status"] == "COMPLETED"


@pytest.mark.parametrize("write", ["lease", "append", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_server_that_is_killed_half_way(write: str, *, after: bool) -> None:
    """Its successor goes on when the owner's time is over, and waits for what was cut off."""

    async def tell() -> None:
        site = Site()
        await site.open()
        await site.bury(30)
        await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=20)
        await site.steps(2)
        site.cell.stops, site.cell.after = (lambda made: made == write), after
        with pytest.raises(CellUnavailableError):
            await site.one.runner.step()
        site.cell.stops = lambda _made: False
        site.one = Server(site)
        await site.steps(25)
        task = await site.task()
        assert task["Status"] == "COMPLETED"
        assert sorted(await site.all_of("other")) == names(30)
        assert await site.all_of("dead") == []
        site.clock.advance(3601)
        assert sorted(await site.all_of("other")) == names(30)

    asyncio.run(tell())


@story
async def test_a_cell_that_fails_for_a_while_ends_no_task(site: Site) -> None:
    await site.bury(5)
    await site.start(DestinationArn=arn("other"))
    site.cell.stops, site.cell.after = (lambda made: made == "append"), True
    for _ in range(2):
        with pytest.raises(CellUnavailableError):
            await site.one.runner.step()
        site.clock.advance(6)
    site.cell.stops = lambda _made: False
    await site.steps(9)
    assert (await site.task())["Status"] == "COMPLETED"
    assert sorted(await site.all_of("other")) == names(5)


@story
async def test_a_cancelled_task_moves_no_more(site: Site) -> None:
    await site.bury(10)
    handle = await site.start(DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=2)
    await site.steps(2)
    answer = await site.call("CancelMessageMoveTask", TaskHandle=handle)
    assert answer == {"ApproximateNumberOfMessagesMoved": 3}
    task = await site.task()
    assert task["Status"] == "CANCELLING"
    assert "TaskHandle" not in task
    with pytest.raises(RefusedError, match="already a task running"):
        await site.start()
    await site.steps(2, Server(site))
    assert (await site.task())["Status"] == "CANCELLED"
    assert len(await site.all_of("other")) == 3
    assert len(await site.all_of("dead")) == 7
    with pytest.raises(RefusedError, match="Task does not exist"):
        await site.call("CancelMessageMoveTask", TaskHandle=handle)


@story
async def test_a_cancellation_during_a_step_counts_what_the_step_moved(site: Site) -> None:
    await site.bury(10)
    handle = await site.start(DestinationArn=arn("other"))
    update = site.cell.update

    async def cancelled_meanwhile(*args: Any) -> Any:
        patched.stop()
        await site.call("CancelMessageMoveTask", TaskHandle=handle)
        return await update(*args)

    patched = patch.object(site.cell, "update", cancelled_meanwhile)
    patched.start()
    await site.steps(2)
    task = await site.task()
    assert task["Status"] == "CANCELLED"
    assert task["ApproximateNumberOfMessagesMoved"] == len(await site.all_of("other")) == 1


@pytest.mark.parametrize("gone", ["destination", "origin", "no origin"])
def test_a_task_fails_where_a_message_has_nowhere_to_go(gone: str) -> None:
    async def tell() -> None:
        site = Site()
        await site.open()
        await site.bury(4)
        name = {"destination": "other", "origin": "orders", "no origin": ""}[gone]
        if gone == "no origin":
            await site.send("dead", 1)
        await site.start(**({"DestinationArn": arn("other")} if name == "other" else {}))
        if name:
            await site.call("DeleteQueue", QueueUrl=name)
        await site.steps(3)
        task = await site.task()
        assert task["Status"] == "FAILED"
        assert task["FailureReason"] == (
            "AWS.SimpleQueueService.NonExistentQueue" if name else "CouldNotDetermineMessageSource"
        )
        assert task["ApproximateNumberOfMessagesMoved"] == (0 if name else 4)
        assert len(await site.all_of("dead")) == (4 if name else 1)

    asyncio.run(tell())


def test_messages_that_come_back_at_once_do_not_keep_a_task_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(move_task, "MOVED_BEYOND_MAX", 20)
    monkeypatch.setattr(message_moves_running, "BATCH_MESSAGES", 1)

    async def tell() -> None:
        site = Site()
        await site.open()
        await site.bury(5)
        redrive = site.one.engine.redrive

        async def come_back(*args: Any, **options: Any) -> Redriven:
            redriven = await redrive(*args, **options)
            for _ in range(4):
                site.clock.advance(0.001)
                await site.receive("orders", visibility_s=0)
            site.clock.advance(0.001)
            return redriven

        monkeypatch.setattr(site.one.engine, "redrive", come_back)
        await site.start()
        await site.steps(2)
        task = await site.task()
        assert task["Status"] == "COMPLETED"
        assert task["ApproximateNumberOfMessagesMoved"] == 2 * 5 + 20

    asyncio.run(tell())


@story
async def test_nothing_to_move(site: Site) -> None:
    await site.start()
    await site.steps(1)
    assert (await site.task())["Status"] == "COMPLETED"


@story
async def test_of_a_queue_that_was_deleted_no_task_is_left(site: Site) -> None:
    await site.bury(3)
    await site.start(MaxNumberOfMessagesPerSecond=1)
    await site.call("DeleteQueue", QueueUrl="dead")
    await site.steps(3)
    site.clock.advance(120)
    await site.steps(1)
    assert await site.meta.query(message_moves.RUNNING, limit=10) == []
    await site.call("CreateQueue", QueueName="dead")
    answer = await site.call("ListMessageMoveTasks", SourceArn=arn("dead"))
    assert answer == {"Results": []}


@story
async def test_leads_are_kept_as_long_as_they_lead_somewhere(site: Site) -> None:
    await site.bury(100)
    await site.start(MaxNumberOfMessagesPerSecond=1)
    await site.steps(90)
    assert len(await site.meta.query(message_moves.RUNNING, limit=10)) == 1
    await site.steps(20)
    assert (await site.task())["Status"] == "COMPLETED"
    assert await site.meta.query(message_moves.RUNNING, limit=10) == []


@story
async def test_a_task_whose_start_was_cut_off_runs(site: Site) -> None:
    """Killed behind the write that stored it: the lead was there before."""
    await site.bury(3)
    put, puts = site.meta.put, 0

    async def killed(*args: Any) -> Any:
        nonlocal puts
        puts += 1
        if puts == 3:
            raise CellUnavailableError
        return await put(*args)

    with patch.object(site.meta, "put", killed), pytest.raises(CellUnavailableError):
        await site.start()
    await site.steps(3)
    assert (await site.task())["Status"] == "COMPLETED"


@story
async def test_starting_twice_at_once_starts_one(site: Site) -> None:
    await site.bury(3)
    two = Server(site)
    outcomes = await asyncio.gather(
        *(
            site.call("StartMessageMoveTask", server=server, SourceArn=arn("dead"))
            for server in (site.one, two)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, RefusedError) for outcome in outcomes) == 1


@story
async def test_a_step_without_tasks_is_one_query(site: Site) -> None:
    before = site.meta.requests.copy()
    await site.one.runner.step()
    assert dict(site.meta.requests - before) == {"query": 1}


@story
async def test_a_server_forgets_tasks_that_it_does_not_run_any_more(site: Site) -> None:
    await site.bury(9)
    slow = {"DestinationArn": arn("other"), "MaxNumberOfMessagesPerSecond": 1}
    handle = await site.start(**slow)
    await site.steps(1)
    await site.call("CancelMessageMoveTask", TaskHandle=handle)
    await site.steps(1, Server(site), site.one)
    assert not site.one.runner._looks_until_us
    await site.start(**slow)
    await site.steps(1)
    site.clock.advance(300)
    await site.steps(1, Server(site), site.one)  # The other one takes it over.
    assert not site.one.runner._looks_until_us


def test_many_tasks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_moves_running, "TASKS_PER_STEP_MAX", 2)

    async def tell() -> None:
        site = Site()
        await site.open()
        for number in range(5):
            policy = json.dumps({"deadLetterTargetArn": arn(f"d{number}"), "maxReceiveCount": 1})
            await site.call("CreateQueue", QueueName=f"d{number}")
            await site.call(
                "CreateQueue", QueueName=f"q{number}", Attributes={"RedrivePolicy": policy}
            )
            await site.send(f"d{number}", 2)
            await site.call(
                "StartMessageMoveTask", SourceArn=arn(f"d{number}"), DestinationArn=arn("other")
            )
        await site.steps(12)
        assert len(await site.all_of("other")) == 10

    asyncio.run(tell())

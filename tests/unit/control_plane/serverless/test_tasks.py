"""Tasks: bounded by their invocation, safe to repeat, to run twice and to cut off."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from control_plane.core import move_task
from control_plane.message_moves import MessageMoves
from control_plane.message_moves_running import OWNED_US
from control_plane.serverless import tasks
from control_plane.serverless.tasks import TAKEOVER_US, UnknownTaskError, perform
from control_plane.service import RunningService, ServicePorts, ServiceSettings
from control_plane.sweep import SWEPT_AFTER_US
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.stream import Shard, Stream
from data_plane.ports import CellUnavailableError, Key
from data_plane.protocol.operation import Call, Params
from data_plane.stored.bodies import BodyStore, blob_name
from data_plane.stored.bounds import SWEPT_NAMES_MAX
from data_plane.stored.keys import be64, partitions, segments
from tests.unit.data_plane.bag.apart import FailingBlobs
from tests.unit.data_plane.bag.pipe import StoppingCell
from tests.unit.data_plane.runtime.blocking_rig import Rig
from tests.unit.repeatable import SECRET, SeededEntropy

ACCOUNT, REGION, UID = "111122223333", "eu-west-1", "00112233445566aa"
AMPLE_S = 300
ONE_STEP_S = 5
"""Less than what a second step needs to be left."""


class Site:
    """A deployment, in virtual time, one function after the other."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.clock = self.rig.clock
        self.cell = StoppingCell(self.clock, stamps=False)
        self.blobs = FailingBlobs(self.clock)
        self.ground = ServicePorts(
            cells={"a": self.cell},
            control=self.cell,
            bodies={"a": BodyStore(self.blobs)},
            clock=self.clock,
            entropy=SeededEntropy(),
            waits=self.rig.waits,
            registry_secret=SECRET,
            master_keys=None,
            drop_items_per_s=0,
        )
        self.service = self.sandbox()

    def sandbox(self) -> RunningService:
        """One more, which knows nothing yet."""
        settings = ServiceSettings(verifies=False)
        return RunningService(self.ground, settings, lambda _served: None, lambda *_, **__: None)

    def do(
        self,
        event: Mapping[str, Any],
        seconds: float = AMPLE_S,
        service: RunningService | None = None,
    ) -> dict[str, Any]:
        chosen = service or self.service
        result = self.rig.run(perform(event, self.ground, chosen, round(seconds * 1_000_000)))
        # It travels as JSON, and is the next event.
        return dict(json.loads(json.dumps(result)))

    def call(self, action: str, **params: Any) -> Params:
        async def call() -> Params:
            operation = next(one for one in self.service.operations if one.name == action)
            queue = None
            if "QueueUrl" in params:
                queue = await self.service.registry.find(ACCOUNT, REGION, params["QueueUrl"])
            called = Call("r", ACCOUNT, REGION, "", self.clock.now_us(), params, queue)
            return await operation.perform(called)

        return self.rig.run(call())

    def queue(self, name: str) -> Queue:
        found = self.rig.run(self.service.registry.find(ACCOUNT, REGION, name))
        assert found is not None
        return found

    # Deleted queues

    def delete_queues(self, count: int, items: int) -> None:
        """Queues of so many items in each partition, deleted long enough ago."""
        for number in range(count):
            self.call("CreateQueue", QueueName=f"gone-{number}")
            uid = self.queue(f"gone-{number}").uid

            async def fill(uid: str = uid) -> None:
                for partition in partitions(uid):
                    for item in range(items):
                        await self.cell.put(Key(partition, be64(item)), {"v": 1})

            self.rig.run(fill())
            self.call("DeleteQueue", QueueUrl=f"gone-{number}")
        self.clock.advance(SWEPT_AFTER_US / 1_000_000)

    def left(self) -> int:
        return sum(item.key.partition[0] in "BSTH" for item in self.cell.items())

    # Streams

    def make_stream(self, name: str) -> None:
        registry = self.service.streams.registry
        wanted = registry.define(account=ACCOUNT, region=REGION, name=name, shards=1, tags={})
        self.rig.run(registry.create(wanted))

    def anchored(self) -> int:
        """Streams of which it is known where their logs end."""
        return sum(
            item.key.partition[0] == "H" and "a" in item.attributes for item in self.cell.items()
        )

    # Bodies

    def body(self, number: int) -> tuple[Key, str]:
        key = Key(segments(UID, 0, 0), be64(number) + bytes(11))
        return key, blob_name(key)

    def put_bodies(self, count: int, *named: int) -> None:
        """Bodies of which segments name only some, old enough to be swept."""

        async def put() -> None:
            for number in range(count):
                key, name = self.body(number)
                await self.blobs.put(name, b"body")
                if number in named:
                    await self.cell.put(key, {"v": 1, "k": "s", "o": name, "x": 1 << 40})

        self.rig.run(put())
        self.clock.advance(7200)

    def bodies(self) -> list[str]:
        async def names() -> list[str]:
            return [blob.name for blob in await self.blobs.names(limit=10_000)]

        return self.rig.run(names())

    # Move tasks

    def bury(self, count: int) -> None:
        """A dead-letter queue with so many messages, and a task that moves them back."""
        self.call("CreateQueue", QueueName="dead")
        arn = self.queue("dead").arn
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        self.call("CreateQueue", QueueName="orders", Attributes={"RedrivePolicy": policy})
        messages = [Outgoing(body=f"m{i}", size=2) for i in range(count)]

        async def send() -> None:
            for start in range(0, count, 10):
                batch = messages[start : start + 10]
                await self.service.engine.send(self.queue_known, SendCall(ACCOUNT, batch))

        self.queue_known = self.queue("dead")
        self.rig.run(send())

    def start(self, **params: Any) -> None:
        orders, dead = self.queue("orders").arn, self.queue("dead").arn
        self.call("StartMessageMoveTask", SourceArn=dead, DestinationArn=orders, **params)

    def visible(self, name: str) -> int:
        return self.rig.run(self.service.engine.counts(self.queue(name))).visible

    def status(self) -> str:
        answer = self.call("ListMessageMoveTasks", SourceArn=self.queue("dead").arn)
        return str(answer["Results"][0]["Status"])


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("event", [{}, {"task": "none"}])
def test_a_task_that_does_not_exist_is_refused(site: Site, event: dict[str, Any]) -> None:
    with pytest.raises(UnknownTaskError, match="sweep_dropped"):
        site.do(event)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_where_there_is_nothing_to_do_a_task_says_so(site: Site, name: str) -> None:
    result = site.do({"task": name})
    assert (result["task"], result["outcome"], result["more"]) == (name, "done", False)
    assert site.rig.naps == []


# Deleted queues


def test_what_deleted_queues_left_behind_goes(site: Site) -> None:
    site.delete_queues(13, items=2)
    assert site.left() == 13 * 2 * 8
    result = site.do({"task": "sweep_dropped"})
    assert (result["removed"], result["more"]) == (13 * 2 * 8, False)
    assert site.left() == 0


def test_a_sweep_stops_in_time_and_says_that_there_is_more(site: Site) -> None:
    site.delete_queues(3, items=200)
    event: dict[str, Any] = {"task": "sweep_dropped"}
    removed = []
    while event.get("more", True):
        event = site.do(event, ONE_STEP_S)
        removed.append(event["removed"])
    assert removed == [1000, 1000, 1000, 1000, 800]
    assert event["rounds"] == 5
    assert site.left() == 0


def test_two_sweeps_at_once_do_no_harm(site: Site) -> None:
    site.delete_queues(4, items=3)
    site.call("CreateQueue", QueueName="kept")
    other = site.sandbox()

    async def both() -> list[Any]:
        event, time_us = {"task": "sweep_dropped"}, AMPLE_S * 1_000_000
        return await site.rig.waits.all_of(
            [perform(event, site.ground, one, time_us) for one in (site.service, other)]
        )

    assert [result["more"] for result in site.rig.run(both())] == [False, False]
    assert site.left() == 0
    assert site.queue("kept").name == "kept"


def test_a_task_goes_on_for_a_bounded_number_of_rounds(site: Site) -> None:
    site.delete_queues(3, items=200)
    event = {"task": "sweep_dropped", "rounds": tasks.ROUNDS_MAX - 1}
    assert site.do(event, ONE_STEP_S)["more"] is False
    assert site.left() > 0


class SeveralStub:
    """What a task asks of several cells, whose map it counts."""

    places = placing = None

    def __init__(self) -> None:
        self.cells: dict[str, Any] = {}
        self.maps = 0

    async def advance(self) -> None:
        pass

    async def freshen(self) -> None:
        self.maps += 1

    async def ship(self) -> None:
        pass


@pytest.mark.parametrize("fails_at", [0, 3])
def test_with_several_cells_a_round_is_an_invocation_and_not_a_map(
    site: Site, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    several: Any = SeveralStub()
    settings: Any = SimpleNamespace(grace_s=600)
    opened: Any = SimpleNamespace(
        ground=site.ground, service=site.service, several=several, settings=settings
    )

    async def copies(event: Mapping[str, Any], _cluster: object, until_us: int) -> dict[str, Any]:
        if several.maps == fails_at:
            raise CellUnavailableError("it is throttled")
        site.clock.advance((until_us - site.clock.now_us()) / 1_000_000)
        return {"outcome": "done", "after": {"n": event["after"]["n"] + 1}, "more": True}

    monkeypatch.setattr("control_plane.cluster.tasks.perform", copies)
    event = {"task": {"act": "complete"}, "rounds": 3, "after": {"n": 0}}
    result = site.rig.run(tasks.perform_on(opened, event, 900_000_000))
    assert (result["rounds"], result["more"]) == (4, True)
    assert result["after"] == {"n": several.maps - (fails_at > 0)}
    assert several.maps == fails_at or several.maps > 20


# Streams


def test_streams_are_looked_after_where_it_stopped_in_whatever_sandbox(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.make_stream(name)
        site.clock.advance(1)
    event: dict[str, Any] = {"task": "keep_streams"}
    rounds = 0
    while event.get("more", True):
        event = site.do(event, ONE_STEP_S, site.sandbox())
        rounds += 1
    assert rounds == 3 + 1, "one stream in each, and nothing more in the last"
    assert site.anchored() == 3


def test_a_stream_whose_cell_does_not_answer_holds_up_no_other(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.make_stream(name)
        site.clock.advance(1)

    def sandbox() -> RunningService:
        service = site.sandbox()
        engine = service.streams.engine
        anchor = engine.anchor

        async def silent(stream: Stream, shard: Shard) -> None:
            if stream.name == "a":
                raise CellUnavailableError("silent")
            await anchor(stream, shard)

        engine.anchor = silent  # type: ignore[method-assign]
        return service

    event: dict[str, Any] = {"task": "keep_streams"}
    for _ in range(3):
        event = site.do(event, ONE_STEP_S, sandbox())
    with pytest.raises(CellUnavailableError, match="silent"):
        site.do(event, ONE_STEP_S, sandbox())
    assert site.anchored() == 2


# Bodies


def test_bodies_that_no_segment_names_go(site: Site) -> None:
    site.put_bodies(20, 3, 7)
    result = site.do({"task": "sweep_bodies"})
    assert (result["removed"], result["more"]) == (18, False)
    assert site.bodies() == [site.body(3)[1], site.body(7)[1]]


def test_a_walk_goes_on_where_it_stopped_in_whatever_sandbox(site: Site) -> None:
    count = 2 * SWEPT_NAMES_MAX + 10
    site.put_bodies(count, *range(0, count, 2))
    event: dict[str, Any] = {"task": "sweep_bodies"}
    removed, positions = [], []
    while event.get("more", True):
        event = site.do(event, ONE_STEP_S, site.sandbox())
        removed.append(event["removed"])
        positions.append(event["after"].get("a"))
    assert removed == [SWEPT_NAMES_MAX // 2, SWEPT_NAMES_MAX // 2, 5, 0]
    assert positions[-1] is None
    assert positions[0] == site.body(SWEPT_NAMES_MAX - 1)[1]
    assert len(site.bodies()) == count // 2


def test_a_walk_that_failed_is_repeated_from_where_it_was(site: Site) -> None:
    site.put_bodies(10)
    site.blobs.failing = {"delete"}
    with pytest.raises(CellUnavailableError):
        site.do({"task": "sweep_bodies"})
    site.blobs.failing = set()
    assert site.do({"task": "sweep_bodies"})["removed"] == 10


# Move tasks


def test_a_move_task_runs_to_its_end(site: Site) -> None:
    site.bury(60)
    site.start()
    result = site.do({"task": "move_messages"})
    assert (result["more"], result["running"]) == (False, 0)
    assert (site.visible("dead"), site.visible("orders")) == (0, 60)
    assert site.status() == move_task.COMPLETED


def test_a_move_task_keeps_its_rate_and_goes_on_in_the_next_round(site: Site) -> None:
    site.bury(60)
    site.start(MaxNumberOfMessagesPerSecond=2)
    result = site.do({"task": "move_messages"}, seconds=16)
    assert result["more"]
    assert 18 <= site.visible("orders") <= 24
    while result["more"]:
        result = site.do(result, seconds=16)
    assert site.visible("orders") == 60
    assert site.status() == move_task.COMPLETED


def test_a_task_whose_sandbox_was_cut_off_is_taken_over_within_the_invocation(
    site: Site,
) -> None:
    site.bury(60)
    site.start(MaxNumberOfMessagesPerSecond=10)
    assert site.do({"task": "move_messages"}, seconds=7, service=site.sandbox())["more"] is True
    assert site.status() == move_task.RUNNING
    site.do({"task": "move_messages"}, service=site.sandbox())
    assert site.visible("orders") == 60
    assert site.status() == move_task.COMPLETED


def test_what_somebody_else_runs_is_left_to_them(site: Site) -> None:
    site.bury(60)
    site.start(MaxNumberOfMessagesPerSecond=1)
    owner = site.sandbox()
    steps = 0
    runner = site.service.move_runner
    step = runner.step

    async def beside() -> Any:
        nonlocal steps
        steps += 1
        await owner.move_runner.step()
        return await step()

    site.rig.run(owner.move_runner.step())
    runner.step = beside  # type: ignore[method-assign]
    began_us = site.clock.now_us()
    result = site.do({"task": "move_messages"})
    assert (result["more"], result["running"], result["of_others"]) == (False, 0, 1)
    assert OWNED_US < site.clock.now_us() - began_us <= TAKEOVER_US + 1_000_000
    assert site.status() == move_task.RUNNING


def test_more_move_tasks_than_a_step_takes_are_all_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control_plane.message_moves_running.TASKS_PER_STEP_MAX", 1)
    moves = MessageMoves(site.cell, site.clock, site.ground.entropy)
    for name in ("one", "two"):
        site.call("CreateQueue", QueueName=name)
        site.rig.run(moves._lead_to(site.queue(name)))
    site.bury(5)
    site.start()
    site.do({"task": "move_messages"})
    assert site.visible("orders") == 5


def test_a_cell_that_fails_is_told_by_the_name_of_its_exception(site: Site) -> None:
    site.bury(5)
    site.start()
    site.cell.stops = lambda _write: True
    with pytest.raises(CellUnavailableError):
        site.do({"task": "move_messages"})
    site.cell.stops = lambda _write: False
    site.do({"task": "move_messages"})
    assert site.visible("orders") == 5

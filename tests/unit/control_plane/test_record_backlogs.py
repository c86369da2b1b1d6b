"""Records in queues of the Kinesis API, for metrics: what is counted, how often, how many."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from control_plane import server as server_module
from control_plane.server import TidegateServer
from control_plane.vital_signs import Backlogs, Counted
from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.http.metrics import QueueName
from data_plane.http.scrapes import Turns
from data_plane.ports import CellUnavailableError, Item
from data_plane.protocol.operation import Call, Params
from data_plane.stored import keys
from tests.conformance.capacity_cell import CapacityCell
from tests.unit.control_plane.test_idle_server import HOUR_S
from tests.unit.control_plane.test_idle_server import play as play_on_a_table
from tests.unit.control_plane.test_server import play
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop
from tests.unit.repeatable import HandClock

ACCOUNT, REGION = "0" * 12, "us-east-1"
REST_S = 5
STREAM_ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/visits"


@dataclass
class Ids:
    """Queues by id, and how often each was looked for; `away` are those that cannot be counted."""

    ids: list[str]
    clock: HandClock = field(default_factory=HandClock)
    counted: Counter[str] = field(default_factory=Counter)
    away: set[str] = field(default_factory=set)

    def backlogs(self, at_once_max: int) -> Backlogs:
        rest_us = REST_S * 1_000_000
        queues = Counted({}, self.names, self.find, self.count, at_once_max, rest_us)
        return Backlogs(queues, self.clock, is_paid=bool(self.away))

    async def names(self, _turns: Turns) -> list[QueueName]:
        return [(ACCOUNT, REGION, one) for one in self.ids]

    async def find(self, _account: str, _region: str, queue_id: str) -> Queue | None:
        self.counted[queue_id] += 1
        if queue_id in self.away:
            raise CellUnavailableError("it is away")
        return QUEUE if queue_id in self.ids else None

    async def count(self, _queue: Queue) -> Counts:
        return Counts(1, 0, 0, 0)


def told(rounds: int, ids: Ids, at_once_max: int) -> list[list[str]]:
    """Which queues are shown, after each of some looks."""

    async def looks() -> list[list[str]]:
        backlogs = ids.backlogs(at_once_max)
        found = []
        for _ in range(rounds):
            found.append(sorted(name for _, _, name in await backlogs.counts()))
            assert await backlogs.counts()
            ids.clock.advance(REST_S)
        return found

    return asyncio.run(looks())


def test_who_asks_often_costs_nothing_more() -> None:
    ids = Ids(["a", "b"])
    assert told(3, ids, 10) == [["a", "b"]] * 3
    assert ids.counted == {"a": 3, "b": 3}


def test_a_look_is_at_some_and_the_next_one_goes_on() -> None:
    ids = Ids(["a", "b", "c"])
    assert told(2, ids, 2) == [["a", "b"], ["a", "b", "c"]]


def test_a_queue_that_cannot_be_counted_keeps_no_other_from_it() -> None:
    ids = Ids(["a", "b", "c"], away={"b"})
    assert told(2, ids, 10) == [["a"], ["a", "c"]]


async def call(server: TidegateServer, action: str, **params: Any) -> Params:
    operation = server.service.streams.service.operations[action]
    asked = Call("r", ACCOUNT, REGION, "", server.clock.now_us(), params)
    return await operation.perform(asked)


async def make(server: TidegateServer) -> str:
    """A queue with three records, of which one is in flight and one a dead letter; its ARN."""
    await call(server, "CreateStream", StreamName="visits")
    made = await call(
        server,
        "CreateQueue",
        QueueName="work",
        StreamConfigurationList=[
            {"StreamARN": STREAM_ARN, "StartingPosition": {"Type": "TRIM_HORIZON"}}
        ],
        QueueAttributes={
            "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 1}
        },
    )
    arn = str(made["QueueDescription"]["QueueARN"])
    for data in (b"one", b"two", b"three"):
        await call(server, "PutRecord", StreamName="visits", Data=data, PartitionKey="k")
    for hidden_s in (0, 3_600):
        await call(
            server,
            "ReceiveQueueRecords",
            QueueARN=arn,
            Limit=1,
            WaitTimeSeconds=1,
            VisibilityTimeoutSeconds=hidden_s,
        )
    return arn


def test_a_server_tells_what_is_in_its_queues(tmp_path: Path) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        arn = await make(server)
        text = (await server._metrics()).body.decode()
        labels = f'{{account="{ACCOUNT}",queue_id="{arn.rpartition("/")[2]}",region="{REGION}"}}'
        for name in ("visible", "in_flight", "visible_dead_letter"):
            assert f"tidegate_kinesis_{name}_queue_records{labels} 1.0\n" in text, name
        assert "tidegate_sqs_approximate_number_of_messages_visible{" not in text

    play(scenario, tmp_path)


def test_upkeep_ends_the_series_of_deleted_queues_and_drops_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: TidegateServer, _written: list[bytes]) -> None:
        arn = await make(server)
        dropped: list[str] = []

        async def drop(queue: Queue) -> None:
            dropped.append(queue.arn)

        monkeypatch.setattr(server.engine, "drop_past_counters", drop)
        for queue_id in (arn.rpartition("/")[2], "gone"):
            told = served(
                "kinesis:ReceiveQueueRecords", account=ACCOUNT, queue=queue_id, messages=1
            )
            server.metrics.served(told)
        await server._upkeep_step()
        assert [name for _, _, name in server.metrics.queue_records.queues] == [
            arn.rpartition("/")[2]
        ]
        assert dropped == [arn]

    play(scenario, tmp_path)


def test_on_a_table_a_queue_that_rests_is_counted_each_half_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_MEMORY_PERIOD_S", 24.0 * HOUR_S)

    async def scenario(server: TidegateServer, _loop: VirtualLoop, cell: CapacityCell) -> None:
        arn = await make(server)
        queue = await server.service.streams.queues.find(ACCOUNT, REGION, arn.rpartition("/")[2])
        assert queue is not None
        counters, asked = keys.counters(queue.uid), Counter[str]()
        query = cell.query

        async def counted(partition: str, **options: Any) -> list[Item]:
            asked[partition] += 1
            return await query(partition, **options)

        monkeypatch.setattr(cell, "query", counted)
        server._upkeep.repeat(server._metrics, 15)
        await asyncio.sleep(HOUR_S)  # of the loop's time, which passes at once
        settled = asked[counters]
        assert settled
        await asyncio.sleep(2 * HOUR_S)  # likewise
        text = (await server._metrics()).body.decode()
        assert "tidegate_kinesis_visible_dead_letter_queue_records{" in text
        # Four counts, each of some ranges of counters.
        assert 4 <= asked[counters] - settled <= 4 * 9

    play_on_a_table(tmp_path, scenario)

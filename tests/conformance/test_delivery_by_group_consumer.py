"""Exactly once with the SDK's GroupConsumer, which is killed, or raises, at every step.

Its handler puts numbered records, as docs/sdk.md has it. What they are is held to what the first
stream was given.
"""

from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sdk.tests.scripted import VirtualClock, leave_at_once
from tests.conformance.group_member import GROUP, SESSION_S, STREAM, create, put, shard_name
from tests.conformance.in_process import InProcessServer
from tidegate_sdk import GroupConsumer, GroupShard, RecordBatch

OUT = "invoices"
OUTPUTS = 2
"""Records that follow from one."""

BATCH_RECORDS = 2
INPUTS = [f"{number}" for number in range(3)]
LEDGER = Counter(f"{text}.{at}" for text in INPUTS for at in range(OUTPUTS))

CALLS = 9
"""Join; an iterator; read, put and commit, twice; two reads that find nothing."""


class KilledError(BaseException):
    """The process is gone: nothing catches it."""


class BrokenError(Exception):
    """What a consumer ends with."""


class FailingKinesis:
    """A client at whose step of this number `error` is raised: two steps are a call.

    Before the first of the two nothing is sent, before the second one the answer is lost. Who is
    killed sends nothing any more.
    """

    def __init__(self, kinesis: Any, fails_at: int, error: type[BaseException]) -> None:
        self._kinesis, self._fails_at, self._error = kinesis, fails_at, error
        self._steps = count()
        self.has_failed = False

    def _step(self) -> None:
        is_due = next(self._steps) == self._fails_at
        if is_due or (self.has_failed and self._error is KilledError):
            self.has_failed = True
            raise self._error

    def __getattr__(self, name: str) -> Any:
        def call(**params: Any) -> Any:
            self._step()
            answer = getattr(self._kinesis, name)(**params)
            self._step()
            return answer

        return call


class Billing:
    """A consumer whose threads are the test, and what its handler was answered."""

    def __init__(self, kinesis: Any) -> None:
        self._kinesis = kinesis
        self.codes: list[str | None] = []
        self.lost: list[GroupShard] = []
        self._clock = VirtualClock()
        self.consumer = GroupConsumer(
            kinesis,
            GROUP,
            self.handle,
            on_lost=self.lost.extend,
            records_max=BATCH_RECORDS,
            wait_s=0,
            clock=self._clock,
            spawn=leave_at_once,
        )

    def handle(self, batch: RecordBatch) -> None:
        """Put what follows from each record, each to a partition key of its own."""
        answer = self._kinesis.put_records(
            StreamName=OUT,
            TidegateProducerId=f"{batch.group}/{batch.shard.stream_arn}/{batch.shard.shard_id}",
            TidegateProducerEpoch=batch.assignment_epoch,
            Records=[
                {
                    "PartitionKey": f"{record['Data'].decode()}{at}",
                    "Data": f"{record['Data'].decode()}.{at}".encode(),
                    "TidegateSequence": str(int(record["SequenceNumber"]) * OUTPUTS + at),
                }
                for record in batch.records
                for at in range(OUTPUTS)
            ],
        )
        self.codes += [record.get("ErrorCode") for record in answer["Records"]]

    def work(self) -> None:
        """Do all that there is to do."""
        self.consumer.beat_next()
        self.consumer.tell_next()
        for _ in range(len(INPUTS) + 1):
            self.consumer.read_next()
            self.consumer.keep_next()
            self._clock.time_s += 1  # Until it reads again where nothing was.

    def end(self) -> None:
        """As a program that is stopped does, or whose handler has raised."""
        self.consumer.stop()
        while self.consumer.tell_next() or self.consumer.keep_next():
            pass
        self.consumer.run(signals=())


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = server.kinesis(extended=True)
    client.create_stream(StreamName=STREAM, ShardCount=1)
    client.create_stream(StreamName=OUT, ShardCount=2)
    create(client)
    for text in INPUTS:
        put(client, text)
    return client


def outputs(kinesis: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for number in range(2):
        iterator = kinesis.get_shard_iterator(
            StreamName=OUT, ShardId=shard_name(number), ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records = kinesis.get_records(ShardIterator=iterator)["Records"]
        found.update(record["Data"].decode() for record in records)
    return found


@pytest.mark.parametrize("error", [KilledError, BrokenError], ids=["killed", "raises"])
@pytest.mark.parametrize("fails_at", range(2 * CALLS))
def test_each_output_is_there_once_whatever_step_fails(
    server: InProcessServer, kinesis: Any, fails_at: int, error: type[BaseException]
) -> None:
    failing = FailingKinesis(kinesis, fails_at, error)
    first = Billing(failing)
    with suppress(KilledError):
        first.work()
    assert failing.has_failed
    if error is BrokenError:
        with pytest.raises(BrokenError):
            first.end()
    server.clock.advance(SESSION_S + 1)
    second = Billing(server.another().kinesis(extended=True))
    second.work()
    second.end()
    assert outputs(kinesis) == LEDGER
    assert kinesis.tidegate_describe_group(GroupName=GROUP)["Shards"][0]["LagRecords"] == 0


def test_what_a_member_puts_that_has_lost_its_shard_is_refused(
    server: InProcessServer, kinesis: Any
) -> None:
    class Zombie(Billing):
        def handle(self, batch: RecordBatch) -> None:
            server.clock.advance(SESSION_S + 1)
            owner = Billing(server.another().kinesis(extended=True))
            owner.work()
            assert set(owner.codes) == {None}
            with pytest.raises(ClientError) as refusal:
                super().handle(batch)
            self.codes.append(refusal.value.response["Error"]["Code"])

    zombie = Zombie(kinesis)
    zombie.consumer.beat_next()
    zombie.consumer.tell_next()
    zombie.consumer.read_next()
    zombie.consumer.tell_next()
    assert zombie.codes == ["TidegateFencedProducer"]
    assert [shard.shard_id for shard in zombie.lost] == [shard_name(0)], "its commit failed, too"
    assert zombie.consumer._failure is None
    assert outputs(kinesis) == LEDGER

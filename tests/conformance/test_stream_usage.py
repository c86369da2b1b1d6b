"""What requests on streams are counted as: for bills, and under CloudWatch's names."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from control_plane.serverless.answer_lines import AnswerLine, answer_line
from data_plane.frontend.served import Served
from data_plane.http.metrics import Metrics
from data_plane.operations.put_records import PAYLOAD_UNIT_BYTES
from data_plane.usage.record import UsageRecord, priced_as
from data_plane.usage.totals import Counting
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.kinesis_queue import STREAM, KinesisQueue, put, without_waiting

NAME = "clicks"
BANK = "444455556666"
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{NAME}"


def told(server: InProcessServer) -> dict[str, UsageRecord]:
    """What all minutes' usage records of all that was served add up to, by operation."""
    counting = Counting(())
    for served in server.served:
        counting.served(served)
    sums: dict[str, UsageRecord] = {}
    for record in counting.take().records("0" * 16, 1):
        before = sums.get(record.operation)
        sums[record.operation] = record if before is None else _added(before, record)
    return sums


def _added(one: UsageRecord, other: UsageRecord) -> UsageRecord:
    counts = ("requests", "units", "messages", "bytes", "failed_entries")
    sums = {name: getattr(one, name) + getattr(other, name) for name in counts}
    return msgspec.structs.replace(one, **sums)


def iterator_of(kinesis: Any) -> str:
    answer = kinesis.get_shard_iterator(
        StreamName=NAME, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )
    return str(answer["ShardIterator"])


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = server.kinesis()
    client.create_stream(StreamName=NAME, ShardCount=1)
    return client


def test_each_record_is_billed_by_units_of_its_own(server: InProcessServer, kinesis: Any) -> None:
    whole = b"x" * (PAYLOAD_UNIT_BYTES - 1)  # and a byte of its key
    kinesis.put_record(StreamName=NAME, PartitionKey="k", Data=whole)
    kinesis.put_records(
        StreamName=NAME,
        Records=[{"PartitionKey": "k", "Data": data} for data in (b"", b"y", whole + b"z")],
    )
    one, several = told(server)["kinesis:PutRecord"], told(server)["kinesis:PutRecords"]
    assert (one.requests, one.units, one.messages, one.bytes) == (1, 1, 1, PAYLOAD_UNIT_BYTES)
    assert (several.requests, several.units, several.messages) == (1, 1 + 1 + 2, 3)
    assert several.bytes == 3 + 1 + PAYLOAD_UNIT_BYTES
    assert (one.account, one.region, one.queue) == (ACCOUNT, REGION, NAME)


def test_what_its_producer_had_stored_is_counted_once(server: InProcessServer) -> None:
    client = server.kinesis(extended=True)
    client.create_stream(StreamName=NAME, ShardCount=1)
    record = {"PartitionKey": "k", "Data": b"xyz", "TidegateSequence": "1"}
    for _ in range(3):
        client.put_records(StreamName=NAME, TidegateProducerId="p", Records=[record])
    put = told(server)["kinesis:PutRecords"]
    assert (put.requests, put.messages, put.bytes) == (3, 1, 4)


def test_what_is_read_is_counted_in_records_and_bytes(
    server: InProcessServer, kinesis: Any
) -> None:
    for data in (b"one", b"three"):
        kinesis.put_record(StreamName=NAME, PartitionKey="key", Data=data)
    page = kinesis.get_records(ShardIterator=iterator_of(kinesis), Limit=1)
    assert server.served[-1].behind_ms == page["MillisBehindLatest"]
    kinesis.get_records(ShardIterator=page["NextShardIterator"])
    read = told(server)["kinesis:GetRecords"]
    assert (read.requests, read.messages, read.bytes) == (2, 2, 3 + 3 + 5 + 3)
    assert read.queue == NAME


def test_what_is_read_of_records_older_than_a_week_is_counted_apart(
    server: InProcessServer, kinesis: Any
) -> None:
    kinesis.increase_stream_retention_period(StreamName=NAME, RetentionPeriodHours=30 * 24)
    for data in (b"1", b"22"):
        kinesis.put_record(StreamName=NAME, PartitionKey="k", Data=data)
    server.clock.advance(3 * 86_400)
    kinesis.put_record(StreamName=NAME, PartitionKey="k", Data=b"333")
    server.clock.advance(4 * 86_400)
    at, pages = iterator_of(kinesis), []
    for _ in range(3):
        page = kinesis.get_records(ShardIterator=at)
        pages.append([record["Data"] for record in page["Records"]])
        at = page["NextShardIterator"]
    # A page has old records or young ones, not both.
    assert pages == [[b"1", b"22"], [b"333"], []]
    counting = Counting(())
    for served in server.served:
        counting.served(served)
        line = msgspec.json.decode(answer_line(served, "0" * 16, 1, 1), type=AnswerLine)
        assert line.access().operation == served.operation
        assert line.usage().operation == priced_as(served.operation, served.kind)
    totals = counting.take()
    found = {one.operation: one for one in totals.records("0" * 16, 1)}
    old, young = found["kinesis:GetRecords/long-term"], found["kinesis:GetRecords"]
    assert (old.requests, old.messages, old.bytes, old.units) == (1, 2, 5, 1)
    assert (young.requests, young.messages, young.bytes) == (2, 1, 4)
    asked = [one for one in totals.access_records("0" * 16, 1) if "Get" in one.operation]
    assert [(one.operation, one.requests) for one in asked if "Records" in one.operation] == [
        ("kinesis:GetRecords", 3)
    ]


def test_records_tell_how_many_shards_of_which_mode_there_were(server: InProcessServer) -> None:
    """A stream that came and went between two exports is known by its records alone."""
    client = server.kinesis()
    client.create_stream(StreamName=NAME, ShardCount=3)
    arn = client.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]["StreamARN"]
    client.update_shard_count(StreamName=NAME, TargetShardCount=5, ScalingType="UNIFORM_SCALING")
    client.increase_stream_retention_period(StreamName=NAME, RetentionPeriodHours=48)
    client.decrease_stream_retention_period(StreamName=NAME, RetentionPeriodHours=36)
    for mode in ("ON_DEMAND", "PROVISIONED"):
        client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": mode})
    client.delete_stream(StreamName=NAME)
    client.create_stream(StreamName="other")
    with pytest.raises(client.exceptions.ResourceInUseException):
        client.create_stream(StreamName="other")
    counting = Counting(())
    for served in server.served:
        counting.served(served)
    found = [
        (one.operation.removeprefix("kinesis:"), one.queue, one.status, one.requests, one.messages)
        for one in counting.take().records("0" * 16, 1)
        if "Describe" not in one.operation
    ]
    assert sorted(found) == [
        ("CreateStream", NAME, "2xx", 1, 3),
        ("CreateStream", "other", "4xx", 1, 0),
        ("CreateStream/on-demand", "other", "2xx", 1, 4),
        ("DecreaseStreamRetentionPeriod", NAME, "2xx", 1, 36),
        ("DeleteStream", NAME, "2xx", 1, 0),
        ("IncreaseStreamRetentionPeriod", NAME, "2xx", 1, 48),
        ("UpdateShardCount", NAME, "2xx", 1, 5),
        ("UpdateStreamMode", NAME, "2xx", 1, 0),
        ("UpdateStreamMode/on-demand", NAME, "2xx", 1, 0),
    ]


def test_a_refused_put_is_a_request_that_stored_nothing(
    server: InProcessServer, kinesis: Any
) -> None:
    with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
        kinesis.put_record(StreamName="none", PartitionKey="k", Data=b"x")
    refused = told(server)["kinesis:PutRecord"]
    assert (refused.status, refused.code) == ("4xx", "ResourceNotFoundException")
    assert (refused.requests, refused.units, refused.messages, refused.bytes) == (1, 1, 0, 0)


def test_metrics_are_of_the_stream_and_of_no_queue(server: InProcessServer, kinesis: Any) -> None:
    kinesis.put_record(StreamName=NAME, PartitionKey="k", Data=b"x")
    metrics = Metrics()
    for served in server.served:
        metrics.served(served)
    assert metrics.queues == {}
    lines = b"".join(line for one in metrics.streams.families(0) for line in encoded(one.lines))
    label = f'{{account="{ACCOUNT}",region="{REGION}",stream="{NAME}"}}'
    assert f"tidegate_kinesis_incoming_bytes_total{label} 2.0\n" in lines.decode()


def encoded(lines: Any) -> Iterator[bytes]:
    return (line.encode() for line in lines)


def test_the_owner_of_a_stream_pays_for_others_that_it_lets_in() -> None:
    server = InProcessServer(verifies=True)
    for account in (ACCOUNT, BANK):
        server.run(server.accounts.create_account("one", account, {}))
    keys = [server.run(server.accounts.create_key(account)) for account in (ACCOUNT, BANK)]
    owner, bank = (server.kinesis(key.id, key.secret) for key in keys)
    owner.create_stream(StreamName=NAME, ShardCount=1)
    record = {"StreamARN": ARN, "Data": b"x", "PartitionKey": "a"}

    def put_by_the_bank() -> Served:
        with suppress(bank.exceptions.ClientError):
            bank.put_record(**record)
        return server.served[-1]

    denied = put_by_the_bank()
    assert (denied.code, denied.account) == ("AccessDeniedException", BANK)
    allowed = {"Effect": "Allow", "Principal": {"AWS": BANK}, "Action": "kinesis:PutRecord"}
    policy = {"Version": "2012-10-17", "Statement": [{**allowed, "Resource": ARN}]}
    owner.put_resource_policy(ResourceARN=ARN, Policy=json.dumps(policy))
    put = put_by_the_bank()
    assert (put.status, put.account, put.messages) == (200, ACCOUNT, 1)
    server.close()


def test_what_queues_deliver_is_counted_by_their_ids(server: InProcessServer) -> None:
    without_waiting(server).kinesis().create_stream(StreamName=STREAM)
    queue = KinesisQueue(server)
    put(queue.kinesis, "a", "b")
    records = queue.receive()
    queue.receive()
    queue.acknowledge(*records, {"ReceiptHandle": "none"})
    received = told(server)["kinesis:ReceiveQueueRecords"]
    settled = told(server)["kinesis:AcknowledgeQueueRecords"]
    assert (settled.account, settled.region) == (ACCOUNT, REGION)
    assert settled.queue == queue.arn.rpartition("/")[2]
    assert (settled.requests, settled.messages, settled.failed_entries) == (1, 2, 1)
    assert (received.requests, received.messages, received.bytes) == (2, 2, 4)

"""Streams as strict as AWS's (`--strict-streams`), as boto3's client meets them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.long_polls import WAIT_S, end_of_poll
from tests.conformance.runners import RUNNERS

NAME = "clicks"
SHARD = "shardId-000000000000"
MIB = 1_048_576
THROTTLED = "ProvisionedThroughputExceededException"
SETTLING_S = 5


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    with InProcessServer(RUNNERS[request.param], strict_streams_s=SETTLING_S) as made:
        yield made


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    """A client, and a stream that is there."""
    client = server.kinesis()
    client.create_stream(StreamName=NAME, ShardCount=1)
    server.clock.advance(SETTLING_S)
    return client


def refused(call: Callable[..., object], **params: object) -> tuple[str, str]:
    with pytest.raises(ClientError) as error:
        call(**params)
    told = error.value.response["Error"]
    return str(told["Code"]), str(told["Message"])


def iterator(kinesis: Any) -> str:
    answer = kinesis.get_shard_iterator(
        StreamName=NAME, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON"
    )
    return str(answer["ShardIterator"])


def put(kinesis: Any, size: int = 1) -> None:
    kinesis.put_record(StreamName=NAME, Data=bytes(size - 1), PartitionKey="k")


def test_iterators_expire(server: InProcessServer, kinesis: Any) -> None:
    def told(time_us: int) -> str:
        at = datetime.fromtimestamp(time_us // 1_000_000, UTC)
        return at.strftime("%a %b %d %H:%M:%S UTC %Y")

    made_us = server.clock.now_us()
    first = iterator(kinesis)
    server.clock.advance(300)
    following = kinesis.get_records(ShardIterator=first)["NextShardIterator"]
    server.clock.advance(1)
    code, message = refused(kinesis.get_records, ShardIterator=first)
    assert code == "ExpiredIteratorException"
    assert message == (
        f"Iterator expired. The iterator was created at time {told(made_us)} while right now it is"
        f" {told(server.clock.now_us())} which is further in the future than the tolerated delay of"
        " 300000 milliseconds."
    )
    server.clock.advance(298)
    kinesis.get_records(ShardIterator=following)


def test_a_shard_is_read_five_times_a_second(server: InProcessServer, kinesis: Any) -> None:
    kinesis.create_stream(StreamName="other", ShardCount=1)
    first = iterator(kinesis)
    for _ in range(5):
        kinesis.get_records(ShardIterator=first)
    assert refused(kinesis.get_records, ShardIterator=first) == (
        THROTTLED,
        f"Rate exceeded for Shard - {ACCOUNT}/{NAME}/{SHARD}",
    )
    server.clock.advance(SETTLING_S)
    other = kinesis.get_shard_iterator(
        StreamName="other", ShardId=SHARD, ShardIteratorType="LATEST"
    )["ShardIterator"]
    for _ in range(5):
        kinesis.get_records(ShardIterator=first)
        kinesis.get_records(ShardIterator=other)
    assert refused(kinesis.get_records, ShardIterator=first)[0] == THROTTLED
    server.clock.advance(0.2)
    kinesis.get_records(ShardIterator=first)
    assert refused(kinesis.get_records, ShardIterator=first)[0] == THROTTLED


def test_who_has_read_much_waits(server: InProcessServer, kinesis: Any) -> None:
    for _ in range(6):
        put(kinesis, MIB)
        server.clock.advance(1)
    first = iterator(kinesis)
    assert len(kinesis.get_records(ShardIterator=first)["Records"]) == 6
    server.clock.advance(1.9)
    assert refused(kinesis.get_records, ShardIterator=first, Limit=1)[0] == THROTTLED
    server.clock.advance(0.2)
    kinesis.get_records(ShardIterator=first, Limit=1)


def test_who_has_waited_and_then_read_much_waits_again(
    server: InProcessServer, kinesis: Any
) -> None:
    del kinesis
    client, other = server.kinesis(extended=True), server.another().kinesis()
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{NAME}"
    client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=4 * 1024 + 1)
    first = iterator(client)

    def put_later() -> None:
        server.clock.advance(SETTLING_S + 5)
        put(other, 4 * MIB)

    answer = end_of_poll(
        server,
        lambda: client.get_records(ShardIterator=first, TidegateWaitTimeSeconds=WAIT_S),
        put_later,
    )
    assert len(answer["Records"]) == 1
    assert refused(client.get_records, ShardIterator=first)[0] == THROTTLED


def test_a_shard_takes_a_thousand_records_a_second(server: InProcessServer, kinesis: Any) -> None:
    records = [{"Data": b"d", "PartitionKey": "k"}] * 500
    assert kinesis.put_records(StreamName=NAME, Records=records)["FailedRecordCount"] == 0
    assert kinesis.put_records(StreamName=NAME, Records=records[:490])["FailedRecordCount"] == 0
    answer = kinesis.put_records(StreamName=NAME, Records=records)
    assert answer["FailedRecordCount"] == 490
    assert ["SequenceNumber" in one for one in answer["Records"]] == [True] * 10 + [False] * 490
    message = f"Rate exceeded for shard {SHARD} in stream {NAME} under account {ACCOUNT}."
    assert answer["Records"][10] == {"ErrorCode": THROTTLED, "ErrorMessage": message}
    # A call of which nothing is stored is answered, too; a single record is refused.
    answer = kinesis.put_records(StreamName=NAME, Records=records[:2])
    assert answer["FailedRecordCount"] == 2
    single = {"StreamName": NAME, "Data": b"d", "PartitionKey": "k"}
    assert refused(kinesis.put_record, **single) == (THROTTLED, message)
    server.clock.advance(1)
    assert kinesis.put_records(StreamName=NAME, Records=records)["FailedRecordCount"] == 0


def test_a_shard_takes_a_mebibyte_a_second(server: InProcessServer, kinesis: Any) -> None:
    small = {"Data": b"d", "PartitionKey": "k"}
    half = {"Data": bytes(MIB // 2), "PartitionKey": "k"}
    answer = kinesis.put_records(StreamName=NAME, Records=[half, half, small])
    # What comes behind a record that is refused is refused, so that a key keeps its order.
    assert ["SequenceNumber" in one for one in answer["Records"]] == [True, False, False]
    server.clock.advance(1)
    put(kinesis, MIB)
    put_again = {"StreamName": NAME, "Data": bytes(1_000), "PartitionKey": "k"}
    assert refused(kinesis.put_record, **put_again)[0] == THROTTLED


def test_a_stream_takes_a_while_to_be_there_and_to_change(server: InProcessServer) -> None:
    kinesis = server.kinesis()
    kinesis.create_stream(StreamName=NAME, ShardCount=1)

    def status() -> str:
        (listed,) = kinesis.list_streams()["StreamSummaries"]
        described = kinesis.describe_stream(StreamName=NAME)["StreamDescription"]
        summary = kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
        (told,) = {one["StreamStatus"] for one in (listed, described, summary)}
        assert bool(described["Shards"]) == (told != "CREATING")
        return str(told)

    single = {"StreamName": NAME, "Data": b"d", "PartitionKey": "k"}
    split = {"StreamName": NAME, "ShardToSplit": SHARD, "NewStartingHashKey": str(2**127)}
    longer = {"StreamName": NAME, "RetentionPeriodHours": 48}
    not_there = ("ResourceNotFoundException", f"Stream {NAME} under account {ACCOUNT} not found.")

    def not_active(state: str) -> tuple[str, str]:
        told = f"Stream {NAME} under account {ACCOUNT} not ACTIVE, instead in state {state}"
        return "ResourceInUseException", told

    server.clock.advance(SETTLING_S - 1)
    assert status() == "CREATING"
    assert refused(kinesis.put_record, **single) == not_there
    place = {"StreamName": NAME, "ShardId": SHARD, "ShardIteratorType": "LATEST"}
    assert refused(kinesis.get_shard_iterator, **place) == not_there
    assert refused(kinesis.split_shard, **split) == not_active("CREATING")
    server.clock.advance(1)
    assert status() == "ACTIVE"
    kinesis.put_record(**single)
    for change, asked in (
        (kinesis.split_shard, split),
        (kinesis.increase_stream_retention_period, longer),
        (
            kinesis.start_stream_encryption,
            {"StreamName": NAME, "EncryptionType": "KMS", "KeyId": "k"},
        ),
    ):
        change(**asked)
        assert status() == "UPDATING"
        assert refused(kinesis.increase_stream_retention_period, **longer) == not_active("UPDATING")
        kinesis.get_records(ShardIterator=iterator(kinesis))
        server.clock.advance(SETTLING_S)
        assert status() == "ACTIVE"
    kinesis.add_tags_to_stream(StreamName=NAME, Tags={"team": "a"})
    assert status() == "ACTIVE"


def test_without_it_nothing_of_that_holds() -> None:
    server = InProcessServer()
    kinesis = server.kinesis()
    kinesis.create_stream(StreamName=NAME, ShardCount=1)
    summary = kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
    assert summary["StreamStatus"] == "ACTIVE"
    for _ in range(3):
        put(kinesis, MIB)
    first = iterator(kinesis)
    server.clock.advance(3_600)
    for _ in range(10):
        kinesis.get_records(ShardIterator=first)
    server.close()

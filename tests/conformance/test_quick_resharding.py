"""Shards that are split and merged faster than records, or their numbers, follow them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane import streams
from data_plane.core.limits import STREAM_SHARDS_KEPT_MAX
from data_plane.operations import put_records
from data_plane.streams.appending import PutOutcome, ShardClosedError
from data_plane.streams.engine import Streams
from tests.conformance.in_process import InProcessServer

NAME = "clicks"
RECORD = {"PartitionKey": "k", "Data": b"x"}


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = server.kinesis()
    client.create_stream(StreamName=NAME, ShardCount=4)
    return client


def reshard(kinesis: Any, *counts: int) -> None:
    for count in counts:
        kinesis.update_shard_count(
            StreamName=NAME, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
        )


def test_what_never_meets_an_open_shard_fails(
    kinesis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every shard ends while records are on their way to it, as often as they follow."""
    tries = []

    async def closed(*_: object) -> PutOutcome:
        tries.append(1)
        return PutOutcome({}, ShardClosedError())

    monkeypatch.setattr(Streams, "put", closed)
    with pytest.raises(ClientError) as refused:
        kinesis.put_record(StreamName=NAME, **RECORD)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
    assert len(tries) == put_records._ROUNDS_MAX
    with pytest.raises(ClientError):
        kinesis.put_records(StreamName=NAME, Records=[RECORD, RECORD])


def test_what_meets_an_open_shard_is_stored_though_others_fail(
    kinesis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, tries = Streams.put, []

    async def closed_at_first(engine: Streams, *rest: Any) -> PutOutcome:
        tries.append(1)
        return await put(engine, *rest) if len(tries) == 1 else PutOutcome({}, ShardClosedError())

    monkeypatch.setattr(Streams, "put", closed_at_first)
    keys = [str(n << 126) for n in range(2)]
    records = [{**RECORD, "ExplicitHashKey": key} for key in keys]
    answer = kinesis.put_records(StreamName=NAME, Records=records)
    assert answer["FailedRecordCount"] == 1
    codes = [record.get("ErrorCode") for record in answer["Records"]]
    assert sorted(codes, key=str) == ["InternalFailure", None]


def test_numbers_of_shards_that_begin_ahead_of_time_are_numbers(kinesis: Any) -> None:
    number = ""
    for count in (3, 4, 2, 3, 4):
        reshard(kinesis, count)
        ordered = {"SequenceNumberForOrdering": number} if number else {}
        number = kinesis.put_record(StreamName=NAME, **RECORD, **ordered)["SequenceNumber"]
    ahead = f"{int(number) + (60 << 164):056d}"
    with pytest.raises(ClientError) as refused:
        kinesis.put_record(StreamName=NAME, **RECORD, SequenceNumberForOrdering=ahead)
    assert "is invalid" in refused.value.response["Error"]["Message"]


def test_at_each_time_shards_of_all_hash_keys_are_listed(
    kinesis: Any, server: InProcessServer
) -> None:
    reshard(kinesis, 3, 4, 2)
    server.clock.advance(0.1)
    now = datetime.fromtimestamp(server.clock.now_us() / 1_000_000, UTC)
    shards = kinesis.list_shards(
        StreamName=NAME, ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": now}
    )["Shards"]
    assert (
        sum(
            int(shard["HashKeyRange"]["EndingHashKey"])
            - int(shard["HashKeyRange"]["StartingHashKey"])
            + 1
            for shard in shards
        )
        == 1 << 128
    )


def test_a_stream_of_more_shards_than_memory_has_room_for_is_refused(kinesis: Any) -> None:
    with pytest.raises(kinesis.exceptions.LimitExceededException):
        kinesis.create_stream(StreamName="wide", ShardCount=2**31 - 1)


def test_closed_shards_count_until_they_are_forgotten(
    kinesis: Any, server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert STREAM_SHARDS_KEPT_MAX == 5_000
    monkeypatch.setattr(streams, "STREAM_SHARDS_KEPT_MAX", 8)
    half = {"StreamName": NAME, "NewStartingHashKey": str(1 << 125)}
    kinesis.split_shard(**half, ShardToSplit="shardId-000000000000")
    kinesis.split_shard(
        StreamName=NAME,
        NewStartingHashKey=str(1 << 124),
        ShardToSplit="shardId-000000000004",
    )
    merge = {
        "StreamName": NAME,
        "ShardToMerge": "shardId-000000000006",
        "AdjacentShardToMerge": "shardId-000000000007",
    }
    with pytest.raises(kinesis.exceptions.LimitExceededException) as refused:
        kinesis.merge_shards(**merge)
    assert "would have 9 shards with those that are closed and kept. Limit: 8." in str(
        refused.value
    )
    server.clock.advance(2 * 86_400)
    kinesis.merge_shards(**merge)

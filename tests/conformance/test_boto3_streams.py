"""Streams by boto3's Kinesis client."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ClientError

from data_plane.core.limits import (
    ACCOUNT_SHARDS_MAX,
    QUOTA_STREAMS_DEFAULT,
    STREAM_SHARDS_MAX,
)
from data_plane.protocol.http import HttpRequest
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.runners import RUNNERS

NAME = "clicks"
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{NAME}"
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture(params=[(runner, cells) for runner in RUNNERS for cells in (1, 3)], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    """As everywhere; and on a service of three cells, where each shard is a chain."""
    runner, cells = request.param
    with InProcessServer(RUNNERS[runner], cells=cells) as started:
        yield started


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    return server.kinesis()


@pytest.fixture
def stream(kinesis: Any) -> str:
    kinesis.create_stream(StreamName=NAME, ShardCount=2)
    return NAME


def _iterator(kinesis: Any, shard: str, kind: str = "TRIM_HORIZON", **more: Any) -> str:
    answer = kinesis.get_shard_iterator(
        StreamName=NAME, ShardId=shard, ShardIteratorType=kind, **more
    )
    return str(answer["ShardIterator"])


def _pages(kinesis: Any, iterator: str, limit: int = 10_000) -> Iterator[dict[str, Any]]:
    following: str | None = iterator
    while following is not None:
        page = kinesis.get_records(ShardIterator=following, Limit=limit)
        yield page
        following = page.get("NextShardIterator")
        if not page["Records"]:
            return


def _texts(kinesis: Any, iterator: str, limit: int = 10_000) -> list[str]:
    return [
        record["Data"].decode()
        for page in _pages(kinesis, iterator, limit)
        for record in page["Records"]
    ]


def _all_texts(kinesis: Any) -> set[str]:
    shards = kinesis.list_shards(StreamName=NAME)["Shards"]
    return {
        text for shard in shards for text in _texts(kinesis, _iterator(kinesis, shard["ShardId"]))
    }


def _refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


# Streams


def test_a_stream_is_described_as_it_was_made(kinesis: Any, stream: str) -> None:
    described = kinesis.describe_stream(StreamName=stream)["StreamDescription"]
    assert described["StreamARN"] == ARN
    assert described["StreamStatus"] == "ACTIVE"
    assert described["RetentionPeriodHours"] == 24
    assert described["HasMoreShards"] is False
    assert "KeyId" not in described
    assert [shard["ShardId"] for shard in described["Shards"]] == [FIRST, SECOND]
    assert described["Shards"][1]["HashKeyRange"]["EndingHashKey"] == str(2**128 - 1)
    summary = kinesis.describe_stream_summary(StreamARN=ARN)["StreamDescriptionSummary"]
    assert summary["OpenShardCount"] == 2
    kinesis.get_waiter("stream_exists").wait(StreamName=stream)


def test_streams_are_listed_a_page_at_a_time(kinesis: Any) -> None:
    names = [f"stream-{number}" for number in range(5)]
    for name in names:
        kinesis.create_stream(StreamName=name, ShardCount=1)
    pages = kinesis.get_paginator("list_streams").paginate(Limit=2)
    assert [name for page in pages for name in page["StreamNames"]] == names
    behind = kinesis.list_streams(ExclusiveStartStreamName=names[2])
    assert behind["StreamNames"] == names[3:]
    assert behind["HasMoreStreams"] is False


def test_a_deleted_stream_is_gone(kinesis: Any, stream: str) -> None:
    kinesis.put_record(StreamName=stream, Data=b"old", PartitionKey="a")
    iterator = _iterator(kinesis, FIRST)
    kinesis.delete_stream(StreamName=stream)
    code, message = _refused(kinesis.describe_stream, StreamName=stream)
    assert (code, message) == (
        "ResourceNotFoundException",
        f"Stream {stream} under account {ACCOUNT} not found.",
    )
    kinesis.get_waiter("stream_not_exists").wait(StreamName=stream)
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    assert _all_texts(kinesis) == set()
    assert _refused(kinesis.get_records, ShardIterator=iterator)[0] == "ResourceNotFoundException"


def test_a_name_is_taken_once(kinesis: Any, stream: str) -> None:
    assert _refused(kinesis.create_stream, StreamName=stream, ShardCount=1) == (
        "ResourceInUseException",
        f"Stream {stream} under account {ACCOUNT} already exists.",
    )


def test_without_a_count_a_stream_is_on_demand(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=NAME)
    summary = kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
    assert summary["StreamModeDetails"] == {"StreamMode": "ON_DEMAND"}
    assert summary["OpenShardCount"] == 4
    kinesis.update_stream_record_distribution_strategy(
        StreamARN=ARN, RecordDistributionStrategy="AUTO"
    )
    used = [kinesis.put_record(StreamName=NAME, Data=b"x")["ShardId"] for _ in range(8)]
    assert len(set(used)) > 1


def test_tags_by_both_families(kinesis: Any, stream: str) -> None:
    kinesis.add_tags_to_stream(StreamName=stream, Tags={"b": "2", "a": "1"})
    kinesis.tag_resource(ResourceARN=ARN, Tags={"c": "3"})
    page = kinesis.list_tags_for_stream(StreamName=stream, Limit=2)
    assert page["HasMoreTags"] is True
    assert [tag["Key"] for tag in page["Tags"]] == ["a", "b"]
    kinesis.remove_tags_from_stream(StreamName=stream, TagKeys=["a"])
    kinesis.untag_resource(ResourceARN=ARN, TagKeys=["b"])
    assert kinesis.list_tags_for_resource(ResourceARN=ARN)["Tags"] == [{"Key": "c", "Value": "3"}]


def test_retention_is_raised_and_lowered(kinesis: Any, stream: str) -> None:
    kinesis.increase_stream_retention_period(StreamName=stream, RetentionPeriodHours=48)
    summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    assert summary["RetentionPeriodHours"] == 48
    code, message = _refused(
        kinesis.increase_stream_retention_period, StreamName=stream, RetentionPeriodHours=25
    )
    assert code == "InvalidArgumentException"
    assert "can not be shorter than existing retention period (48 hours)" in message
    kinesis.decrease_stream_retention_period(StreamName=stream, RetentionPeriodHours=24)
    code, message = _refused(
        kinesis.decrease_stream_retention_period, StreamName=stream, RetentionPeriodHours=23
    )
    assert message.startswith("Minimum allowed retention period is 24 hours.")


@pytest.mark.usefixtures("stream")
def test_a_resource_policy_is_kept(kinesis: Any) -> None:
    assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == "{}"
    policy = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"222233334444"},'
        f'"Action":"kinesis:PutRecord","Resource":"{ARN}"}}]}}'
    )
    kinesis.put_resource_policy(ResourceARN=ARN, Policy=policy)
    assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == policy
    kinesis.delete_resource_policy(ResourceARN=ARN)
    assert _refused(kinesis.delete_resource_policy, ResourceARN=ARN)[0] == (
        "ResourceNotFoundException"
    )


def test_who_reuses_an_invocation_id_loses_nothing(kinesis: Any, stream: str) -> None:
    def name_it(request: AWSPreparedRequest, **_: object) -> None:
        request.headers["amz-sdk-invocation-id"] = "one"

    kinesis.meta.events.register_first("before-send.kinesis", name_it)
    of_one = [
        {"Data": b"1", "PartitionKey": "a"},
        {"Data": b"1", "PartitionKey": "b"},
        {"Data": b"1", "PartitionKey": "a", "ExplicitHashKey": "0"},
        {"Data": b"2", "PartitionKey": "a"},
    ]
    several = [of_one, of_one[::-1], of_one[1:], of_one[:1]]
    for _ in range(2):
        for record in of_one:
            kinesis.put_record(StreamName=stream, **record)
        for records in several:
            kinesis.put_records(StreamName=stream, Records=records)
    count = sum(
        len(page["Records"])
        for shard in (FIRST, SECOND)
        for page in _pages(kinesis, _iterator(kinesis, shard))
    )
    # Each call once.
    assert count == len(of_one) + sum(map(len, several))


def test_shards_are_counted_and_bounded(kinesis: Any, stream: str) -> None:
    kinesis.create_stream(StreamName="on-demand")
    limits = kinesis.describe_limits()
    assert limits["OpenShardCount"] == 6
    assert limits["ShardLimit"] == ACCOUNT_SHARDS_MAX
    assert limits["OnDemandStreamCount"] == 1
    assert limits["OnDemandStreamCountLimit"] == QUOTA_STREAMS_DEFAULT
    kinesis.create_stream(StreamName="wide", ShardCount=STREAM_SHARDS_MAX)
    wider = {"StreamName": "wider", "ShardCount": STREAM_SHARDS_MAX + 1}
    code, message = _refused(kinesis.create_stream, **wider)
    assert code == "LimitExceededException"
    opened = STREAM_SHARDS_MAX + 1
    assert f"It would have {opened} open shards. Limit: {STREAM_SHARDS_MAX}." in message
    assert stream in kinesis.list_streams()["StreamNames"]


# Records


def test_records_go_to_the_shards_of_their_keys(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=NAME, ShardCount=3)
    used = [
        kinesis.put_record(StreamName=NAME, Data=b"x", PartitionKey=key)["ShardId"]
        for key in "abef"
    ]
    # Where AWS puts these keys, too.
    assert [int(shard[-1]) for shard in used] == [0, 1, 2, 1]
    explicit = kinesis.put_record(
        StreamName=NAME, Data=b"x", PartitionKey="a", ExplicitHashKey=str(2**128 - 1)
    )
    assert explicit["ShardId"] == "shardId-000000000002"


@pytest.mark.parametrize("limit", [1, 7, 10_000])
def test_what_is_put_is_read_in_order(kinesis: Any, stream: str, limit: int) -> None:
    wanted = [f"{number}" for number in range(40)]
    answer = kinesis.put_records(
        StreamName=stream,
        Records=[{"Data": text.encode(), "PartitionKey": "a"} for text in wanted[:30]],
    )
    assert answer["FailedRecordCount"] == 0
    numbers = [record["SequenceNumber"] for record in answer["Records"]]
    assert numbers == sorted(numbers)
    for text in wanted[30:]:
        kinesis.put_record(StreamName=stream, Data=text.encode(), PartitionKey="a")
    shard = answer["Records"][0]["ShardId"]
    assert _texts(kinesis, _iterator(kinesis, shard), limit) == wanted


def test_iterators_of_all_types(kinesis: Any, stream: str, server: InProcessServer) -> None:
    puts = [
        kinesis.put_record(StreamName=stream, Data=text.encode(), PartitionKey="a")
        for text in "abc"
    ]
    shard, second = puts[0]["ShardId"], puts[1]["SequenceNumber"]
    now = datetime.fromtimestamp(server.clock.now_us() / 1_000_000, UTC)
    latest = _iterator(kinesis, shard, "LATEST")
    at, after = (
        _iterator(kinesis, shard, kind, StartingSequenceNumber=second)
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
    )
    past = _iterator(kinesis, shard, "AT_TIMESTAMP", Timestamp=now.replace(year=now.year - 1))
    kinesis.put_record(StreamName=stream, Data=b"d", PartitionKey="a")
    assert _texts(kinesis, _iterator(kinesis, shard)) == ["a", "b", "c", "d"]
    assert _texts(kinesis, past) == ["a", "b", "c", "d"]
    assert _texts(kinesis, at) == ["b", "c", "d"]
    assert _texts(kinesis, after) == ["c", "d"]
    assert _texts(kinesis, latest) == ["d"]
    assert _texts(kinesis, latest) == ["d"]


def test_a_closed_shard_leads_to_its_children(kinesis: Any, stream: str) -> None:
    for number in range(20):
        kinesis.put_record(StreamName=stream, Data=b"%d" % number, PartitionKey=f"{number}")
    kinesis.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey=str(2**125))
    kinesis.merge_shards(
        StreamName=stream,
        ShardToMerge="shardId-000000000003",
        AdjacentShardToMerge=SECOND,
    )
    for number in range(20, 40):
        kinesis.put_record(StreamName=stream, Data=b"%d" % number, PartitionKey=f"{number}")
    last = list(_pages(kinesis, _iterator(kinesis, FIRST)))[-1]
    assert "NextShardIterator" not in last
    assert [child["ShardId"] for child in last["ChildShards"]] == [
        "shardId-000000000002",
        "shardId-000000000003",
    ]
    assert last["ChildShards"][0]["ParentShards"] == [FIRST]
    assert _all_texts(kinesis) == {str(number) for number in range(40)}
    listed = kinesis.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    assert [shard["ShardId"][-1] for shard in listed] == ["2", "4"]
    first = kinesis.describe_stream(StreamName=stream)["StreamDescription"]["Shards"][0]
    assert int(first["SequenceNumberRange"]["EndingSequenceNumber"]) > int(
        first["SequenceNumberRange"]["StartingSequenceNumber"]
    )


def test_shards_are_doubled_and_halved(kinesis: Any, stream: str) -> None:
    answer = kinesis.update_shard_count(
        StreamName=stream, TargetShardCount=4, ScalingType="UNIFORM_SCALING"
    )
    assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (2, 4)
    opened = kinesis.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    assert [int(shard["HashKeyRange"]["StartingHashKey"]) for shard in opened] == [
        number * 2**126 for number in range(4)
    ]
    code, message = _refused(
        kinesis.update_shard_count,
        StreamName=stream,
        TargetShardCount=9,
        ScalingType="UNIFORM_SCALING",
    )
    assert code == "LimitExceededException"
    assert message.endswith("Current open shard count: 4, Target shard count: 9")
    assert _refused(
        kinesis.update_shard_count,
        StreamName=stream,
        TargetShardCount=1,
        ScalingType="UNIFORM_SCALING",
    ) == (
        "LimitExceededException",
        (
            "UpdateShardCount cannot scale down below half your current open shard count. Current"
            " open shard count: 4, Target shard count: 1"
        ),
    )


# What is refused


def test_a_shard_is_split_once(kinesis: Any, stream: str) -> None:
    """mhart/kinesalite #109."""
    split = {"StreamName": stream, "ShardToSplit": FIRST, "NewStartingHashKey": str(2**125)}
    kinesis.split_shard(**split)
    assert _refused(kinesis.split_shard, **split) == (
        "InvalidArgumentException",
        (
            f"Shard {FIRST} in stream {NAME} under account {ACCOUNT} has already been merged or"
            " split, and thus is not eligible for merging or splitting."
        ),
    )


@pytest.mark.parametrize("key", ["aws:made-by", "AWS:team", "aws:"])
def test_keys_of_tags_do_not_begin_as_those_of_aws(kinesis: Any, stream: str, key: str) -> None:
    refusal = (
        "InvalidArgumentException",
        "Tag keys cannot start with the reserved prefix aws:.",
    )
    tags = {"team": "a", key: "b"}
    assert _refused(kinesis.add_tags_to_stream, StreamName=stream, Tags=tags) == refusal
    assert _refused(kinesis.tag_resource, ResourceARN=ARN, Tags=tags) == refusal
    another = {"StreamName": "another", "Tags": tags}
    assert _refused(kinesis.create_stream, **another) == refusal
    assert kinesis.list_tags_for_stream(StreamName=stream)["Tags"] == []
    kinesis.add_tags_to_stream(StreamName=stream, Tags={"laws:": "aws:"})


def test_a_stream_has_50_tags(kinesis: Any, stream: str) -> None:
    """The words are those of mhart/kinesalite, when it was ten."""
    tags = {str(number): "" for number in range(50)}
    kinesis.add_tags_to_stream(StreamName=stream, Tags=tags)
    kinesis.add_tags_to_stream(StreamName=stream, Tags={"0": "again"})
    assert _refused(kinesis.add_tags_to_stream, StreamName=stream, Tags={"more": ""}) == (
        "InvalidArgumentException",
        (
            f"Failed to add tags to stream {NAME} under account {ACCOUNT} because a given stream"
            " cannot have more than 50 tags associated with it."
        ),
    )


@pytest.mark.parametrize(
    ("call", "params", "message"),
    [
        (
            "put_record",
            {"StreamName": "none", "Data": b"x", "PartitionKey": "a"},
            f"Stream none under account {ACCOUNT} not found.",
        ),
        (
            "get_shard_iterator",
            {"StreamName": "none", "ShardId": "shardId-5", "ShardIteratorType": "LATEST"},
            f"Shard shardId-000000000005 in stream none under account {ACCOUNT} does not exist",
        ),
        (
            "get_shard_iterator",
            {"StreamName": NAME, "ShardId": "shardId-x", "ShardIteratorType": "LATEST"},
            f"Could not find shard shardId-x in stream {NAME} under account {ACCOUNT}.",
        ),
        ("get_records", {"ShardIterator": "no iterator"}, "Invalid ShardIterator."),
        (
            "split_shard",
            {"StreamName": NAME, "ShardToSplit": FIRST, "NewStartingHashKey": "1"},
            (
                f"NewStartingHashKey 1 used in SplitShard() on shard {FIRST} in stream {NAME} under"
                f" account {ACCOUNT} is not both greater than one plus the shard's StartingHashKey"
                f" 0 and less than the shard's EndingHashKey {2**127 - 1}."
            ),
        ),
        (
            "merge_shards",
            {"StreamName": NAME, "ShardToMerge": SECOND, "AdjacentShardToMerge": FIRST},
            (
                f"Shards {SECOND} and {FIRST} in stream {NAME} under account {ACCOUNT} are not an"
                " adjacent pair of shards eligible for merging"
            ),
        ),
    ],
)
@pytest.mark.usefixtures("stream")
def test_wrong_requests_get_the_words_of_aws(
    kinesis: Any, call: str, params: dict[str, Any], message: str
) -> None:
    assert _refused(getattr(kinesis, call), **params)[1] == message


def test_an_empty_name_is_one_violation_beside_others(server: InProcessServer) -> None:
    headers = {
        "host": "localhost",
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "Kinesis_20131202.DescribeStream",
    }
    body = b'{"StreamName": "", "Limit": 0}'
    answer = server.answer(HttpRequest("POST", "/", "", headers, body))
    told = json.loads(answer.body)["message"]
    assert told.startswith("3 validation errors detected: "), told


@pytest.mark.usefixtures("stream")
def test_an_iterator_is_of_the_stream_that_is_named_with_it(kinesis: Any) -> None:
    named = {"ShardIterator": _iterator(kinesis, FIRST)}
    assert kinesis.get_records(**named, StreamARN=ARN)["Records"] == []
    code, _ = _refused(kinesis.get_records, **named, StreamARN=f"{ARN}2")
    assert code == "InvalidArgumentException"


def test_the_only_encryption_that_is_started_or_stopped_is_kms(kinesis: Any, stream: str) -> None:
    def kind() -> str:
        described = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        return str(described["EncryptionType"])

    none = {"StreamName": stream, "EncryptionType": "NONE", "KeyId": "alias/a"}
    refusal = ("InvalidArgumentException", "EncryptionType must be KMS.")
    assert _refused(kinesis.start_stream_encryption, **none) == refusal
    assert kind() == "NONE"
    kinesis.start_stream_encryption(**{**none, "EncryptionType": "KMS"})
    assert _refused(kinesis.stop_stream_encryption, **none) == refusal
    assert kind() == "KMS"
    kinesis.stop_stream_encryption(**{**none, "EncryptionType": "KMS"})
    assert kind() == "NONE"
    nowhere = _refused(kinesis.start_stream_encryption, **{**none, "StreamName": "none"})
    assert nowhere[0] == "ResourceNotFoundException"


def test_one_invalid_record_fails_the_whole_call(kinesis: Any, stream: str) -> None:
    records = [
        {"Data": b"x", "PartitionKey": "a"},
        {"Data": b"x" * (1024 * 1024), "PartitionKey": "a"},
    ]
    code, message = _refused(kinesis.put_records, StreamName=stream, Records=records)
    assert code == "ValidationException"
    assert "'records.2.member.data' failed to satisfy constraint" in message
    assert _all_texts(kinesis) == set()

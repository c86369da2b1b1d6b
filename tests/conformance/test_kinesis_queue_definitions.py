"""Queues of the Kinesis API as such, by boto3: made, described, changed, listed, deleted."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from data_plane.ports import Key
from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.kinesis_queue import (
    STREAM,
    STREAM_ARN,
    KinesisQueue,
    put,
    without_waiting,
)

LATEST = {"Type": "LATEST"}
ELSEWHERE = STREAM_ARN.replace(ACCOUNT, "9" * 12)
NONE = {"TargetType": "NONE"}


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = without_waiting(server).kinesis()
    client.create_stream(StreamName=STREAM)
    return client


@pytest.fixture
def queue(server: InProcessServer, kinesis: Any) -> KinesisQueue:
    assert kinesis
    return KinesisQueue(server)


def refused(kinesis: Any, **wanted: Any) -> tuple[str, str, int]:
    given = {"QueueName": "q", "StreamConfigurationList": [{"StreamARN": STREAM_ARN}], **wanted}
    return error(kinesis.create_queue, **given)


def test_a_queue_is_described_as_it_was_made(server: InProcessServer, kinesis: Any) -> None:
    made = kinesis.create_queue(
        QueueName="work.1", StreamConfigurationList=[{"StreamARN": STREAM_ARN}]
    )["QueueDescription"]
    arn = made["QueueARN"]
    before, _, queue_id = arn.rpartition("/")
    assert before == f"arn:aws:kinesis:{REGION}:{ACCOUNT}:queue"
    assert len(queue_id) == 26
    assert queue_id.isalnum()
    assert queue_id == queue_id.lower()
    assert made["QueueStatus"] == "CREATING"
    assert made["StreamConfigurationList"] == [
        {"StreamARN": STREAM_ARN, "StartingPosition": LATEST}
    ]
    described = kinesis.describe_queue(QueueARN=arn)["QueueDescription"]
    position = described["StreamConfigurationList"][0]["StartingPosition"]
    assert position == {"Type": "LATEST", "Timestamp": made["QueueCreationTimestamp"]}
    assert described["QueueName"] == "work.1"
    assert described["QueueStatus"] == "ACTIVE"
    assert described["QueueAttributes"] == {
        "VisibilityTimeoutSeconds": 30,
        "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
    }
    now = datetime.fromtimestamp(server.clock.now_us() / 1e6, UTC)
    assert abs(described["QueueCreationTimestamp"] - now) < timedelta(seconds=5)


def test_what_is_not_given_stays(server: InProcessServer, kinesis: Any) -> None:
    assert kinesis
    attributes = {"VisibilityTimeoutSeconds": 7, "DeadLetterConfiguration": NONE}
    queue = KinesisQueue(server, QueueAttributes=attributes)
    assert queue.described()["QueueAttributes"] == attributes
    dead = {"TargetType": "BUILT_IN", "MaxReceiveCount": 9}
    changed = queue.kinesis.update_queue(
        QueueARN=queue.arn, QueueAttributes={"DeadLetterConfiguration": dead}
    )["QueueDescription"]
    assert changed["QueueStatus"] == "UPDATING"
    expected = {"VisibilityTimeoutSeconds": 7, "DeadLetterConfiguration": dead}
    assert changed["QueueAttributes"] == expected
    queue.kinesis.update_queue(QueueARN=queue.arn, QueueAttributes={"VisibilityTimeoutSeconds": 0})
    assert queue.described()["QueueAttributes"] == {**expected, "VisibilityTimeoutSeconds": 0}
    assert queue.described()["QueueStatus"] == "ACTIVE"
    none = {**NONE, "MaxReceiveCount": 5}
    queue.kinesis.update_queue(
        QueueARN=queue.arn, QueueAttributes={"DeadLetterConfiguration": none}
    )
    assert queue.described()["QueueAttributes"]["DeadLetterConfiguration"] == NONE


def test_a_name_is_taken_until_its_queue_is_deleted(
    server: InProcessServer, queue: KinesisQueue, kinesis: Any
) -> None:
    code, text, _ = refused(kinesis, QueueName="work")
    assert code == "ResourceInUseException"
    assert text == f"Queue work under account {ACCOUNT} already exists."
    assert [one["QueueARN"] for one in kinesis.list_queues()["QueueSummaries"]] == [queue.arn]
    kinesis.delete_queue(QueueARN=queue.arn)
    gone = error(kinesis.describe_queue, QueueARN=queue.arn)
    queue_id = queue.arn.rpartition("/")[2]
    text = f"Queue {queue_id} under account {ACCOUNT} not found."
    assert gone == ("ResourceNotFoundException", text, 400)
    assert error(kinesis.delete_queue, QueueARN=queue.arn) == gone
    assert kinesis.list_queues()["QueueSummaries"] == []
    again = KinesisQueue(server)
    assert again.arn != queue.arn
    assert error(kinesis.describe_queue, QueueARN=queue.arn) == gone
    server.run(server.service.sweep.step())
    server.clock.advance(3_600)
    server.run(server.service.sweep.step())
    assert again.described()["QueueName"] == "work"


def test_names_are_apart_from_those_of_sqs(server: InProcessServer, queue: KinesisQueue) -> None:
    sqs = server.client("json")
    assert "QueueUrls" not in sqs.list_queues()
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    assert sqs.list_queues()["QueueUrls"] == [url]
    for name in ("!work", "!"):
        code, *_ = error(sqs.get_queue_url, QueueName=name)
        assert code in {"AWS.SimpleQueueService.NonExistentQueue", "InvalidParameterValue"}
        assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)
    summaries = queue.kinesis.list_queues()["QueueSummaries"]
    assert [one["QueueName"] for one in summaries] == ["work"]


def test_queues_are_listed_page_by_page(server: InProcessServer, kinesis: Any) -> None:
    other = "purchases"
    kinesis.create_stream(StreamName=other)
    other_arn = STREAM_ARN.replace(STREAM, other)
    for number in range(5):
        KinesisQueue(server, f"q{number}")
        kinesis.create_queue(
            QueueName=f"r{number}", StreamConfigurationList=[{"StreamARN": other_arn}]
        )
    pages = []
    asked: dict[str, Any] = {"MaxResults": 2, "StreamFilter": [{"StreamARN": other_arn}]}
    while True:
        page = kinesis.list_queues(**asked)
        pages.append([one["QueueName"] for one in page["QueueSummaries"]])
        if "NextToken" not in page:
            break
        asked = {"MaxResults": 2, "NextToken": page["NextToken"]}
    assert pages == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    every = kinesis.list_queues()["QueueSummaries"]
    assert [one["QueueName"] for one in every] == [f"{a}{n}" for a in "qr" for n in range(5)]
    assert every[0]["Streams"][0]["StreamARN"] == STREAM_ARN
    made = every[0]["Streams"][0]["StreamCreationTimestamp"]
    for moment, count in ((made, 5), (made - timedelta(days=1), 0)):
        found = kinesis.list_queues(
            StreamFilter=[{"StreamARN": STREAM_ARN, "StreamCreationTimestamp": moment}]
        )
        assert len(found["QueueSummaries"]) == count
    server.clock.advance(301)
    expired = error(kinesis.list_queues, **asked)
    assert expired[0] == "ExpiredNextTokenException"
    assert error(kinesis.list_queues, NextToken="x")[:2] == (
        "InvalidArgumentException",
        "Invalid NextToken.",
    )


def test_a_token_continues_no_other_list(kinesis: Any) -> None:
    kinesis.create_stream(StreamName="another")
    for name in ("first", "second"):
        kinesis.create_queue(QueueName=name, StreamConfigurationList=[{"StreamARN": STREAM_ARN}])
    tokens = {
        "streams": kinesis.list_streams(Limit=1)["NextToken"],
        "shards": kinesis.list_shards(StreamName=STREAM, MaxResults=1)["NextToken"],
        "queues": kinesis.list_queues(MaxResults=1)["NextToken"],
    }
    lists = {
        "streams": kinesis.list_streams,
        "shards": kinesis.list_shards,
        "queues": kinesis.list_queues,
    }
    for listed, call in lists.items():
        for other, token in tokens.items():
            if other == listed:
                assert call(NextToken=token)
            else:
                assert error(call, NextToken=token)[:2] == (
                    "InvalidArgumentException",
                    "Invalid NextToken.",
                )


def test_a_queue_begins_where_it_is_told(server: InProcessServer, kinesis: Any) -> None:
    put(kinesis, "a")
    server.clock.advance(10)
    since = datetime.fromtimestamp(server.clock.now_us() // 1_000_000, UTC)
    server.clock.advance(10)
    put(kinesis, "b")
    server.clock.advance(5)
    queues = {
        "all": KinesisQueue(server, "all"),
        "since": KinesisQueue(
            server, "since", position={"Type": "AT_TIMESTAMP", "Timestamp": since}
        ),
        "new": KinesisQueue(server, "new", position=None),
    }
    put(kinesis, "c")
    found = {name: queue.drained() for name, queue in queues.items()}
    assert found == {"all": ["a", "b", "c"], "since": ["b", "c"], "new": ["c"]}
    position = queues["since"].described()["StreamConfigurationList"][0]["StartingPosition"]
    assert position == {"Type": "AT_TIMESTAMP", "Timestamp": since}
    assert queues["since"].made["StreamConfigurationList"][0]["StartingPosition"] == position
    old = KinesisQueue(
        server, "old", position={"Type": "AT_TIMESTAMP", "Timestamp": since - timedelta(days=9)}
    )
    begins = old.described()["StreamConfigurationList"][0]["StartingPosition"]["Timestamp"]
    summary = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    assert begins == summary["StreamCreationTimestamp"], "the stream has nothing older"


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (
            {"StreamConfigurationList": [{"StreamARN": STREAM_ARN}] * 2},
            "ValidationException",
            "StreamConfigurationList must have exactly one entry.",
        ),
        (
            {
                "StreamConfigurationList": [
                    {"StreamARN": STREAM_ARN, "StartingPosition": {"Type": "AT_TIMESTAMP"}}
                ]
            },
            "ValidationException",
            "StartingPosition has a Timestamp if, and only if, Type is AT_TIMESTAMP.",
        ),
        (
            {
                "StreamConfigurationList": [
                    {"StreamARN": STREAM_ARN, "StartingPosition": {**LATEST, "Timestamp": 1}}
                ]
            },
            "ValidationException",
            "StartingPosition has a Timestamp if, and only if, Type is AT_TIMESTAMP.",
        ),
        (
            {
                "StreamConfigurationList": [
                    {
                        "StreamARN": STREAM_ARN,
                        "StartingPosition": {"Type": "AT_TIMESTAMP", "Timestamp": 9_999_999_999},
                    }
                ]
            },
            "ValidationException",
            "The Timestamp of StartingPosition is in the future.",
        ),
        (
            {"QueueAttributes": {"DeadLetterConfiguration": {"TargetType": "BUILT_IN"}}},
            "ValidationException",
            "MaxReceiveCount is required when TargetType is BUILT_IN.",
        ),
        (
            {"StreamConfigurationList": [{"StreamARN": STREAM_ARN + "2"}]},
            "ResourceNotFoundException",
            f"Stream {STREAM}2 under account {ACCOUNT} not found.",
        ),
        (
            {"StreamConfigurationList": [{"StreamARN": ELSEWHERE}]},
            "InvalidArgumentException",
            f"StreamARN {ELSEWHERE} is not of the queue's account and region.",
        ),
        (
            {"Tags": {f"k{number}": "v" for number in range(51)}},
            "InvalidArgumentException",
            "A queue cannot have more than 50 tags.",
        ),
        (
            {"Tags": {"aws:team": "v"}},
            "InvalidArgumentException",
            "Tag keys cannot start with the reserved prefix aws:.",
        ),
    ],
)
def test_what_no_queue_can_be_is_refused(
    kinesis: Any, wanted: dict[str, Any], code: str, text: str
) -> None:
    assert refused(kinesis, **wanted) == (code, text, 400)
    assert kinesis.list_queues()["QueueSummaries"] == []


def test_values_keep_their_bounds(kinesis: Any, queue: KinesisQueue) -> None:
    code, text, _ = refused(
        kinesis,
        QueueName="no name",
        QueueAttributes={
            "VisibilityTimeoutSeconds": 43_201,
            "DeadLetterConfiguration": {"TargetType": "SOME", "MaxReceiveCount": 1_001},
        },
    )
    assert code == "ValidationException"
    for part in (
        "4 validation errors detected: ",
        "'no name' at 'queueName' failed to satisfy constraint: Member must satisfy regular",
        "'43201' at 'queueAttributes.visibilityTimeoutSeconds'",
        "Member must satisfy enum value set: [BUILT_IN, NONE]",
        "'1001' at 'queueAttributes.deadLetterConfiguration.maxReceiveCount'",
    ):
        assert part in text
    for options, where in (
        ({"Limit": 11}, "limit"),
        ({"WaitTimeSeconds": 21}, "waitTimeSeconds"),
        ({"VisibilityTimeoutSeconds": 43_201}, "visibilityTimeoutSeconds"),
    ):
        code, text, _ = error(kinesis.receive_queue_records, QueueARN=queue.arn, **options)
        assert code == "ValidationException"
        assert f"at '{where}' failed" in text
    for arn in ("queue", queue.arn.replace(":queue/", ":stream/")):
        code, text, _ = error(kinesis.describe_queue, QueueARN=arn)
        assert code in {"ValidationException", "ResourceNotFoundException"}


def test_a_stream_with_queues_stays_as_it_is(queue: KinesisQueue, kinesis: Any) -> None:
    summary = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    assert (summary["QueueCount"], summary["ConsumerCount"]) == (1, 0)
    code, text, _ = error(kinesis.delete_stream, StreamName=STREAM, EnforceConsumerDeletion=True)
    assert code == "ResourceInUseException"
    assert text == f"Stream {STREAM} under account {ACCOUNT} has queues. Delete them first."
    code, text, _ = error(
        kinesis.update_stream_mode,
        StreamARN=STREAM_ARN,
        StreamModeDetails={"StreamMode": "PROVISIONED"},
    )
    assert code == "ResourceInUseException"
    kinesis.delete_queue(QueueARN=queue.arn)
    kinesis.update_stream_mode(
        StreamARN=STREAM_ARN, StreamModeDetails={"StreamMode": "PROVISIONED"}
    )
    text = f"Request is invalid. Stream {STREAM} under account {ACCOUNT} is not in On-Demand mode."
    assert refused(kinesis) == ("ValidationException", text, 400)
    kinesis.delete_stream(StreamName=STREAM)


def test_a_stream_is_read_by_twenty_queues(server: InProcessServer, kinesis: Any) -> None:
    made = [KinesisQueue(server, f"q{number}") for number in range(20)]
    code, text, _ = refused(kinesis, QueueName="one-more")
    assert code == "LimitExceededException"
    assert text == (
        f"Stream {STREAM} under account {ACCOUNT} is read by 20 queues, and no more may."
    )
    assert refused(kinesis, QueueName="q1")[0] == "ResourceInUseException"
    kinesis.delete_queue(QueueARN=made[0].arn)
    KinesisQueue(server, "one-more")


def test_queues_have_tags(server: InProcessServer, kinesis: Any) -> None:
    queue = KinesisQueue(server, Tags={"team": "tide"})
    arn = queue.arn
    kinesis.tag_resource(ResourceARN=arn, Tags={"a": "1", "b": "2"})
    kinesis.untag_resource(ResourceARN=arn, TagKeys=["b"])
    tags = kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert tags == [{"Key": "a", "Value": "1"}, {"Key": "team", "Value": "tide"}]
    many = {f"k{number}": "v" for number in range(49)}
    code, text, _ = error(kinesis.tag_resource, ResourceARN=arn, Tags=many)
    assert (code, text) == ("InvalidArgumentException", "A queue cannot have more than 50 tags.")
    assert kinesis.list_tags_for_resource(ResourceARN=STREAM_ARN)["Tags"] == []
    kinesis.delete_queue(QueueARN=arn)
    for call, more in (
        (kinesis.tag_resource, {"Tags": {"a": "1"}}),
        (kinesis.untag_resource, {"TagKeys": ["a"]}),
        (kinesis.list_tags_for_resource, {}),
        (kinesis.get_resource_policy, {}),
    ):
        assert error(call, ResourceARN=arn, **more)[0] == "ResourceNotFoundException"


def test_queues_have_policies(queue: KinesisQueue, kinesis: Any) -> None:
    arn = queue.arn
    assert kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"
    policy = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": "444455556666"},
                    "Action": "kinesis:ReceiveQueueRecords",
                    "Resource": arn,
                }
            ],
        }
    )
    kinesis.put_resource_policy(ResourceARN=arn, Policy=policy)
    assert kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == policy
    assert error(kinesis.put_resource_policy, ResourceARN=arn, Policy="{")[0] == (
        "InvalidArgumentException"
    )
    kinesis.delete_resource_policy(ResourceARN=arn)
    assert kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"
    code, text, _ = error(kinesis.delete_resource_policy, ResourceARN=arn)
    assert (code, text) == (
        "ResourceNotFoundException",
        f"No resource policy found for {arn}.",
    )


def test_what_a_crash_leaves_leads_nowhere(server: InProcessServer, kinesis: Any) -> None:
    """What leads to a queue is put before it, so it may be there alone."""
    stream = server.run(server.service.streams.registry.read(ACCOUNT, REGION, STREAM))
    assert stream is not None
    queue_id = "a" * 26
    for of_stream in ("", stream.uid):
        key = Key(f"D|{ACCOUNT}|{REGION}|!{of_stream}", queue_id.encode())
        server.run(server.ground.control.put(key, {"v": 1, "n": "!work"}))
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:queue/{queue_id}"
    for _ in range(2):
        assert error(kinesis.describe_queue, QueueARN=arn)[0] == "ResourceNotFoundException"
        summary = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        queue = KinesisQueue(server)
        assert summary["QueueCount"] == 0
        assert queue.arn != arn
        kinesis.delete_queue(QueueARN=queue.arn)
    kinesis.delete_stream(StreamName=STREAM)

"""Queues that read a stream, by boto3: what SQS clients see of records."""

import base64
import json
import os
from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.stream_queue import ARN, STREAM, StreamQueue, put, put_in_order

NUMBERS = [f"a{number}" for number in range(1, 301)]


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    client = server.kinesis()
    client.create_stream(StreamName=STREAM, ShardCount=2)
    return client


@pytest.fixture(params=["work.fifo", "work"])
def queue(request: pytest.FixtureRequest, server: InProcessServer, kinesis: Any) -> StreamQueue:
    assert kinesis
    return StreamQueue(server, request.param)


@pytest.fixture
def fifo(server: InProcessServer, kinesis: Any) -> StreamQueue:
    assert kinesis
    return StreamQueue(server)


# What is received


def test_each_record_is_received_once_and_is_gone_when_deleted(
    queue: StreamQueue, kinesis: Any
) -> None:
    put(kinesis, *NUMBERS[:150], *(f"b{n}" for n in range(150)))
    assert sorted(queue.drained()) == sorted(NUMBERS[:150] + [f"b{n}" for n in range(150)])
    assert queue.receive() == []
    put(kinesis, "c1")
    assert queue.drained() == ["c1"]


def test_a_message_says_which_record_it_is(queue: StreamQueue, kinesis: Any) -> None:
    answer = kinesis.put_record(StreamName=STREAM, Data=b"hello", PartitionKey="ann")
    (message,) = queue.receive()
    assert message["Body"] == "hello"
    assert "MessageAttributes" not in message
    attributes = message["Attributes"]
    assert attributes["MessageGroupId"] == "ann"
    assert attributes["SequenceNumber"] == answer["SequenceNumber"]
    assert attributes["MessageDeduplicationId"] == answer["SequenceNumber"]
    assert attributes["SenderId"] == ACCOUNT
    assert attributes["ApproximateReceiveCount"] == "1"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x00", "\ufffe".encode()], ids=repr)
def test_what_is_no_text_comes_in_base64(queue: StreamQueue, kinesis: Any, data: bytes) -> None:
    kinesis.put_record(StreamName=STREAM, Data=data, PartitionKey="a")
    (message,) = queue.receive()
    assert base64.b64decode(message["Body"]) == data
    encoding = message["MessageAttributes"]["TidegateEncoding"]
    assert (encoding["DataType"], encoding["StringValue"]) == ("String", "base64")


def test_a_record_of_many_kinds_of_characters_is_a_text(queue: StreamQueue, kinesis: Any) -> None:
    text = "tide \u00e9\u4e2d\U0001f30a\n\t<&>"
    kinesis.put_record(StreamName=STREAM, Data=text.encode(), PartitionKey="a")
    (message,) = queue.receive()
    assert message["Body"] == text


def test_big_records_come_whole(queue: StreamQueue, kinesis: Any) -> None:
    data = [os.urandom(400_000).hex() for _ in range(3)]
    for text in data:
        kinesis.put_record(StreamName=STREAM, Data=text.encode(), PartitionKey="a")
    assert sorted(queue.drained()) == sorted(data)


def test_several_queues_read_a_stream_each_by_itself(
    server: InProcessServer, kinesis: Any, fifo: StreamQueue
) -> None:
    other = StreamQueue(server, "other")
    put(kinesis, *NUMBERS[:30])
    assert fifo.drained() == NUMBERS[:30]
    assert sorted(other.drained()) == sorted(NUMBERS[:30])


# Order


def test_records_of_a_key_are_in_order_and_wait_for_each_other(
    fifo: StreamQueue, kinesis: Any
) -> None:
    put_in_order(kinesis, "a1", "a2", "b1", "a3")
    first = fifo.receive(1)
    second = fifo.receive()
    assert [message["Body"] for message in (*first, *second)] in (
        ["a1", "b1"],
        ["b1", "a1", "a2", "a3"],
    )
    if first[0]["Body"] == "a1":
        fifo.delete(*first)
        assert fifo.bodies() == ["a2", "a3"]


def test_order_holds_over_calls_of_many_records(fifo: StreamQueue, kinesis: Any) -> None:
    put(kinesis, *NUMBERS[:100])
    put(kinesis, *NUMBERS[100:])
    assert fifo.drained() == NUMBERS


def test_a_standard_queue_gives_out_a_key_to_many(server: InProcessServer, kinesis: Any) -> None:
    queue = StreamQueue(server, "work")
    put(kinesis, *NUMBERS[:40])
    found = [body for _ in range(4) for body in queue.bodies()]
    assert sorted(found) == sorted(NUMBERS[:40])


def test_parents_come_before_children(fifo: StreamQueue, kinesis: Any) -> None:
    put_in_order(kinesis, "a1", "b1", "c1", "d1")
    for _ in range(2):
        for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]:
            if "EndingSequenceNumber" in shard["SequenceNumberRange"]:
                continue
            keys = shard["HashKeyRange"]
            middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
            kinesis.split_shard(
                StreamName=STREAM, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle)
            )
        put_in_order(kinesis, "a2", "b2", "c2", "d2")
    kinesis.update_shard_count(StreamName=STREAM, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    put_in_order(kinesis, "a3", "b3", "c3", "d3")
    # All that is in flight of a key lies in its parents: its later records wait.
    held = fifo.receive()
    assert sorted(message["Body"] for message in held) == ["a1", "b1", "c1", "d1"]
    assert fifo.receive() == []
    fifo.delete(*held)
    found = fifo.drained()
    for key in "abcd":
        assert [body for body in found if body[0] == key] == [f"{key}2", f"{key}2", f"{key}3"]


def test_two_front_ends_share_a_queue(server: InProcessServer, kinesis: Any) -> None:
    here = StreamQueue(server)
    there = here.through(server.another())
    put(kinesis, *NUMBERS[:100], *(f"b{n}" for n in range(1, 101)))
    found: list[str] = []
    for turn in range(100):
        consumer = (here, there)[turn % 2]
        messages = consumer.receive()
        found += [message["Body"] for message in messages]
        if messages:
            consumer.delete(*messages)
    assert [body for body in found if body[0] == "a"] == NUMBERS[:100]
    assert [body for body in found if body[0] == "b"] == [f"b{n}" for n in range(1, 101)]


# Visibility, dead letters


def test_what_is_not_deleted_comes_again(
    queue: StreamQueue, kinesis: Any, server: InProcessServer
) -> None:
    put(kinesis, "a1", "a2")
    assert len(queue.receive(VisibilityTimeout=30)) == 2
    assert queue.receive() == []
    server.clock.advance(31)
    again = queue.receive(VisibilityTimeout=30)
    assert [one["Attributes"]["ApproximateReceiveCount"] for one in again] == ["2", "2"]
    first = again[0]
    queue.sqs.change_message_visibility(
        QueueUrl=queue.url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    assert queue.bodies() == [first["Body"]]


def test_a_front_end_that_begins_anew_knows_what_is_deleted(
    queue: StreamQueue, kinesis: Any, server: InProcessServer
) -> None:
    put(kinesis, *NUMBERS[:100])
    done: set[str] = set()
    for _ in range(3):
        messages = queue.receive()
        queue.delete(*messages)
        done.update(message["Body"] for message in messages)
    queue.receive()
    fresh = queue.through(server.another())
    server.clock.advance(31)
    assert sorted(fresh.drained()) == sorted(set(NUMBERS[:100]) - done)


@pytest.mark.parametrize("suffix", [".fifo", ""])
def test_what_is_received_too_often_becomes_a_dead_letter(
    server: InProcessServer, kinesis: Any, suffix: str
) -> None:
    sqs = server.client("json")
    kind = {"FifoQueue": "true"} if suffix else {}
    url = sqs.create_queue(QueueName=f"dead{suffix}", Attributes=kind)["QueueUrl"]
    names = ["QueueArn"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]["QueueArn"]
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
    queue = StreamQueue(server, f"work{suffix}", RedrivePolicy=policy)
    put(kinesis, "a1", "a2")
    (poison,) = queue.receive(1)
    queue.sqs.change_message_visibility(
        QueueUrl=queue.url, ReceiptHandle=poison["ReceiptHandle"], VisibilityTimeout=0
    )
    left = queue.bodies()
    assert sorted([poison["Body"], *left]) == ["a1", "a2"]
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["All"])
    (dead,) = answer["Messages"]
    assert dead["Body"] == poison["Body"]
    assert dead["MessageId"] == poison["MessageId"]
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == (
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:work{suffix}"
    )
    # It cannot go back: the queue takes nothing.
    source = dead["Attributes"]["DeadLetterQueueSourceArn"]
    refused = error(sqs.start_message_move_task, SourceArn=arn, DestinationArn=source)
    text = "The destination queue reads a stream, and takes no messages."
    assert refused == ("InvalidParameterValue", text, 400)
    server.clock.advance(31)
    sqs.start_message_move_task(SourceArn=arn)
    server.run(server.move_runner.step())
    (task,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.UnsupportedOperation"


def test_a_repeated_receive_attempt_gets_the_same(fifo: StreamQueue, kinesis: Any) -> None:
    put(kinesis, *NUMBERS[:80])
    fifo.delete(*fifo.receive())
    first = fifo.receive(ReceiveRequestAttemptId="once")
    again = fifo.receive(ReceiveRequestAttemptId="once")
    assert [message["Body"] for message in again] == [message["Body"] for message in first]
    assert [message["ReceiptHandle"] for message in again] == [
        message["ReceiptHandle"] for message in first
    ]


# Counts, browsing, purges, retention


def test_counts_are_those_of_the_stream_without_what_is_deleted(
    queue: StreamQueue, kinesis: Any, server: InProcessServer
) -> None:
    assert queue.counts() == (0, 0)
    put(kinesis, *NUMBERS[:20])
    assert queue.counts() == (20, 0)
    server.clock.advance(1)
    held = queue.receive()
    assert queue.counts() == (10, 10)
    queue.delete(*held)
    assert queue.counts() == (10, 0)
    put(kinesis, "b1")
    assert queue.counts() == (11, 0)


def test_it_can_be_browsed(server: InProcessServer, kinesis: Any, queue: StreamQueue) -> None:
    put(kinesis, *NUMBERS[:200])
    held = queue.receive()
    queue.delete(*held[:5])
    extended = server.client("json", extended=True)
    pages = extended.get_paginator("tidegate_browse_messages").paginate(
        QueueUrl=queue.url, PaginationConfig={"PageSize": 7}
    )
    shown = [message for page in pages for message in page.get("Messages", ())]
    states = {message["Body"]: message["State"] for message in shown}
    assert len(states) == len(shown), "a message was shown twice"
    done = {message["Body"] for message in held[:5]}
    assert set(states) == set(NUMBERS[:200]) - done
    assert {body for body, state in states.items() if state != "visible"} == {
        message["Body"] for message in held[5:]
    }


def test_a_purge_concerns_the_queue_alone(
    server: InProcessServer, kinesis: Any, queue: StreamQueue
) -> None:
    other = StreamQueue(server, "other")
    put(kinesis, *NUMBERS[:10])
    assert queue.receive(1)
    server.clock.advance(1)
    queue.sqs.purge_queue(QueueUrl=queue.url)
    server.clock.advance(60)
    assert queue.receive() == []
    assert queue.counts() == (0, 0)
    put(kinesis, "b1")
    assert queue.bodies() == ["b1"]
    assert sorted(other.drained()) == [*sorted(NUMBERS[:10]), "b1"]


def test_what_the_stream_forgets_is_no_message(
    server: InProcessServer, kinesis: Any, queue: StreamQueue
) -> None:
    put(kinesis, "a1", "b1")
    server.clock.advance(23 * 3_600)
    put(kinesis, "a2")
    server.clock.advance(2 * 3_600)
    assert queue.counts() == (1, 0)
    assert queue.drained() == ["a2"]
    assert queue.attributes("MessageRetentionPeriod") == {"MessageRetentionPeriod": "86400"}


def test_a_queue_of_a_deleted_stream_is_empty(
    server: InProcessServer, kinesis: Any, queue: StreamQueue
) -> None:
    put(kinesis, "a1", "b1")
    held = queue.receive(1)
    kinesis.delete_stream(StreamName=STREAM)
    server.clock.advance(6)
    assert queue.receive() == []
    assert queue.counts() == (0, 0)
    queue.delete(*held)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    put(kinesis, "a2")
    server.clock.advance(6)
    assert queue.receive() == []
    assert queue.attributes("TidegateStreamArn") == {"TidegateStreamArn": ARN}
    queue.sqs.delete_queue(QueueUrl=queue.url)


# Where it begins


def test_it_begins_behind_what_is_there_unless_told_otherwise(
    server: InProcessServer, kinesis: Any
) -> None:
    put(kinesis, "a1", "b1")
    server.clock.advance(5)
    queue = StreamQueue(server, TidegateStartingPosition=None)
    assert queue.attributes("TidegateStartingPosition") == {"TidegateStartingPosition": "LATEST"}
    put(kinesis, "a2")
    assert queue.drained() == ["a2"]
    assert queue.counts() == (0, 0)


def test_it_begins_at_a_time(server: InProcessServer, kinesis: Any) -> None:
    put(kinesis, "a1")
    server.clock.advance(10)
    since_s = server.clock.now_us() // 1_000_000
    server.clock.advance(10)
    put(kinesis, "a2", "b2")
    queue = StreamQueue(
        server,
        TidegateStartingPosition="AT_TIMESTAMP",
        TidegateStartingTimestamp=str(since_s),
    )
    assert queue.counts() == (2, 0)
    assert sorted(queue.drained()) == ["a2", "b2"]


def test_a_queue_that_begins_can_be_purged_at_once(server: InProcessServer, kinesis: Any) -> None:
    queue = StreamQueue(server, TidegateStartingPosition="LATEST")
    put(kinesis, "a1")
    server.clock.advance(2)
    queue.sqs.purge_queue(QueueUrl=queue.url)
    assert queue.receive() == []
    assert error(queue.sqs.purge_queue, QueueUrl=queue.url)[0].endswith("PurgeQueueInProgress")


# What is refused


def test_sends_are_refused(queue: StreamQueue) -> None:
    code = "AWS.SimpleQueueService.UnsupportedOperation"
    text = f"The queue reads the stream {ARN}: put records into that."
    more = {"MessageGroupId": "a", "MessageDeduplicationId": "a"}
    more = more if queue.url.endswith(".fifo") else {}
    refused = error(queue.sqs.send_message, QueueUrl=queue.url, MessageBody="a", **more)
    assert refused == (code, text, 400)
    entries = [{"Id": "1", "MessageBody": "a", **more}]
    refused = error(queue.sqs.send_message_batch, QueueUrl=queue.url, Entries=entries)
    assert refused == (code, text, 400)


@pytest.mark.parametrize(
    ("arn", "reason"),
    [
        ("clicks", "It is not the ARN of a stream."),
        (ARN.replace(STREAM, "other"), "The stream does not exist."),
        (
            ARN.replace(REGION, "eu-west-9"),
            "The stream must be of the same account and region as the queue.",
        ),
        (
            ARN.replace(ACCOUNT, "999999999999"),
            "The stream must be of the same account and region as the queue.",
        ),
    ],
)
def test_other_streams_are_refused(
    server: InProcessServer, kinesis: Any, arn: str, reason: str
) -> None:
    assert kinesis
    refused = error(
        server.client("json").create_queue,
        QueueName="work",
        Attributes={"TidegateStreamArn": arn},
    )
    text = f"Value {arn} for parameter TidegateStreamArn is invalid. Reason: {reason}"
    assert refused == ("InvalidParameterValue", text, 400)


@pytest.mark.parametrize(
    "attributes",
    [
        {"TidegateStartingPosition": "LATEST"},
        {"TidegateStartingTimestamp": "1"},
        {"TidegateStreamArn": ARN, "TidegateStartingTimestamp": "1"},
        {"TidegateStreamArn": ARN, "TidegateStartingPosition": "AT_TIMESTAMP"},
        {"TidegateStreamArn": ARN, "MessageRetentionPeriod": "60"},
        {"TidegateStreamArn": ARN, "KmsMasterKeyId": "alias/one"},
        {"TidegateStreamArn": ARN, "TidegateReplicationFactor": "1"},
    ],
    ids=str,
)
def test_attributes_that_do_not_go_together_are_refused(
    server: InProcessServer, kinesis: Any, attributes: dict[str, str]
) -> None:
    assert kinesis
    create = server.client("json").create_queue
    assert error(create, QueueName="work", Attributes=attributes)[0] == "InvalidAttributeName"


def test_what_it_reads_cannot_be_changed(queue: StreamQueue) -> None:
    assert queue.attributes(
        "TidegateStreamArn", "TidegateStartingPosition", "TidegateStartingTimestamp"
    ) == {"TidegateStreamArn": ARN, "TidegateStartingPosition": "TRIM_HORIZON"}
    for name, value in (
        ("TidegateStreamArn", ARN + "2"),
        ("TidegateStartingPosition", "LATEST"),
        ("TidegateStartingTimestamp", "1"),
    ):
        refused = error(
            queue.sqs.set_queue_attributes, QueueUrl=queue.url, Attributes={name: value}
        )
        assert refused == (
            "InvalidAttributeValue",
            f"Invalid value for the parameter {name}. Reason: It is fixed when a queue is created.",
            400,
        )
    change = {"MessageRetentionPeriod": "60"}
    refused = error(queue.sqs.set_queue_attributes, QueueUrl=queue.url, Attributes=change)
    assert refused[0] == "InvalidAttributeName"
    settings = {"VisibilityTimeout": "1", "TidegateStreamArn": ARN}
    queue.sqs.set_queue_attributes(QueueUrl=queue.url, Attributes=settings)
    assert queue.attributes("VisibilityTimeout") == {"VisibilityTimeout": "1"}


def test_it_takes_no_dead_letters(server: InProcessServer, queue: StreamQueue) -> None:
    name = queue.url.rpartition("/")[2]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    kind = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    refused = error(
        server.client("json").create_queue,
        QueueName=f"own-{name}",
        Attributes={"RedrivePolicy": policy, **kind},
    )
    assert refused[0] == "InvalidParameterValue"
    assert refused[1].endswith("Reason: Dead letter target reads a stream.")

"""The message operations through unmodified boto3 (JSON) and botocore on the Query protocol."""

import hashlib
import struct
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance.client_calls import nothing, one
from tests.conformance.in_process import ACCOUNT, InProcessServer
from tests.conformance.long_polls import WAIT_S, end_of_poll

ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "grüße & <b>\t\n"},
    "number": {"DataType": "Number", "StringValue": "-12.5e3"},
    "bytes": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
    "text.custom": {"DataType": "String.json", "StringValue": "{}"},
    "number_custom": {"DataType": "Number.int", "StringValue": "7"},
    "bytes-custom": {"DataType": "Binary.png", "BinaryValue": b"\x89PNG"},
}
BODY = "line\nline\r\ntab\t ü 😀 & < > \" ' ]]>"


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: dict[str, Any]) -> str:
    """As the documentation of SQS describes it, written for this test."""
    digest = hashlib.md5(usedforsecurity=False)

    def update(data: bytes) -> None:
        digest.update(struct.pack(">I", len(data)) + data)

    for name in sorted(attributes):
        value = attributes[name]
        update(name.encode())
        update(value["DataType"].encode())
        if value["DataType"].startswith("Binary"):
            digest.update(b"\x02")
            update(value["BinaryValue"])
        else:
            digest.update(b"\x01")
            update(value["StringValue"].encode())
    return digest.hexdigest()


def test_a_message_comes_back_as_it_was_sent(sqs: Any, url: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody=BODY, MessageAttributes=ATTRIBUTES)
    assert sent["MD5OfMessageBody"] == md5(BODY)
    assert sent["MD5OfMessageAttributes"] == md5_of_attributes(ATTRIBUTES)
    received = one(sqs, url, MessageAttributeNames=["All"])
    assert received["MessageId"] == sent["MessageId"]
    assert received["Body"] == BODY
    assert received["MD5OfBody"] == md5(BODY)
    assert received["MessageAttributes"] == ATTRIBUTES
    assert received["MD5OfMessageAttributes"] == md5_of_attributes(ATTRIBUTES)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
    assert nothing(sqs, url)


def test_a_message_without_attributes_has_no_digest_of_them(sqs: Any, url: str) -> None:
    assert "MD5OfMessageAttributes" not in sqs.send_message(QueueUrl=url, MessageBody="x")
    received = one(sqs, url, MessageAttributeNames=["All"])
    assert set(received) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["All"], set(ATTRIBUTES)),
        ([".*"], set(ATTRIBUTES)),
        (["*"], set(ATTRIBUTES)),
        (["text"], {"text"}),
        (["text.*"], {"text", "text.custom"}),
        (["number", "unknown", "bytes"], {"number", "bytes"}),
        (["unknown"], set()),
        ([], set()),
    ],
    ids=lambda value: "-".join(sorted(value)) or "none",
)
def test_attributes_are_returned_as_asked_with_the_digest_of_those(
    sqs: Any, url: str, asked: list[str], expected: set[str]
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=ATTRIBUTES)
    received = one(sqs, url, MessageAttributeNames=asked)
    subset = {name: ATTRIBUTES[name] for name in expected}
    assert received.get("MessageAttributes", {}) == subset
    digest = md5_of_attributes(subset) if subset else None
    assert received.get("MD5OfMessageAttributes") == digest


@pytest.mark.parametrize("option", ["AttributeNames", "MessageSystemAttributeNames"])
def test_system_attributes(sqs: Any, url: str, option: str) -> None:
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes=trace)
    assert sent["MD5OfMessageSystemAttributes"] == md5_of_attributes(trace)
    assert "MD5OfMessageAttributes" not in sent
    first = one(sqs, url, **{option: ["All"]}, VisibilityTimeout=0)["Attributes"]
    assert set(first) == {
        "AWSTraceHeader",
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SenderId",
        "SentTimestamp",
    }
    assert (first["SenderId"], first["AWSTraceHeader"]) == (ACCOUNT, "Root=1-5759e988")
    assert first["ApproximateReceiveCount"] == "1"
    assert int(first["SentTimestamp"]) <= int(first["ApproximateFirstReceiveTimestamp"])
    names = ["ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"]
    second = one(sqs, url, **{option: names})["Attributes"]
    assert second == {
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": first["ApproximateFirstReceiveTimestamp"],
    }


def test_the_header_of_a_trace_becomes_the_attribute(sqs: Any, url: str) -> None:
    trace = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1"

    def add_header(request: Any, **_: object) -> None:
        request.headers["X-Amzn-Trace-Id"] = trace

    for operation in ("SendMessage", "SendMessageBatch"):
        sqs.meta.events.register(f"before-sign.sqs.{operation}", add_header)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    received = one(sqs, url, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert received["Attributes"] == {"AWSTraceHeader": trace}
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "x"}])
    received = one(sqs, url, MessageSystemAttributeNames=["All"])
    assert received["Attributes"]["AWSTraceHeader"] == trace


def test_both_names_of_system_attributes_are_united(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    options = {
        "AttributeNames": ["SenderId"],
        "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
    }
    assert one(sqs, url, **options)["Attributes"] == {
        "SenderId": ACCOUNT,
        "ApproximateReceiveCount": "1",
    }


def test_batches(sqs: Any, url: str) -> None:
    entries = [
        {"Id": f"e{number}", "MessageBody": f"body {number}", "MessageAttributes": ATTRIBUTES}
        for number in range(10)
    ]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert "Failed" not in sent
    assert [entry["Id"] for entry in sent["Successful"]] == [f"e{number}" for number in range(10)]
    for number, entry in enumerate(sent["Successful"]):
        assert entry["MD5OfMessageBody"] == md5(f"body {number}")
        assert entry["MD5OfMessageAttributes"] == md5_of_attributes(ATTRIBUTES)
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert {m["MessageId"] for m in received} == {m["MessageId"] for m in sent["Successful"]}

    handles = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
        for number, message in enumerate(received)
    ]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=handles)
    assert "Failed" not in changed
    assert len(changed["Successful"]) == 10
    again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert len(again) == 10

    doomed = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(again[:9])
    ]
    garbage = {"Id": "bad", "ReceiptHandle": "garbage"}
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=[*doomed, garbage])
    assert len(deleted["Successful"]) == 9
    assert [(f["Id"], f["Code"], f["SenderFault"]) for f in deleted["Failed"]] == [
        ("bad", "ReceiptHandleIsInvalid", True)
    ]


def test_one_wrong_entry_does_not_harm_the_others(sqs: Any, url: str) -> None:
    entries = [
        {"Id": "good", "MessageBody": "x"},
        {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901},
    ]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in sent["Successful"]] == ["good"]
    failed = sent["Failed"][0]
    assert (failed["Id"], failed["Code"]) == ("bad", "InvalidParameterValue")
    assert failed["SenderFault"] is True


def test_visibility(sqs: Any, url: str, server: InProcessServer) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    first = one(sqs, url, VisibilityTimeout=60)
    assert nothing(sqs, url)
    server.clock.advance(61)
    second = one(sqs, url)
    assert second["MessageId"] == first["MessageId"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=120
    )
    server.clock.advance(100)
    assert nothing(sqs, url)
    server.clock.advance(21)
    third = one(sqs, url)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=third["ReceiptHandle"], VisibilityTimeout=0
    )
    assert one(sqs, url)["MessageId"] == first["MessageId"]


def test_a_change_after_the_visibility_has_ended_succeeds_and_hides_nothing(
    sqs: Any, url: str, server: InProcessServer
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = one(sqs, url, VisibilityTimeout=60)["ReceiptHandle"]
    server.clock.advance(61)
    late = {"ReceiptHandle": handle, "VisibilityTimeout": 120}
    sqs.change_message_visibility(QueueUrl=url, **late)
    batch = sqs.change_message_visibility_batch(QueueUrl=url, Entries=[{"Id": "late", **late}])
    assert [entry["Id"] for entry in batch["Successful"]] == ["late"]
    assert "Failed" not in batch
    one(sqs, url, VisibilityTimeout=60)
    # Somebody has it again: the old handle is as good as the new one.
    sqs.change_message_visibility(QueueUrl=url, **late | {"VisibilityTimeout": 0})
    one(sqs, url)


def test_the_visibility_of_the_queue_is_the_default(sqs: Any, server: InProcessServer) -> None:
    attributes = {"VisibilityTimeout": "5"}
    url = sqs.create_queue(QueueName="short", Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    one(sqs, url)
    server.clock.advance(4)
    assert nothing(sqs, url)
    server.clock.advance(2)
    one(sqs, url)


def test_delays_of_messages_and_of_the_queue(sqs: Any, server: InProcessServer) -> None:
    url = sqs.create_queue(QueueName="slow", Attributes={"DelaySeconds": "60"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="by the queue")
    sqs.send_message(QueueUrl=url, MessageBody="at once", DelaySeconds=0)
    sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=900)
    for expected, advance_s in (("at once", 0), ("by the queue", 61), ("late", 840)):
        server.clock.advance(advance_s)
        received = one(sqs, url)
        assert received["Body"] == expected
        sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])


def test_messages_expire(sqs: Any, server: InProcessServer) -> None:
    attributes = {"MessageRetentionPeriod": "60"}
    url = sqs.create_queue(QueueName="brief", Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    server.clock.advance(61)
    assert nothing(sqs, url)


def test_an_old_handle_deletes(sqs: Any, url: str, server: InProcessServer) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    old = one(sqs, url)["ReceiptHandle"]
    server.clock.advance(31)
    one(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old)
    server.clock.advance(31)
    assert nothing(sqs, url)


def test_a_bare_name_and_any_host_address_a_queue(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl="orders", MessageBody="x")
    assert one(sqs, f"https://elsewhere:1/{ACCOUNT}/orders")["Body"] == "x"
    assert url.endswith(f"/{ACCOUNT}/orders")


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_long_poll_ends_with_the_first_message(server: InProcessServer, protocol: str) -> None:
    sqs = server.client(protocol)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sender = server.free().client(protocol)
    answer = end_of_poll(
        server,
        lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=WAIT_S),
        lambda: sender.send_message(QueueUrl=url, MessageBody="x"),
    )
    assert [message["Body"] for message in answer["Messages"]] == ["x"]


def test_a_long_poll_without_messages_waits(sqs: Any) -> None:
    attributes = {"ReceiveMessageWaitTimeSeconds": "1"}
    url = sqs.create_queue(QueueName="patient", Attributes=attributes)["QueueUrl"]
    started_s = time.monotonic()
    assert nothing(sqs, url)
    assert time.monotonic() - started_s >= 0.99


# Another front end's poll goes on to its end: test_two_front_ends.py.
@pytest.mark.parametrize("server", ["event loop"], indirect=True)
def test_a_long_poll_ends_with_its_queue(server: InProcessServer) -> None:
    sqs = server.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]

    def poll() -> str:
        try:
            return str(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=WAIT_S).get("Messages"))
        except ClientError as failure:
            return str(failure.response["Error"]["Code"])

    outcome = end_of_poll(server, poll, lambda: server.client().delete_queue(QueueUrl=url))
    assert outcome in ("AWS.SimpleQueueService.NonExistentQueue", "None")


def test_the_biggest_message_fits(sqs: Any, url: str) -> None:
    body = "x" * (1 << 20)
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert one(sqs, url)["Body"] == body

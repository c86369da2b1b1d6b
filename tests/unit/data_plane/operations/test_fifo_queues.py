"""What is different for FIFO queues, between wire and engine."""

import hashlib
from typing import Any

import pytest

from tests.unit.data_plane.wire import ACCOUNT, NOW_US, Server, queue_with

FIFO_URL = f"http://sqs.example/{ACCOUNT}/orders.fifo"
IDS = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
MESSAGE = {"QueueUrl": FIFO_URL, "MessageBody": "hello", **IDS}


def fifo_server(**attributes: str) -> Server:
    return Server(queue=queue_with(name="orders.fifo", fifo=True, attributes=attributes))


def batch(*entries: dict[str, Any]) -> dict[str, Any]:
    numbered = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
    return {"QueueUrl": FIFO_URL, "Entries": numbered}


def test_a_send_is_answered_with_its_sequence_number() -> None:
    server = fifo_server()
    status, answer = server.json("SendMessage", MESSAGE)
    assert status == 200
    assert answer == {
        "MessageId": "00000000-0000-0000-0000-000000000000",
        "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592",
        "SequenceNumber": "00000000000000000001",
    }
    (sent,) = server.bag.outgoing
    assert (sent.group, sent.deduplication_id, sent.delay_s) == ("g", "d", None)


def test_entries_are_answered_with_theirs_in_their_order() -> None:
    server = fifo_server(ContentBasedDeduplication="true")
    entries = [{"MessageBody": body, "MessageGroupId": "g"} for body in ("one", "two")]
    _, answer = server.json("SendMessageBatch", batch(*entries))
    assert [entry["SequenceNumber"] for entry in answer["Successful"]] == [
        "00000000000000000001",
        "00000000000000000002",
    ]
    assert [message.body for message in server.bag.outgoing] == ["one", "two"]
    assert server.bag.outgoing[0].deduplication_id == hashlib.sha256(b"one").hexdigest()


def test_calls_that_differ_in_the_deduplication_id_differ() -> None:
    server = fifo_server()
    retry = {"amz-sdk-invocation-id": "i-1", "amz-sdk-request": "attempt=2; max=6"}
    for deduplication_id in ("d", "d", "e"):
        params = {**MESSAGE, "MessageDeduplicationId": deduplication_id}
        server.json("SendMessage", params, retry)
    (first, _), (second, _), (third, repeated) = server.bag.sends
    assert first == second != third
    assert repeated


GOOD = {"MessageBody": "x", **IDS}
WHOLE_BATCH_ERRORS = [
    (
        {"MessageBody": "x", "MessageDeduplicationId": "d"},
        "InvalidParameterValueException",
        "The request must contain the parameter MessageGroupId.",
    ),
    (
        {"MessageBody": "x", "MessageGroupId": "g"},
        "InvalidParameterValueException",
        (
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        ),
    ),
    (
        {**GOOD, "DelaySeconds": 2},
        "InvalidParameterValueException",
        (
            "Value 2 for parameter DelaySeconds is invalid. Reason: The request include "
            "parameter that is not valid for this queue type."
        ),
    ),
    (
        {**GOOD, "MessageBody": "x" * 1025},
        "InvalidParameterValueException",
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
    ),
    (
        {**GOOD, "MessageBody": "x" * (1 << 20)},
        "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    ),
    (
        {**GOOD, "MessageBody": "\x00"},
        "InvalidMessageContents",
        (
            "Invalid binary character '#x0' was found in the message body, the set of allowed "
            "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."
        ),
    ),
]


@pytest.mark.parametrize(("entry", "shape", "message"), WHOLE_BATCH_ERRORS)
def test_one_wrong_entry_refuses_the_whole_batch(
    entry: dict[str, Any], shape: str, message: str
) -> None:
    server = fifo_server()
    server.queue = queue_with(name="orders.fifo", fifo=True, message_bytes_max=1024)
    status, answer = server.json("SendMessageBatch", batch(GOOD, entry))
    assert (status, answer["message"]) == (400, message)
    assert answer["__type"].endswith(f"#{shape}")
    assert not server.bag.sends


def test_a_receive_shows_what_fifo_messages_have_more() -> None:
    server = fifo_server()
    server.bag.dead_letter_source = "arn:aws:sqs:eu-west-1:123456789012:source.fifo"
    server.json("SendMessage", MESSAGE)
    receive = {"QueueUrl": FIFO_URL, "MessageSystemAttributeNames": ["All"]}
    _, answer = server.json("ReceiveMessage", receive)
    assert answer["Messages"][0]["Attributes"] == {
        "SenderId": ACCOUNT,
        "SentTimestamp": str(NOW_US // 1000),
        "ApproximateReceiveCount": "3",
        "ApproximateFirstReceiveTimestamp": str(NOW_US // 1000 + 7),
        "MessageGroupId": "g",
        "SequenceNumber": "00000000000000000001",
        "MessageDeduplicationId": "d",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:123456789012:source.fifo",
    }
    names = ["SequenceNumber", "MessageDeduplicationId"]
    _, answer = server.json("ReceiveMessage", {"QueueUrl": FIFO_URL, "AttributeNames": names})
    assert answer["Messages"][0]["Attributes"].keys() == set(names)


def test_the_attempt_of_a_receive_reaches_the_engine() -> None:
    server = fifo_server()
    server.json("ReceiveMessage", {"QueueUrl": FIFO_URL, "ReceiveRequestAttemptId": "a!"})
    server.json("ReceiveMessage", {"QueueUrl": FIFO_URL})
    assert server.bag.attempts == ["a!", ""]


@pytest.mark.parametrize("attempt", ["", "a b", "a" * 129])
def test_wrong_attempts(attempt: str) -> None:
    server = fifo_server()
    receive = {"QueueUrl": FIFO_URL, "ReceiveRequestAttemptId": attempt}
    status, answer = server.json("ReceiveMessage", receive)
    assert status == 400
    assert answer["__type"].endswith("#InvalidParameterValueException")
    assert answer["message"].startswith(
        f"Value {attempt} for parameter ReceiveRequestAttemptId is invalid."
    )
    assert not server.bag.receives

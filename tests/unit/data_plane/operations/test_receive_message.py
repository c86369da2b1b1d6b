from typing import Any

import pytest

from tests.unit.data_plane.wire import ACCOUNT, NOW_US, URL, Server, handle, queue_with


def server_with_a_message() -> Server:
    server = Server()
    server.json(
        "SendMessage",
        {
            "QueueUrl": URL,
            "MessageBody": "hello",
            "MessageGroupId": "g",
            "MessageAttributes": {
                "Dummy1Name": {"DataType": "String", "StringValue": "dummy 1 value"},
                "Dummy2Name": {"DataType": "String", "StringValue": "dummy 2 value"},
                "Dummy3Name": {"DataType": "Binary", "BinaryValue": "ZHVtbXkgMiB2YWx1ZQ=="},
                "OtherName": {"DataType": "String", "StringValue": "other value"},
            },
            "MessageSystemAttributes": {
                "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}
            },
        },
    )
    return server


def receive(server: Server, **params: Any) -> dict[str, Any]:
    status, answer = server.json("ReceiveMessage", {"QueueUrl": URL, **params})
    assert status == 200, answer
    message: dict[str, Any] = answer["Messages"][0]
    return message


def test_an_empty_receive_has_no_members() -> None:
    assert Server().json("ReceiveMessage", {"QueueUrl": URL}) == (200, {})


def test_nothing_is_returned_unless_asked_for() -> None:
    server = server_with_a_message()
    assert receive(server) == {
        "MessageId": "00000000-0000-0000-0000-000000000000",
        "ReceiptHandle": handle(0),
        "MD5OfBody": "5d41402abc4b2a76b9719d911017c592",
        "Body": "hello",
    }
    assert (server.served[1].messages, server.served[1].bytes) == (1, 5)


@pytest.mark.parametrize("parameter", ["AttributeNames", "MessageSystemAttributeNames"])
def test_all_system_attributes(parameter: str) -> None:
    message = receive(server_with_a_message(), **{parameter: ["All"]})
    assert message["Attributes"] == {
        "SenderId": ACCOUNT,
        "SentTimestamp": str(NOW_US // 1000),
        "ApproximateReceiveCount": "3",
        "ApproximateFirstReceiveTimestamp": str(NOW_US // 1000 + 7),
        "MessageGroupId": "g",
        "AWSTraceHeader": "Root=1",
    }
    assert "MessageAttributes" not in message


def test_both_lists_of_names_are_united() -> None:
    message = receive(
        server_with_a_message(),
        AttributeNames=["SenderId", "SequenceNumber"],
        MessageSystemAttributeNames=["MessageGroupId"],
    )
    assert message["Attributes"] == {"SenderId": ACCOUNT, "MessageGroupId": "g"}


def test_attributes_that_the_message_lacks_leave_no_trace() -> None:
    message = receive(
        server_with_a_message(), AttributeNames=["SequenceNumber"], MessageAttributeNames=["x"]
    )
    assert not {"Attributes", "MessageAttributes", "MD5OfMessageAttributes"} & message.keys()


@pytest.mark.parametrize("name", ["VisibilityTimeout", "alle", "", "Policy"])
def test_unknown_system_attributes_are_refused(name: str) -> None:
    status, answer = Server().json("ReceiveMessage", {"QueueUrl": URL, "AttributeNames": [name]})
    assert status == 400
    assert answer == {
        "__type": "com.amazonaws.sqs#InvalidAttributeName",
        "message": f"Unknown Attribute {name}.",
    }


@pytest.mark.parametrize(
    ("names", "digest", "returned"),
    [
        (["Dummy.*"], "c5c0d2c6f195fcbc91083c5465d8955f", 3),
        (["Dummy2Name", "Dummy1Name"], "00954f005e854e11dbe82998292c6666", 2),
        (["OtherName", "Dummy.*"], None, 4),
        (["All"], None, 4),
        ([".*"], None, 4),
        (["*"], None, 4),
    ],
)
def test_message_attributes_by_name_and_prefix(
    names: list[str], digest: str | None, returned: int
) -> None:
    message = receive(server_with_a_message(), MessageAttributeNames=names)
    assert len(message["MessageAttributes"]) == returned
    assert digest in (None, message["MD5OfMessageAttributes"])


def test_values_come_back_as_they_were_sent() -> None:
    attributes = receive(server_with_a_message(), MessageAttributeNames=["All"])[
        "MessageAttributes"
    ]
    assert attributes["Dummy1Name"] == {"StringValue": "dummy 1 value", "DataType": "String"}
    assert attributes["Dummy3Name"] == {
        "BinaryValue": "ZHVtbXkgMiB2YWx1ZQ==",
        "DataType": "Binary",
    }


def test_the_queue_has_the_defaults() -> None:
    server = Server(queue=queue_with(receive_wait_s=5, visibility_timeout_s=31))
    server.json("ReceiveMessage", {"QueueUrl": URL})
    server.json(
        "ReceiveMessage",
        {"QueueUrl": URL, "WaitTimeSeconds": 0, "VisibilityTimeout": 0, "MaxNumberOfMessages": 10},
    )
    assert server.bag.receives == [(1, 31, NOW_US + 5_000_000), (10, 0, NOW_US)]


@pytest.mark.parametrize(
    ("params", "ok"),
    [
        ({"MaxNumberOfMessages": 1}, True),
        ({"MaxNumberOfMessages": 10}, True),
        ({"WaitTimeSeconds": 20}, True),
        ({"VisibilityTimeout": 43_200}, True),
        ({"MaxNumberOfMessages": 0}, False),
        ({"MaxNumberOfMessages": 11}, False),
        ({"WaitTimeSeconds": -1}, False),
        ({"WaitTimeSeconds": 21}, False),
        ({"VisibilityTimeout": -1}, False),
        ({"VisibilityTimeout": 43_201}, False),
        ({"ReceiveRequestAttemptId": " "}, True),  # of FIFO queues
        ({"MessageAttributeNames": [f"a{n}" for n in range(1000)]}, True),
        ({"MessageAttributeNames": [f"a{n}" for n in range(1001)]}, False),
    ],
)
def test_limits(params: dict[str, Any], *, ok: bool) -> None:
    server = Server()
    status, answer = server.json("ReceiveMessage", {"QueueUrl": URL, **params})
    assert status == (200 if ok else 400)
    assert bool(server.bag.receives) is ok
    if not ok:
        assert answer["__type"].endswith("#InvalidParameterValueException")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MaxNumberOfMessages", 11, "Must be between 1 and 10, if provided."),
        ("WaitTimeSeconds", 21, "Must be >= 0 and <= 20, if provided."),
        ("WaitTimeSeconds", -1, "Must be >= 0 and <= 20, if provided."),
        ("VisibilityTimeout", 43_201, "Must be >= 0 and <= 43200, if provided."),
    ],
)
def test_messages_of_refusals(name: str, value: int, reason: str) -> None:
    _, answer = Server().json("ReceiveMessage", {"QueueUrl": URL, name: value})
    assert answer["message"] == f"Value {value} for parameter {name} is invalid. Reason: {reason}"

"""What is wrong with a request's JSON, or with the types in it, and what SQS answers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.raw_calls import Bench, Reply, json_request, refused, url

ORDERS = url("orders")
SEND = {"QueueUrl": ORDERS, "MessageBody": "x"}
NOT_AN_OBJECT = "Start of structure or map found where not expected."
NOT_A_LIST = "Start of list found where not expected"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench("json")
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


def sending(member: bytes) -> bytes:
    return json.dumps(SEND).encode()[:-1] + b"," + member + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"}",
        b"nonsense",
        b"'{}'",
        b"{} {}",
        b"{},",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b'{"QueueUrl":"orders" "MessageBody":"x"}',
        b'{"QueueUrl":"orders","MessageBody":"x",}',
        b'{"QueueUrl":"orders","MessageBody":"x"',
        b'{"QueueUrl":"orders","MessageBody":"x}',
        b"{'QueueUrl':'orders','MessageBody':'x'}",
        b'{QueueUrl:"orders",MessageBody:"x"}',
        b'{"QueueUrl":"orders","MessageBody":"\\x41"}',
        b'{"QueueUrl":"orders","MessageBody":"\\u12"}',
        b'{"QueueUrl":"orders","MessageBody":"a\nb"}',
        b'{"QueueUrl":"orders","MessageBody":"x"} // done',
        sending(b'"DelaySeconds":NaN'),
        sending(b'"DelaySeconds":Infinity'),
        sending(b'"Unknown":-Infinity'),
        sending(b'"DelaySeconds":01'),
        sending(b'"DelaySeconds":+1'),
        sending(b'"DelaySeconds":.5'),
        sending(b'"DelaySeconds":1.'),
        sending(b'"DelaySeconds":0x1'),
        sending(b'"DelaySeconds":True'),
        sending(b'"DelaySeconds":' + b"1" * 5000),
        sending(b'"MessageBody":"again"'),
        sending(b'"MessageAttributes":{"a":{},"a":{}}'),
        sending(b'"Unknown":{"a":1,"a":1}'),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        sending(b'"Unknown":' + b"[" * 100_000 + b"]" * 100_000),
    ],
    ids=lambda body: repr(body[-40:]),
)
def test_what_is_not_json(bench: Bench, body: bytes) -> None:
    before = bench.state()
    assert bench.send(json_request("SendMessage", body)) == refused(
        "MalformedInput", "The request body is not valid JSON."
    )
    assert bench.state() == before


CONVERSIONS: list[tuple[str, dict[str, Any], str]] = [
    *(
        ("SendMessage", {**SEND, "MessageBody": value}, f"{token} can not be converted to a String")
        for value, token in ((1, "NUMBER_VALUE"), (1.5, "NUMBER_VALUE"), (True, "TRUE_VALUE"))
    ),
    ("SendMessage", {**SEND, "MessageBody": []}, NOT_A_LIST),
    ("SendMessage", {**SEND, "MessageBody": {}}, NOT_AN_OBJECT),
    ("SendMessage", {**SEND, "QueueUrl": False}, "FALSE_VALUE can not be converted to a String"),
    *(
        (action, {"QueueUrl": ORDERS, **params, member: value}, message)
        for action, member, params in (
            ("SendMessage", "DelaySeconds", {"MessageBody": "x"}),
            ("ReceiveMessage", "MaxNumberOfMessages", {}),
            ("ReceiveMessage", "VisibilityTimeout", {}),
            ("ReceiveMessage", "WaitTimeSeconds", {}),
            ("ChangeMessageVisibility", "VisibilityTimeout", {"ReceiptHandle": "x"}),
            ("ListQueues", "MaxResults", {}),
            ("ListDeadLetterSourceQueues", "MaxResults", {}),
        )
        for value, message in (
            ("1", "STRING_VALUE can not be converted to an Integer"),
            ("", "STRING_VALUE can not be converted to an Integer"),
            (True, "TRUE_VALUE can not be converted to an Integer"),
            (2**63, "NUMBER_VALUE can not be converted to an Integer"),
            (-(2**63) - 1, "NUMBER_VALUE can not be converted to an Integer"),
            (10**400, "NUMBER_VALUE can not be converted to an Integer"),
            ([1], NOT_A_LIST),
            ({"1": 1}, NOT_AN_OBJECT),
        )
    ),
    *(
        ("ReceiveMessage", {"QueueUrl": ORDERS, member: value}, message)
        for member in ("AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames")
        for value, message in (
            ("All", "Expected list or null"),
            (1, "Expected list or null"),
            ({"All": True}, NOT_AN_OBJECT),
            ([1], "NUMBER_VALUE can not be converted to a String"),
            (["All", False], "FALSE_VALUE can not be converted to a String"),
            ([["All"]], NOT_A_LIST),
            ([{}], NOT_AN_OBJECT),
        )
    ),
    *(
        ("SendMessage", {**SEND, member: value}, message)
        for member in ("MessageAttributes", "MessageSystemAttributes")
        for value, message in (
            ([], NOT_A_LIST),
            ([{"Name": "a"}], NOT_A_LIST),
            ("a", "Expected map or null"),
            (0, "Expected map or null"),
            ({"a": "x"}, "Expected null"),
            ({"a": 1}, "Expected null"),
            ({"a": ["x"]}, NOT_A_LIST),
            (
                {"a": {"DataType": 1}},
                "NUMBER_VALUE can not be converted to a String",
            ),
            ({"a": {"StringValue": {}}}, NOT_AN_OBJECT),
            ({"a": {"StringListValues": "x"}}, "Expected list or null"),
            ({"a": {"BinaryValue": 1}}, "NUMBER_VALUE can not be converted to a Blob"),
            ({"a": {"BinaryValue": "A"}}, "A blob must be valid base64."),
            ({"a": {"BinaryValue": "AAE"}}, "A blob must be valid base64."),
            ({"a": {"BinaryValue": "=AAE"}}, "A blob must be valid base64."),
            ({"a": {"BinaryValue": "AA\nE="}}, "A blob must be valid base64."),
            ({"a": {"BinaryValue": "\u00fc"}}, "A blob must be valid base64."),
        )
    ),
    *(
        ("SendMessageBatch", {"QueueUrl": ORDERS, "Entries": value}, message)
        for value, message in (
            ("x", "Expected list or null"),
            ({"0": {}}, NOT_AN_OBJECT),
            (["x"], "Expected null"),
            ([[]], NOT_A_LIST),
            ([{"Id": 1}], "NUMBER_VALUE can not be converted to a String"),
            ([{"Id": "a", "DelaySeconds": "1"}], "STRING_VALUE can not be converted to an Integer"),
        )
    ),
    *(
        ("SetQueueAttributes", {"QueueUrl": ORDERS, "Attributes": value}, message)
        for value, message in (
            ({"DelaySeconds": 5}, "NUMBER_VALUE can not be converted to a String"),
            ({"RedrivePolicy": {}}, NOT_AN_OBJECT),
            ([], NOT_A_LIST),
        )
    ),
]


@pytest.mark.parametrize(("action", "params", "message"), CONVERSIONS, ids=str)
def test_wrong_types(bench: Bench, action: str, params: dict[str, Any], message: str) -> None:
    before = bench.state()
    assert bench.call(action, params) == refused("MalformedInput", message)
    assert bench.state() == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", NOT_A_LIST),
        (b'[{"QueueUrl":"orders"}]', NOT_A_LIST),
        (b'"x"', "Expected null"),
        (b"1", "Expected null"),
        (b"true", "Expected null"),
    ],
)
def test_what_is_not_an_object(bench: Bench, body: bytes, message: str) -> None:
    assert bench.send(json_request("SendMessage", body)) == refused("MalformedInput", message)


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("SendMessage", {**SEND, "DelaySeconds": 1.9}),
    ("SendMessage", {**SEND, "DelaySeconds": -0.9}),
    ("SendMessage", {**SEND, "DelaySeconds": 9e2}),
    ("SendMessage", {**SEND, "DelaySeconds": None, "MessageAttributes": None}),
    ("SendMessage", {**SEND, "Unknown": [{"a": None}]}),
    ("SendMessage", {**SEND, "MessageAttributes": {}, "MessageSystemAttributes": {}}),
    ("ReceiveMessage", {"QueueUrl": ORDERS, "AttributeNames": [None, "All", None]}),
    ("SetQueueAttributes", {"QueueUrl": ORDERS, "Attributes": {"DelaySeconds": None}}),
]


@pytest.mark.parametrize(("action", "params"), ACCEPTED, ids=str)
def test_what_sqs_overlooks(bench: Bench, action: str, params: dict[str, Any]) -> None:
    """Nulls, members nobody knows, and fractions (recorded from other services of AWS)."""
    assert bench.call(action, params) == Reply(200)


ABSENT: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    (
        "SendMessage",
        {"QueueUrl": None, "MessageBody": "x"},
        ("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."),
    ),
    (
        "SendMessage",
        {"QueueUrl": ORDERS, "MessageBody": None},
        ("MissingParameter", "The request must contain the parameter MessageBody."),
    ),
    (
        "SendMessage",
        {**SEND, "MessageAttributes": {"a": None}},
        (
            "InvalidParameterValue",
            "The message (user) attribute 'a' must contain a non-empty message attribute value.",
        ),
    ),
    (
        "SendMessageBatch",
        {"QueueUrl": ORDERS, "Entries": [None]},
        (
            "AWS.SimpleQueueService.EmptyBatchRequest",
            "There should be at least one SendMessageBatchRequestEntry in the request.",
        ),
    ),
    (
        "SendMessageBatch",
        {"QueueUrl": ORDERS, "Entries": None},
        ("MissingParameter", "The request must contain the parameter Entries."),
    ),
    (
        "GetQueueUrl",
        {},
        (
            "InvalidParameterValue",
            "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
        ),
    ),
    (
        "TagQueue",
        {"QueueUrl": ORDERS, "Tags": {"k": None}},
        ("InvalidParameterValue", "the parameter 'value' may not be null"),
    ),
    (
        "DeleteMessage",
        {"QueueUrl": ORDERS},
        ("MissingParameter", "The request must contain the parameter MessageHandle."),
    ),
    (
        "ChangeMessageVisibility",
        {"QueueUrl": ORDERS, "ReceiptHandle": "x"},
        ("MissingParameter", "The request must contain the parameter VisibilityTimeout."),
    ),
]


@pytest.mark.parametrize(("action", "params", "refusal"), ABSENT, ids=str)
def test_what_is_absent_or_null(
    bench: Bench, action: str, params: dict[str, Any], refusal: tuple[str, str]
) -> None:
    before = bench.state()
    assert bench.call(action, params) == refused(*refusal)
    assert bench.state() == before


@pytest.mark.parametrize("delay", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_numbers_of_more_than_32_bits_are_out_of_every_range(bench: Bench, delay: int) -> None:
    assert bench.call("SendMessage", {**SEND, "DelaySeconds": delay}) == refused(
        "InvalidParameterValue",
        f"Value {delay} for parameter DelaySeconds is invalid. "
        "Reason: DelaySeconds must be >= 0 and <= 900.",
    )

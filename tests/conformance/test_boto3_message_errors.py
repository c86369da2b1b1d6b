"""What the message operations refuse, through unmodified clients of both protocols."""

from typing import Any

import pytest

from tests.conformance.client_calls import error, nothing, one

TEXT = {"DataType": "String", "StringValue": "x"}


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


RECEIVE_ERRORS = [
    (
        {"MaxNumberOfMessages": 11},
        (
            "Value 11 for parameter MaxNumberOfMessages is invalid. "
            "Reason: Must be between 1 and 10, if provided."
        ),
    ),
    (
        {"MaxNumberOfMessages": 0},
        (
            "Value 0 for parameter MaxNumberOfMessages is invalid. "
            "Reason: Must be between 1 and 10, if provided."
        ),
    ),
    (
        {"WaitTimeSeconds": 21},
        (
            "Value 21 for parameter WaitTimeSeconds is invalid. "
            "Reason: Must be >= 0 and <= 20, if provided."
        ),
    ),
    (
        {"WaitTimeSeconds": -1},
        (
            "Value -1 for parameter WaitTimeSeconds is invalid. "
            "Reason: Must be >= 0 and <= 20, if provided."
        ),
    ),
]


@pytest.mark.parametrize(("options", "message"), RECEIVE_ERRORS, ids=str)
def test_wrong_receives(sqs: Any, url: str, options: dict[str, int], message: str) -> None:
    assert error(sqs.receive_message, QueueUrl=url, **options) == (
        "InvalidParameterValue",
        message,
        400,
    )


SEND_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"MessageBody": ""}, "MissingParameter"),
    ({"MessageBody": "\x00"}, "InvalidMessageContents"),
    ({"MessageBody": "x" * (1 << 20) + "x"}, "InvalidParameterValue"),
    ({"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"),
    ({"MessageBody": "x", "DelaySeconds": -1}, "InvalidParameterValue"),
    (
        {"MessageBody": "x", "MessageAttributes": {"AWS.x": TEXT}},
        "InvalidParameterValue",
    ),
    (
        {
            "MessageBody": "x",
            "MessageAttributes": {"a": {"DataType": "String", "StringValue": ""}},
        },
        "InvalidParameterValue",
    ),
    (
        {"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Text", "StringValue": "x"}}},
        "InvalidParameterValue",
    ),
    (
        {
            "MessageBody": "x",
            "MessageAttributes": {f"a{number}": TEXT for number in range(11)},
        },
        "InvalidParameterValue",
    ),
    (
        {"MessageBody": "x", "MessageSystemAttributes": {"Other": TEXT}},
        "InvalidParameterValue",
    ),
]


@pytest.mark.parametrize("case", range(len(SEND_ERRORS)))
def test_wrong_sends_store_nothing(sqs: Any, url: str, case: int) -> None:
    params, code = SEND_ERRORS[case]
    answer = error(sqs.send_message, QueueUrl=url, **params)
    assert (answer[0], answer[2]) == (code, 400)
    assert nothing(sqs, url)


def test_a_queue_can_take_smaller_messages_only(sqs: Any) -> None:
    attributes = {"MaximumMessageSize": "1024"}
    url = sqs.create_queue(QueueName="small", Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x" * 1024)
    assert error(sqs.send_message, QueueUrl=url, MessageBody="x" * 1025) == (
        "InvalidParameterValue",
        ("One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."),
        400,
    )


PREFIX = "AWS.SimpleQueueService."
BATCH_ERRORS: list[tuple[list[dict[str, Any]], str, str]] = [
    (
        [{"Id": str(number), "MessageBody": "x"} for number in range(11)],
        PREFIX + "TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 11.",
    ),
    (
        [{"Id": "a", "MessageBody": "x"}, {"Id": "a", "MessageBody": "x"}],
        PREFIX + "BatchEntryIdsNotDistinct",
        "Id a repeated.",
    ),
    (
        [{"Id": "a b", "MessageBody": "x"}],
        PREFIX + "InvalidBatchEntryId",
        (
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            "It can be at most 80 letters long."
        ),
    ),
    (
        [{"Id": str(number), "MessageBody": "x" * 600_000} for number in range(2)],
        PREFIX + "BatchRequestTooLong",
        ("Batch requests cannot be longer than 1048576 bytes. You have sent 1200000 bytes."),
    ),
    (
        [{"Id": str(number), "MessageBody": "x" * 1_048_576} for number in range(10)],
        PREFIX + "BatchRequestTooLong",
        ("Batch requests cannot be longer than 1048576 bytes. You have sent 10485760 bytes."),
    ),
]


@pytest.mark.parametrize("case", range(len(BATCH_ERRORS)))
def test_wrong_batches_store_nothing(sqs: Any, url: str, case: int) -> None:
    entries, code, message = BATCH_ERRORS[case]
    assert error(sqs.send_message_batch, QueueUrl=url, Entries=entries) == (code, message, 400)
    assert nothing(sqs, url)


def test_empty_batches(sqs: Any, url: str) -> None:
    for call in (sqs.send_message_batch, sqs.delete_message_batch):
        assert error(call, QueueUrl=url, Entries=[])[::2] == (PREFIX + "EmptyBatchRequest", 400)


def test_wrong_handles(sqs: Any, url: str) -> None:
    expected = (
        "ReceiptHandleIsInvalid",
        'The input receipt handle "garbage" is not a valid receipt handle.',
        404,
    )
    assert error(sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage") == expected
    change = {"QueueUrl": url, "ReceiptHandle": "garbage", "VisibilityTimeout": 0}
    assert error(sqs.change_message_visibility, **change) == expected


def test_a_handle_of_another_queue(sqs: Any, url: str) -> None:
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = one(sqs, url, VisibilityTimeout=0)["ReceiptHandle"]
    code, _, _ = error(sqs.delete_message, QueueUrl=other, ReceiptHandle=handle)
    assert code == "ReceiptHandleIsInvalid"
    one(sqs, url)


def test_the_visibility_of_what_is_gone(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = one(sqs, url)["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    change = {"QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 10}
    assert error(sqs.change_message_visibility, **change)[::2] == ("InvalidParameterValue", 400)
    change["VisibilityTimeout"] = 43_201
    assert error(sqs.change_message_visibility, **change)[::2] == ("InvalidParameterValue", 400)

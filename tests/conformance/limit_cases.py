"""The limits of messages and batches: requests that go up to them, and SQS's refusals beyond.

A limit is tried at both ends: one below the least value, the least, the greatest, one above it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.raw_calls import Bench, url

LEGACY = "AWS.SimpleQueueService."
ORDERS = url("orders")
FIFO = url("orders.fifo")
SMALL = url("small")
"""A queue that takes messages of 1,024 bytes only."""

Params = dict[str, Any]
Refusal = tuple[str, str]


@dataclass(frozen=True)
class Limit:
    """One limit: `params` makes the request that has a value; `refusal` is what a wrong one gets.

    `names` are those in data_plane/core/limits.py; a `low` of None cannot be gone below.
    """

    names: tuple[str, ...]
    action: str
    params: Callable[[Bench, int], Params]
    low: int | None
    high: int
    refusal: Callable[[int], Refusal]
    note: str = ""

    @property
    def label(self) -> str:
        """What the test is called."""
        return f"{self.action} {self.note or self.names[0].lower()}"

    def accepted(self) -> list[int]:
        """The values at the ends."""
        return sorted({self.high} if self.low is None else {self.low, self.high})

    def refused(self) -> list[int]:
        """The values beyond the ends."""
        return [self.high + 1] if self.low is None else [self.low - 1, self.high + 1]


def invalid_parameter(name: str, reason: str) -> Callable[[int], Refusal]:
    message = "Value {value} for parameter {name} is invalid. Reason: {reason}"
    return lambda value: (
        "InvalidParameterValue",
        message.format(value=value, name=name, reason=reason),
    )


def always(code: str, message: str) -> Callable[[int], Refusal]:
    return lambda _: (code, message)


def invalid(message: str) -> Callable[[int], Refusal]:
    return always("InvalidParameterValue", message)


def send(**params: Any) -> Params:
    return {"QueueUrl": ORDERS, "MessageBody": "x", **params}


def receive(bench: Bench, **params: Any) -> Params:
    """A receive that finds a message, so that it never waits."""
    bench.ask("SendMessage", QueueUrl=ORDERS, MessageBody="x")
    return {"QueueUrl": ORDERS, "VisibilityTimeout": 0, **params}


def entries(count: int, **members: Any) -> list[Params]:
    return [{"Id": f"e{number}", **members} for number in range(count)]


def attribute(name: str = "a", data_type: str = "String", text: str = "x") -> Params:
    return {name: {"DataType": data_type, "StringValue": text}}


def fifo_send() -> Params:
    return {"QueueUrl": FIFO, "MessageBody": "x", "MessageGroupId": "g"}


def printable(name: str, value: str) -> Refusal:
    reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
    return (
        "InvalidParameterValue",
        f"Value {value} for parameter {name} is invalid. Reason: {reason}",
    )


def number_limit(name: str, high: int, text: Callable[[int], str]) -> Limit:
    return Limit(
        (name,),
        "SendMessage",
        lambda _, value: send(MessageAttributes=attribute(data_type="Number", text=text(value))),
        None,
        high,
        invalid("Can't cast the value of message (user) attribute 'a' to a number."),
    )


def too_long(size_max: int) -> Callable[[int], Refusal]:
    message = f"One or more parameters are invalid. Reason: Message must be shorter than {size_max}"
    return lambda size: (
        ("InvalidParameterValue", f"{message} bytes.")
        if size
        else ("MissingParameter", "The request must contain the parameter MessageBody.")
    )


def batch_count(entry: str) -> Callable[[int], Refusal]:
    return lambda count: (
        (
            f"{LEGACY}TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are 10. You have sent {count}.",
        )
        if count
        else (
            f"{LEGACY}EmptyBatchRequest",
            f"There should be at least one {entry} in the request.",
        )
    )


def sized_batch(_bench: Bench, size: int) -> Params:
    """A batch of so many bytes in all, attributes included."""
    batch = entries(3, MessageBody="x" * (size // 4))
    rest = size - 3 * (size // 4) - len("a" + "String")
    batch.append({"Id": "last", "MessageBody": "y", "MessageAttributes": attribute("a")})
    batch[-1]["MessageAttributes"]["a"]["StringValue"] = "z" * (rest - 1)
    return {"QueueUrl": ORDERS, "Entries": batch}


MESSAGES = [
    Limit(
        ("DELAY_S_MAX",),
        "SendMessage",
        lambda _, delay: send(DelaySeconds=delay),
        0,
        900,
        invalid_parameter("DelaySeconds", "DelaySeconds must be >= 0 and <= 900."),
    ),
    Limit(
        ("MESSAGE_SIZE_BYTES_MAX",),
        "SendMessage",
        lambda _, size: send(MessageBody="x" * size),
        1,
        1_048_576,
        too_long(1_048_576),
    ),
    Limit(
        ("QUEUE_MESSAGE_SIZE_BYTES_MIN",),
        "SendMessage",
        lambda _, size: {"QueueUrl": SMALL, "MessageBody": "x" * size},
        1,
        1024,
        too_long(1024),
        "body of a small queue",
    ),
    Limit(
        ("QUEUE_MESSAGE_SIZE_BYTES_MIN",),
        "SendMessage",
        lambda _, size: {"QueueUrl": SMALL, "MessageBody": "\u20ac" * 300 + "x" * (size - 900)},
        None,
        1024,
        too_long(1024),
        "body in UTF-8",
    ),
    Limit(
        ("QUEUE_MESSAGE_SIZE_BYTES_MIN",),
        "SendMessage",
        lambda _, size: {
            "QueueUrl": SMALL,
            "MessageBody": "x",
            "MessageAttributes": attribute("name", "String.kind", "x" * (size - 16)),
        },
        None,
        1024,
        too_long(1024),
        "body and attributes",
    ),
    Limit(
        ("MESSAGE_ATTRIBUTES_MAX",),
        "SendMessage",
        lambda _, count: send(
            MessageAttributes={
                name: value
                for number in range(count)
                for name, value in attribute(f"a{number}").items()
            }
        ),
        None,
        10,
        lambda count: (
            "InvalidParameterValue",
            f"Number of message attributes [{count}] exceeds the allowed maximum [10].",
        ),
    ),
    Limit(
        ("ATTRIBUTE_NAME_BYTES_MAX",),
        "SendMessage",
        lambda _, size: send(MessageAttributes=attribute("n" * size)),
        1,
        256,
        lambda size: (
            "InvalidParameterValue",
            "Message (user) attribute name must be shorter than 256 bytes."
            if size
            else "The request must contain non-empty message (user) attribute names.",
        ),
    ),
    Limit(
        ("ATTRIBUTE_TYPE_BYTES_MAX",),
        "SendMessage",
        lambda _, size: send(MessageAttributes=attribute(data_type="String." + "t" * (size - 7))),
        None,
        256,
        invalid("Message (user) attribute type must be shorter than 256 bytes."),
    ),
    number_limit("NUMBER_DIGITS_MAX", 38, lambda count: "9" * count),
    number_limit("NUMBER_EXPONENT_MAX", 126, lambda power: f"1e{power}"),
    number_limit("NUMBER_EXPONENT_MIN", 128, lambda power: f"1e-{power}"),
    Limit(
        ("GROUP_ID_CHARS_MAX",),
        "SendMessage",
        lambda _, size: send(MessageGroupId="g" * size),
        1,
        128,
        lambda size: printable("MessageGroupId", "g" * size),
    ),
    Limit(
        ("GROUP_ID_CHARS_MAX",),
        "SendMessage",
        lambda _, size: {**fifo_send(), "MessageGroupId": "g" * size},
        1,
        128,
        lambda size: printable("MessageGroupId", "g" * size),
        "group of a FIFO queue",
    ),
    Limit(
        ("DEDUPLICATION_ID_CHARS_MAX",),
        "SendMessage",
        lambda _, size: {**fifo_send(), "MessageDeduplicationId": "d" * size},
        1,
        128,
        lambda size: printable("MessageDeduplicationId", "d" * size),
    ),
    Limit(
        ("RECEIVE_ATTEMPT_ID_CHARS_MAX",),
        "ReceiveMessage",
        lambda _, size: {"QueueUrl": FIFO, "ReceiveRequestAttemptId": "r" * size},
        1,
        128,
        lambda size: printable("ReceiveRequestAttemptId", "r" * size),
    ),
    Limit(
        ("TRACE_HEADER_BYTES_MAX",),
        "SendMessage",
        lambda _, size: send(MessageSystemAttributes=attribute("AWSTraceHeader", text="t" * size)),
        1,
        4096,
        lambda size: (
            "InvalidParameterValue",
            "Message (system) attribute 'AWSTraceHeader' must be shorter than 4096 bytes."
            if size
            else "Message (system) attribute 'AWSTraceHeader' must contain a non-empty value of "
            "type 'String'.",
        ),
    ),
    Limit(
        ("RECEIVE_MESSAGES_MAX",),
        "ReceiveMessage",
        lambda bench, count: receive(bench, MaxNumberOfMessages=count),
        1,
        10,
        invalid_parameter("MaxNumberOfMessages", "Must be between 1 and 10, if provided."),
    ),
    Limit(
        ("RECEIVE_WAIT_S_MAX",),
        "ReceiveMessage",
        lambda bench, wait: receive(bench, WaitTimeSeconds=wait),
        0,
        20,
        invalid_parameter("WaitTimeSeconds", "Must be >= 0 and <= 20, if provided."),
    ),
    Limit(
        ("VISIBILITY_TIMEOUT_S_MAX",),
        "ReceiveMessage",
        lambda bench, timeout: receive(bench, VisibilityTimeout=timeout),
        0,
        43_200,
        invalid_parameter("VisibilityTimeout", "Must be >= 0 and <= 43200, if provided."),
    ),
    Limit(
        ("RECEIVE_ATTRIBUTE_NAMES_MAX",),
        "ReceiveMessage",
        lambda bench, count: receive(
            bench, MessageAttributeNames=[f"n{number}" for number in range(count)]
        ),
        None,
        1000,
        invalid("Number of message attribute names [1001] exceeds the allowed maximum [1000]."),
    ),
]
"""Limits of single messages and receives."""

BATCHES = [
    Limit(
        ("BATCH_ENTRIES_MAX",),
        "SendMessageBatch",
        lambda _, count: {"QueueUrl": ORDERS, "Entries": entries(count, MessageBody="x")},
        1,
        10,
        batch_count("SendMessageBatchRequestEntry"),
    ),
    Limit(
        ("BATCH_ENTRIES_MAX",),
        "DeleteMessageBatch",
        lambda _, count: {"QueueUrl": ORDERS, "Entries": entries(count, ReceiptHandle="x")},
        1,
        10,
        batch_count("DeleteMessageBatchRequestEntry"),
    ),
    Limit(
        ("BATCH_ENTRIES_MAX",),
        "ChangeMessageVisibilityBatch",
        lambda _, count: {
            "QueueUrl": ORDERS,
            "Entries": entries(count, ReceiptHandle="x", VisibilityTimeout=0),
        },
        1,
        10,
        batch_count("ChangeMessageVisibilityBatchRequestEntry"),
    ),
    Limit(
        ("BATCH_ENTRY_ID_CHARS_MAX",),
        "SendMessageBatch",
        lambda _, size: {"QueueUrl": ORDERS, "Entries": [{"Id": "i" * size, "MessageBody": "x"}]},
        1,
        80,
        always(
            f"{LEGACY}InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            "It can be at most 80 letters long.",
        ),
    ),
    Limit(
        ("BATCH_SIZE_BYTES_MAX",),
        "SendMessageBatch",
        sized_batch,
        None,
        1_048_576,
        always(
            f"{LEGACY}BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        ),
    ),
]
"""Limits of batches."""

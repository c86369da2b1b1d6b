"""Shapes of the message operations, as botocore's SQS model has them."""

from typing import Final

from data_plane.protocol.shapes import (
    BLOB,
    BOOLEAN,
    INTEGER,
    STRING,
    ListOf,
    MapOf,
    Shape,
    Structure,
)

ATTRIBUTE_VALUE: Final = Structure(
    {
        "DataType": STRING,
        "StringValue": STRING,
        "BinaryValue": BLOB,
        "StringListValues": ListOf(STRING, "StringListValue"),
        "BinaryListValues": ListOf(BLOB, "BinaryListValue"),
    }
)
"""Its DataType is required, but the message rules say so in SQS's own words."""

_OUTGOING: Final[dict[str, Shape]] = {
    "MessageBody": STRING,
    "DelaySeconds": INTEGER,
    "MessageAttributes": MapOf(ATTRIBUTE_VALUE, "MessageAttribute"),
    "MessageSystemAttributes": MapOf(ATTRIBUTE_VALUE, "MessageSystemAttribute"),
    "MessageDeduplicationId": STRING,
    "MessageGroupId": STRING,
}
_SENT: Final[dict[str, Shape]] = {
    "MessageId": STRING,
    "MD5OfMessageBody": STRING,
    "MD5OfMessageAttributes": STRING,
    "MD5OfMessageSystemAttributes": STRING,
    "SequenceNumber": STRING,
}
_FAILED: Final = ListOf(
    Structure({"Id": STRING, "Code": STRING, "Message": STRING, "SenderFault": BOOLEAN}),
    "BatchResultErrorEntry",
)

NOTHING: Final = Structure()

SEND_MESSAGE_INPUT: Final = Structure(
    {"QueueUrl": STRING, **_OUTGOING}, required=("QueueUrl", "MessageBody")
)
SEND_MESSAGE_OUTPUT: Final = Structure(_SENT)


def _batch(entry: Structure, entry_name: str) -> Structure:
    return Structure(
        {"QueueUrl": STRING, "Entries": ListOf(entry, entry_name)},
        required=("QueueUrl", "Entries"),
    )


def _batch_result(entry: Structure, entry_name: str) -> Structure:
    return Structure({"Successful": ListOf(entry, entry_name), "Failed": _FAILED})


SEND_MESSAGE_BATCH_INPUT: Final = _batch(
    Structure({"Id": STRING, **_OUTGOING}, required=("Id", "MessageBody")),
    "SendMessageBatchRequestEntry",
)
SEND_MESSAGE_BATCH_OUTPUT: Final = _batch_result(
    Structure({"Id": STRING, **_SENT}), "SendMessageBatchResultEntry"
)

RECEIVE_MESSAGE_INPUT: Final = Structure(
    {
        "QueueUrl": STRING,
        "AttributeNames": ListOf(STRING, "AttributeName"),
        "MessageSystemAttributeNames": ListOf(STRING, "MessageSystemAttributeName"),
        "MessageAttributeNames": ListOf(STRING, "MessageAttributeName"),
        "MaxNumberOfMessages": INTEGER,
        "VisibilityTimeout": INTEGER,
        "WaitTimeSeconds": INTEGER,
        "ReceiveRequestAttemptId": STRING,
    },
    required=("QueueUrl",),
)
RECEIVE_MESSAGE_OUTPUT: Final = Structure(
    {
        "Messages": ListOf(
            Structure(
                {
                    "MessageId": STRING,
                    "ReceiptHandle": STRING,
                    "MD5OfBody": STRING,
                    "Body": STRING,
                    "Attributes": MapOf(STRING, "Attribute"),
                    "MD5OfMessageAttributes": STRING,
                    "MessageAttributes": MapOf(ATTRIBUTE_VALUE, "MessageAttribute"),
                }
            ),
            "Message",
        )
    }
)

_DELETE: Final[dict[str, Shape]] = {"ReceiptHandle": STRING}
DELETE_MESSAGE_INPUT: Final = Structure(
    {"QueueUrl": STRING, **_DELETE}, required=("QueueUrl", "ReceiptHandle")
)
DELETE_MESSAGE_BATCH_INPUT: Final = _batch(
    Structure({"Id": STRING, **_DELETE}, required=("Id", "ReceiptHandle")),
    "DeleteMessageBatchRequestEntry",
)
DELETE_MESSAGE_BATCH_OUTPUT: Final = _batch_result(
    Structure({"Id": STRING}), "DeleteMessageBatchResultEntry"
)

_CHANGE: Final[dict[str, Shape]] = {"ReceiptHandle": STRING, "VisibilityTimeout": INTEGER}
CHANGE_MESSAGE_VISIBILITY_INPUT: Final = Structure(
    {"QueueUrl": STRING, **_CHANGE},
    required=("QueueUrl", "ReceiptHandle", "VisibilityTimeout"),
)
CHANGE_MESSAGE_VISIBILITY_BATCH_INPUT: Final = _batch(
    Structure({"Id": STRING, **_CHANGE}, required=("Id", "ReceiptHandle")),
    "ChangeMessageVisibilityBatchRequestEntry",
)
CHANGE_MESSAGE_VISIBILITY_BATCH_OUTPUT: Final = _batch_result(
    Structure({"Id": STRING}), "ChangeMessageVisibilityBatchResultEntry"
)

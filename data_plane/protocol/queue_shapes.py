"""Shapes of the operations on queues of the Kinesis API, as botocore's model has them."""

from typing import Final

from data_plane.core.limits import (
    KINESIS_QUEUE_ENTRIES_MAX,
    KINESIS_QUEUE_WAIT_S_MIN,
    MAX_RECEIVE_COUNT_MAX,
    PARTITION_KEY_CHARS_MAX,
    RECEIVE_MESSAGES_MAX,
    RECEIVE_WAIT_S_MAX,
    RECORD_KIB_MAX,
    STREAM_NAME_CHARS_MAX,
    VISIBILITY_TIMEOUT_S_MAX,
)
from data_plane.protocol.shapes import STRING, TIMESTAMP, Bounds, ListOf, Scalar, Shape, Structure
from data_plane.protocol.stream_shapes import NOTHING, PAGE, STREAM_ARN, TAGS, TOKEN

WAIT: Final = "WaitTimeSeconds"

_NAME: Final = Scalar("string", Bounds(1, STREAM_NAME_CHARS_MAX, "[a-zA-Z0-9_.-]+"))
_ARN: Final = Scalar("string", Bounds(1, 2_048, r"arn:aws.*:kinesis:.*:\d{12}:queue/\S+"))
_STATUS: Final = Scalar("string", Bounds(values=("CREATING", "ACTIVE", "UPDATING", "DELETING")))
_VISIBILITY: Final = Scalar("integer", Bounds(0, VISIBILITY_TIMEOUT_S_MAX))
_HANDLE: Final = Scalar("string", Bounds(1, 1_024))
_LISTED: Final = Bounds(1, 10_000)
_POSITION: Final = Structure(
    {
        "Type": Scalar("string", Bounds(values=("TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"))),
        "Timestamp": TIMESTAMP,
    },
    required=("Type",),
)
_STREAMS: Final = ListOf(
    Structure({"StreamARN": STREAM_ARN, "StartingPosition": _POSITION}, required=("StreamARN",)),
    bounds=_LISTED,
)
_ATTRIBUTES: Final = Structure(
    {
        "VisibilityTimeoutSeconds": _VISIBILITY,
        "DeadLetterConfiguration": Structure(
            {
                "TargetType": Scalar("string", Bounds(values=("BUILT_IN", "NONE"))),
                "MaxReceiveCount": Scalar("integer", Bounds(1, MAX_RECEIVE_COUNT_MAX)),
            },
            required=("TargetType",),
        ),
    }
)
_OF_QUEUE: Final[dict[str, Shape]] = {"QueueARN": _ARN}
_SHOWN: Final[dict[str, Shape]] = {
    "QueueName": _NAME,
    "QueueARN": _ARN,
    "QueueStatus": _STATUS,
    "QueueCreationTimestamp": TIMESTAMP,
}
_DESCRIBED: Final = Structure(
    {
        "QueueDescription": Structure(
            {**_SHOWN, "StreamConfigurationList": _STREAMS, "QueueAttributes": _ATTRIBUTES},
            required=(*_SHOWN, "StreamConfigurationList"),
        )
    },
    required=("QueueDescription",),
)

CREATE_QUEUE_INPUT: Final = Structure(
    {
        "QueueName": _NAME,
        "StreamConfigurationList": _STREAMS,
        "QueueAttributes": _ATTRIBUTES,
        "Tags": TAGS,
    },
    required=("QueueName", "StreamConfigurationList"),
)
CREATE_QUEUE_OUTPUT: Final = _DESCRIBED
UPDATE_QUEUE_INPUT: Final = Structure(
    {**_OF_QUEUE, "QueueAttributes": _ATTRIBUTES}, required=("QueueARN", "QueueAttributes")
)
UPDATE_QUEUE_OUTPUT: Final = _DESCRIBED
DESCRIBE_QUEUE_INPUT: Final = Structure(_OF_QUEUE, required=("QueueARN",))
DESCRIBE_QUEUE_OUTPUT: Final = _DESCRIBED
DELETE_QUEUE_INPUT: Final = Structure(_OF_QUEUE, required=("QueueARN",))
LIST_QUEUES_INPUT: Final = Structure(
    {
        "MaxResults": PAGE,
        "NextToken": TOKEN,
        "StreamFilter": ListOf(
            Structure(
                {"StreamARN": STREAM_ARN, "StreamCreationTimestamp": TIMESTAMP},
                required=("StreamARN",),
            ),
            bounds=_LISTED,
        ),
    }
)
LIST_QUEUES_OUTPUT: Final = Structure(
    {
        "QueueSummaries": ListOf(
            Structure(
                {
                    **_SHOWN,
                    "Streams": ListOf(
                        Structure(
                            {"StreamARN": STREAM_ARN, "StreamCreationTimestamp": TIMESTAMP},
                            required=("StreamARN", "StreamCreationTimestamp"),
                        ),
                        bounds=_LISTED,
                    ),
                },
                required=(*_SHOWN, "Streams"),
            )
        ),
        "NextToken": TOKEN,
    },
    required=("QueueSummaries",),
)

RECEIVE_INPUT: Final = Structure(
    {
        **_OF_QUEUE,
        "Limit": Scalar("integer", Bounds(1, RECEIVE_MESSAGES_MAX)),
        WAIT: Scalar("integer", Bounds(KINESIS_QUEUE_WAIT_S_MIN, RECEIVE_WAIT_S_MAX)),
        "VisibilityTimeoutSeconds": _VISIBILITY,
    },
    required=("QueueARN",),
)
RECEIVE_OUTPUT: Final = Structure(
    {
        "QueueRecords": ListOf(
            Structure(
                {
                    "ReceiptHandle": _HANDLE,
                    "RecordId": Scalar("string", Bounds(1, 64, "^[a-z0-9]+$")),
                    "PartitionKey": Scalar("string", Bounds(1, PARTITION_KEY_CHARS_MAX)),
                    "Data": Scalar("blob", Bounds(0, RECORD_KIB_MAX * 1_024)),
                    "ApproximateArrivalTimestamp": TIMESTAMP,
                    "FirstReceiveTimestamp": TIMESTAMP,
                    "ReceiveCount": Scalar("integer", Bounds(0)),
                },
                required=(
                    *("ReceiptHandle", "RecordId", "Data", "ApproximateArrivalTimestamp"),
                    *("FirstReceiveTimestamp", "ReceiveCount"),
                ),
            )
        )
    },
    required=("QueueRecords",),
)


def _entries(members: dict[str, Shape]) -> Structure:
    """The input of an operation on records by their handles."""
    entry = Structure({"ReceiptHandle": _HANDLE, **members}, ("ReceiptHandle", *members))
    bounds = Bounds(1, KINESIS_QUEUE_ENTRIES_MAX)
    return Structure(
        {**_OF_QUEUE, "Entries": ListOf(entry, bounds=bounds)}, required=("QueueARN", "Entries")
    )


HANDLES_INPUT: Final = _entries({})
VISIBILITY_INPUT: Final = _entries({"VisibilityTimeoutSeconds": _VISIBILITY})
ENTRIES_OUTPUT: Final = Structure(
    {
        "Successful": ListOf(Structure({"ReceiptHandle": _HANDLE}, required=("ReceiptHandle",))),
        "Failed": ListOf(
            Structure(
                {"ReceiptHandle": _HANDLE, "ErrorCode": STRING, "ErrorMessage": STRING},
                required=("ReceiptHandle", "ErrorCode"),
            )
        ),
    },
    required=("Successful", "Failed"),
)

QUEUE_SHAPES: Final = {
    "AcknowledgeDeadLetterQueueRecords": (HANDLES_INPUT, ENTRIES_OUTPUT),
    "AcknowledgeQueueRecords": (HANDLES_INPUT, ENTRIES_OUTPUT),
    "CreateQueue": (CREATE_QUEUE_INPUT, CREATE_QUEUE_OUTPUT),
    "DeleteQueue": (DELETE_QUEUE_INPUT, NOTHING),
    "DescribeQueue": (DESCRIBE_QUEUE_INPUT, DESCRIBE_QUEUE_OUTPUT),
    "ListQueues": (LIST_QUEUES_INPUT, LIST_QUEUES_OUTPUT),
    "ReceiveDeadLetterQueueRecords": (RECEIVE_INPUT, RECEIVE_OUTPUT),
    "ReceiveQueueRecords": (RECEIVE_INPUT, RECEIVE_OUTPUT),
    "RestoreDeadLetterQueueRecords": (HANDLES_INPUT, ENTRIES_OUTPUT),
    "UpdateDeadLetterQueueRecordsVisibility": (VISIBILITY_INPUT, ENTRIES_OUTPUT),
    "UpdateQueue": (UPDATE_QUEUE_INPUT, UPDATE_QUEUE_OUTPUT),
    "UpdateQueueRecordsVisibility": (VISIBILITY_INPUT, ENTRIES_OUTPUT),
}
"""Input and output by operation."""

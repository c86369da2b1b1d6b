"""Shapes of the queue operations, as botocore's SQS model has them, and their Query names."""

from data_plane.protocol.shapes import INTEGER, STRING, ListOf, MapOf, Structure

NOTHING = Structure()

_ATTRIBUTES = MapOf(STRING, "Attribute")
_TAGS = MapOf(STRING, "Tag", "Key", "Value")
_QUEUE_URL = Structure({"QueueUrl": STRING})
_QUEUE_URLS = ListOf(STRING, "QueueUrl")

ONLY_QUEUE_URL = Structure({"QueueUrl": STRING}, required=("QueueUrl",))

CREATE_QUEUE_INPUT = Structure(
    {"QueueName": STRING, "Attributes": _ATTRIBUTES, "tags": _TAGS},
    required=("QueueName",),
)
CREATE_QUEUE_OUTPUT = _QUEUE_URL

GET_QUEUE_URL_INPUT = Structure(
    {"QueueName": STRING, "QueueOwnerAWSAccountId": STRING},
    required=("QueueName",),
)
GET_QUEUE_URL_OUTPUT = _QUEUE_URL

LIST_QUEUES_INPUT = Structure(
    {"QueueNamePrefix": STRING, "NextToken": STRING, "MaxResults": INTEGER}
)
LIST_QUEUES_OUTPUT = Structure({"QueueUrls": _QUEUE_URLS, "NextToken": STRING})

LIST_DEAD_LETTER_SOURCE_QUEUES_INPUT = Structure(
    {"QueueUrl": STRING, "NextToken": STRING, "MaxResults": INTEGER},
    required=("QueueUrl",),
)
LIST_DEAD_LETTER_SOURCE_QUEUES_OUTPUT = Structure({"queueUrls": _QUEUE_URLS, "NextToken": STRING})

GET_QUEUE_ATTRIBUTES_INPUT = Structure(
    {"QueueUrl": STRING, "AttributeNames": ListOf(STRING, "AttributeName")},
    required=("QueueUrl",),
)
GET_QUEUE_ATTRIBUTES_OUTPUT = Structure({"Attributes": _ATTRIBUTES})

SET_QUEUE_ATTRIBUTES_INPUT = Structure(
    {"QueueUrl": STRING, "Attributes": _ATTRIBUTES},
    required=("QueueUrl", "Attributes"),
)

TAG_QUEUE_INPUT = Structure(
    {"QueueUrl": STRING, "Tags": _TAGS},
    required=("QueueUrl", "Tags"),
)
UNTAG_QUEUE_INPUT = Structure(
    {"QueueUrl": STRING, "TagKeys": ListOf(STRING, "TagKey")},
    required=("QueueUrl", "TagKeys"),
)
LIST_QUEUE_TAGS_OUTPUT = Structure({"Tags": _TAGS})

ADD_PERMISSION_INPUT = Structure(
    {
        "QueueUrl": STRING,
        "Label": STRING,
        "AWSAccountIds": ListOf(STRING, "AWSAccountId"),
        "Actions": ListOf(STRING, "ActionName"),
    },
    required=("QueueUrl", "Label", "AWSAccountIds", "Actions"),
)
REMOVE_PERMISSION_INPUT = Structure(
    {"QueueUrl": STRING, "Label": STRING},
    required=("QueueUrl", "Label"),
)

START_MESSAGE_MOVE_TASK_INPUT = Structure(
    {
        "SourceArn": STRING,
        "DestinationArn": STRING,
        "MaxNumberOfMessagesPerSecond": INTEGER,
    },
    required=("SourceArn",),
)
START_MESSAGE_MOVE_TASK_OUTPUT = Structure({"TaskHandle": STRING})

LIST_MESSAGE_MOVE_TASKS_INPUT = Structure(
    {"SourceArn": STRING, "MaxResults": INTEGER},
    required=("SourceArn",),
)
LIST_MESSAGE_MOVE_TASKS_OUTPUT = Structure(
    {
        "Results": ListOf(
            Structure(
                {
                    "TaskHandle": STRING,
                    "Status": STRING,
                    "SourceArn": STRING,
                    "DestinationArn": STRING,
                    "MaxNumberOfMessagesPerSecond": INTEGER,
                    "ApproximateNumberOfMessagesMoved": INTEGER,
                    "ApproximateNumberOfMessagesToMove": INTEGER,
                    "FailureReason": STRING,
                    "StartedTimestamp": INTEGER,
                }
            ),
            "ListMessageMoveTasksResultEntry",
        )
    }
)

CANCEL_MESSAGE_MOVE_TASK_INPUT = Structure({"TaskHandle": STRING}, required=("TaskHandle",))
CANCEL_MESSAGE_MOVE_TASK_OUTPUT = Structure({"ApproximateNumberOfMessagesMoved": INTEGER})

"""The limits of queues, their attributes, permissions and tags, and of lists of queues."""

import json

from tests.conformance.in_process import ACCOUNT, REGION
from tests.conformance.limit_cases import (
    ORDERS,
    SMALL,
    Limit,
    Params,
    always,
    invalid,
)
from tests.conformance.raw_calls import Bench, url


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def set_attributes(**attributes: str) -> Params:
    return {"QueueUrl": url("settings"), "Attributes": attributes}


def attribute_limit(attribute: str, low: int, high: int, *names: str) -> Limit:
    return Limit(
        names,
        "SetQueueAttributes",
        lambda _, value: set_attributes(**{attribute: str(value)}),
        low,
        high,
        always("InvalidAttributeValue", f"Invalid value for the parameter {attribute}."),
        attribute,
    )


def page_limit(action: str, **params: str) -> Limit:
    return Limit(
        ("LIST_RESULTS_MAX",),
        action,
        lambda _, size: {**params, "MaxResults": size},
        1,
        1000,
        invalid(
            "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer "
            "between 1 and 1000."
        ),
    )


def redrive_policy(count: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": count})


def empty_dead_letter_queue(bench: Bench, number: int) -> str:
    """The ARN of one that no task moves messages from yet."""
    bench.ask("CreateQueue", QueueName=f"dead{number}")
    policy = json.dumps({"deadLetterTargetArn": arn(f"dead{number}"), "maxReceiveCount": 1})
    bench.ask("CreateQueue", QueueName=f"of{number}", Attributes={"RedrivePolicy": policy})
    return arn(f"dead{number}")


def allow_policy(count: int) -> str:
    sources = [arn(f"source{number}") for number in range(count)]
    return json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": sources})


def permission(label: str, count: int = 1) -> Params:
    actions = [
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "PurgeQueue",
        "ListDeadLetterSourceQueues",
    ]
    return {
        "QueueUrl": ORDERS,
        "Label": label,
        "AWSAccountIds": [ACCOUNT],
        "Actions": actions[:count],
    }


NAME_RULE = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_NAME_RULE = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)

QUEUES = [
    Limit(
        ("QUEUE_NAME_CHARS_MAX",),
        "CreateQueue",
        lambda _, size: {"QueueName": "q" * size},
        1,
        80,
        lambda size: (
            "InvalidParameterValue",
            NAME_RULE if size else "Queue name cannot be empty",
        ),
    ),
    Limit(
        ("QUEUE_NAME_CHARS_MAX",),
        "CreateQueue",
        lambda _, size: {
            "QueueName": "q" * (size - 5) + ".fifo",
            "Attributes": {"FifoQueue": "true"},
        },
        6,
        80,
        invalid(FIFO_NAME_RULE),
        "name of a FIFO queue",
    ),
    attribute_limit(
        "VisibilityTimeout", 0, 43_200, "VISIBILITY_TIMEOUT_S_MAX", "VISIBILITY_TIMEOUT_S_DEFAULT"
    ),
    attribute_limit("DelaySeconds", 0, 900, "DELAY_S_MAX"),
    attribute_limit(
        "MaximumMessageSize",
        1024,
        1_048_576,
        "QUEUE_MESSAGE_SIZE_BYTES_MIN",
        "QUEUE_MESSAGE_SIZE_BYTES_DEFAULT",
    ),
    attribute_limit(
        "MessageRetentionPeriod",
        60,
        1_209_600,
        "RETENTION_S_MIN",
        "RETENTION_S_MAX",
        "RETENTION_S_DEFAULT",
    ),
    attribute_limit("ReceiveMessageWaitTimeSeconds", 0, 20, "RECEIVE_WAIT_S_MAX"),
    attribute_limit(
        "KmsDataKeyReusePeriodSeconds",
        60,
        86_400,
        "KMS_DATA_KEY_REUSE_S_MIN",
        "KMS_DATA_KEY_REUSE_S_MAX",
        "KMS_DATA_KEY_REUSE_S_DEFAULT",
    ),
    Limit(
        ("MAX_RECEIVE_COUNT_MAX",),
        "SetQueueAttributes",
        lambda _, count: set_attributes(RedrivePolicy=redrive_policy(count)),
        1,
        1000,
        lambda count: (
            "InvalidParameterValue",
            (
                f"Value {redrive_policy(count)} for parameter RedrivePolicy is invalid. Reason: "
                f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both "
                "inclusive."
            ),
        ),
    ),
    Limit(
        ("REDRIVE_SOURCE_QUEUES_MAX",),
        "SetQueueAttributes",
        lambda _, count: set_attributes(RedriveAllowPolicy=allow_policy(count)),
        1,
        10,
        lambda count: (
            "InvalidParameterValue",
            f"Value {allow_policy(count)} for parameter RedriveAllowPolicy is invalid. Reason: "
            "Amazon SQS can't create the redrive allow policy. "
            + (
                "The maximum number of source queue ARNs you can specify is 10."
                if count
                else "When you specify the byQueue permission type, you must also specify one or "
                "more sourceQueueArns values."
            ),
        ),
    ),
    Limit(
        ("PERMISSION_LABEL_CHARS_MAX",),
        "AddPermission",
        lambda _, size: permission("l" * size),
        1,
        80,
        lambda size: (
            (
                "InvalidParameterValue",
                (
                    f"Value {'l' * size} for parameter Label is invalid. Reason: Can only include "
                    "alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
                ),
            )
            if size
            else ("MissingParameter", "The request must contain the parameter Label.")
        ),
    ),
    Limit(
        ("STATEMENT_ACTIONS_MAX",),
        "AddPermission",
        lambda _, count: permission(f"actions-{count}", count),
        1,
        7,
        lambda count: (
            ("OverLimit", "8 Actions were found, maximum allowed is 7.")
            if count
            else ("MissingParameter", "The request must contain the parameter Actions.")
        ),
    ),
    Limit(
        ("TAGS_MAX",),
        "TagQueue",
        lambda _, count: {
            "QueueUrl": SMALL,
            "Tags": {f"k{number}": "" for number in range(count)},
        },
        1,
        50,
        lambda count: (
            ("InvalidParameterValue", "Too many tags added for queue small.")
            if count
            else ("MissingParameter", "The request must contain the parameter Tags.")
        ),
    ),
    Limit(
        ("TAG_KEY_CHARS_MAX",),
        "TagQueue",
        lambda _, size: {"QueueUrl": ORDERS, "Tags": {"k" * size: ""}},
        1,
        128,
        invalid("Tag keys must be between 1 and 128 characters in length."),
    ),
    Limit(
        ("TAG_VALUE_CHARS_MAX",),
        "TagQueue",
        lambda _, size: {"QueueUrl": ORDERS, "Tags": {"k": "v" * size}},
        None,
        256,
        invalid("Tag values must be at most 256 characters in length."),
    ),
    Limit(
        ("KMS_KEY_ID_CHARS_MAX",),
        "SetQueueAttributes",
        lambda _, size: set_attributes(KmsMasterKeyId="k" * size),
        None,
        2048,
        always("InvalidAttributeValue", "Invalid value for the parameter KmsMasterKeyId."),
    ),
    Limit(
        ("MOVED_PER_SECOND_MAX",),
        "StartMessageMoveTask",
        lambda bench, rate: {
            "SourceArn": empty_dead_letter_queue(bench, rate),
            "MaxNumberOfMessagesPerSecond": rate,
        },
        1,
        500,
        invalid(
            "Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: You must enter "
            "a number that's between 1 and 500."
        ),
    ),
    Limit(
        ("MOVE_TASKS_LISTED_MAX",),
        "ListMessageMoveTasks",
        lambda _, count: {"SourceArn": arn("dead"), "MaxResults": count},
        1,
        10,
        invalid(
            "Value for parameter MaxResults is invalid. Reason: You must enter a number that's "
            "between 1 and 10."
        ),
    ),
    page_limit("ListQueues"),
    page_limit("ListDeadLetterSourceQueues", QueueUrl=url("dead")),
]

"""Message move tasks that are refused, through clients of both protocols."""

import base64
import json
from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION
from tests.conformance.test_boto3_dead_letters import arn_of

TASK_ID = "10f57157-fc38-4da9-a113-4de7e12d05aa"

WRONG_STARTS = [
    ({}, "InvalidParameterValue", 400, "Source queue must be configured as a Dead Letter Queue."),
    (
        {"SourceArn": arn_of("missing")},
        "ResourceNotFoundException",
        404,
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    ),
    (
        {"SourceArn": f"arn:aws:sqs:{REGION}:444455556666:plain"},
        "ResourceNotFoundException",
        404,
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    ),
    (
        {"SourceArn": f"arn:aws:sqs:us-west-2:{ACCOUNT}:plain"},
        "ResourceNotFoundException",
        404,
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    ),
    (
        {"SourceArn": "plain"},
        "InvalidParameterValue",
        400,
        (
            "You must use this format to specify the SourceArn: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        ),
    ),
    (
        {"DestinationArn": "plain"},
        "InvalidParameterValue",
        400,
        (
            "You must use this format to specify the DestinationArn: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        ),
    ),
    (
        {"DestinationArn": arn_of("missing")},
        "ResourceNotFoundException",
        404,
        "The resource that you specified for the DestinationArn parameter doesn't exist.",
    ),
    (
        {"DestinationArn": arn_of("plain")},
        "InvalidParameterValue",
        400,
        "Source queue arn and destination queue arn cannot be the same.",
    ),
    (
        {"DestinationArn": arn_of("ordered.fifo")},
        "InvalidParameterValue",
        400,
        "The source queue and destination queue must be of the same queue type.",
    ),
    *(
        (
            {"MaxNumberOfMessagesPerSecond": rate},
            "InvalidParameterValue",
            400,
            (
                "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
                "Reason: You must enter a number that's between 1 and 500."
            ),
        )
        for rate in (-1, 0, 501)
    ),
]


@pytest.mark.parametrize(("params", "code", "status", "message"), WRONG_STARTS)
def test_a_task_that_cannot_start(
    sqs: Any, params: dict[str, Any], code: str, status: int, message: str
) -> None:
    sqs.create_queue(QueueName="plain")
    sqs.create_queue(QueueName="ordered.fifo", Attributes={"FifoQueue": "true"})
    wanted = {"SourceArn": arn_of("plain"), **params}
    assert error(sqs.start_message_move_task, **wanted) == (code, message, status)


def test_lists_that_are_refused(sqs: Any) -> None:
    sqs.create_queue(QueueName="plain")
    for count in (0, 11):
        code, message, status = error(
            sqs.list_message_move_tasks, SourceArn=arn_of("plain"), MaxResults=count
        )
        assert (code, status) == ("InvalidParameterValue", 400)
        assert message.startswith("Value for parameter MaxResults is invalid.")
    code, message, status = error(sqs.list_message_move_tasks, SourceArn=arn_of("missing"))
    assert (code, status) == ("ResourceNotFoundException", 404)


def test_cancellations_that_are_refused(sqs: Any) -> None:
    sqs.create_queue(QueueName="plain")
    cases = [
        ("foobared", "InvalidParameterValue", 400, "Value for parameter TaskHandle is invalid."),
        (
            handle_of("missing"),
            "ResourceNotFoundException",
            404,
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
        (handle_of("plain"), "ResourceNotFoundException", 404, "Task does not exist."),
    ]
    for handle, code, status, message in cases:
        assert error(sqs.cancel_message_move_task, TaskHandle=handle) == (code, message, status)


def handle_of(name: str) -> str:
    document = {"taskId": TASK_ID, "sourceArn": arn_of(name)}
    return base64.b64encode(json.dumps(document).encode()).decode()

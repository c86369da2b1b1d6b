"""Calls of SDK clients as the conformance tests make them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError


def error(call: Any, **params: Any) -> tuple[str, str, int]:
    """Code, message and status as the SDK shows them."""
    with pytest.raises(ClientError) as failed:
        call(**params)
    answer = failed.value.response
    return (
        answer["Error"]["Code"],
        answer["Error"]["Message"],
        answer["ResponseMetadata"]["HTTPStatusCode"],
    )


def one(sqs: Any, url: str, **options: Any) -> dict[str, Any]:
    """Receive the one message there is."""
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **options)["Messages"]
    assert len(messages) == 1
    return dict(messages[0])


def nothing(sqs: Any, url: str) -> bool:
    """Whether there is no message to receive."""
    return "Messages" not in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)

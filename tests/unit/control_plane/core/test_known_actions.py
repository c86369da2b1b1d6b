"""A policy that names an action which does not exist is told, before it allows nothing."""

import json

import pytest

from control_plane.core.account import check_policies
from control_plane.core.known_actions import unknown_action
from data_plane.core.errors import RefusedError


def policy(*actions: str, name: str = "Action") -> str:
    statement = {"Effect": "Allow", name: list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": statement})


@pytest.mark.parametrize(
    "action",
    [
        *("*", "sqs:*", "SQS:sendmessage", "sqs:Send*", "sqs:?eceiveMessage", "sqs:ListQueues"),
        *("sqs:SendMessageBatch", "s3:GetObjekt"),
    ],
)
def test_actions_that_exist_and_those_of_others_are_let_be(action: str) -> None:
    assert unknown_action(policy("sqs:GetQueueUrl", action)) is None
    assert unknown_action(policy(action, name="NotAction")) is None


@pytest.mark.parametrize(
    ("action", "hint"),
    [
        ("sqs:SendMesage", " (it may be sqs:SendMessage)"),
        ("sqs:GetQueueAttribute", " (it may be sqs:GetQueueAttributes)"),
        ("sqs:Xyz*", ""),
        ("sqs:", ""),
    ],
)
def test_others_are_named_with_what_was_meant(action: str, hint: str) -> None:
    assert unknown_action(policy("sqs:*", action)) == f"there is no action {action}{hint}"


def test_a_user_is_not_made_with_such_a_policy() -> None:
    check_policies([policy("sqs:SendMessage")])
    with pytest.raises(RefusedError, match=r"Policy 2 is not valid: there is no action sqs:Sen\."):
        check_policies([policy("sqs:*"), policy("sqs:Sen")])

"""Permissions and policies through unmodified boto3 (JSON) and botocore on the Query protocol."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders"
FIRST, SECOND = "668614515564", "999999999999"


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


def policy(sqs: Any, url: str) -> Any:
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {})
    return json.loads(shown["Policy"]) if shown else None


def add(url: str, label: str, accounts: list[str], *actions: str) -> dict[str, Any]:
    return {
        "QueueUrl": url,
        "Label": label,
        "AWSAccountIds": accounts,
        "Actions": list(actions) or ["ReceiveMessage"],
    }


def statement(label: str, accounts: Any, action: Any = "SQS:ReceiveMessage") -> dict[str, Any]:
    return {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": accounts},
        "Action": action,
        "Resource": ARN,
    }


def root(account: str) -> str:
    return f"arn:aws:iam::{account}:root"


def test_the_life_of_permissions(sqs: Any, url: str) -> None:
    """Step by step as recorded from AWS."""
    frame = {"Version": "2008-10-17", "Id": f"{ARN}/SQSDefaultPolicy"}
    sqs.add_permission(**add(url, "crossaccount", [FIRST, SECOND]))
    both = statement("crossaccount", [root(FIRST), root(SECOND)])
    assert policy(sqs, url) == frame | {"Statement": [both]}
    sqs.remove_permission(QueueUrl=url, Label="crossaccount")
    assert policy(sqs, url) is None

    sqs.add_permission(**add(url, "crossaccount", [FIRST]))
    one = statement("crossaccount", root(FIRST))
    assert policy(sqs, url) == frame | {"Statement": [one]}
    assert error(sqs.add_permission, **add(url, "crossaccount", [SECOND])) == (
        "InvalidParameterValue",
        "Value crossaccount for parameter Label is invalid. Reason: Already exists.",
        400,
    )
    sqs.add_permission(**add(url, "crossaccount2", [FIRST]))
    two = statement("crossaccount2", root(FIRST))
    assert policy(sqs, url) == frame | {"Statement": [one, two]}
    sqs.remove_permission(QueueUrl=url, Label="crossaccount")
    assert policy(sqs, url) == frame | {"Statement": [two]}
    sqs.remove_permission(QueueUrl=url, Label="crossaccount2")
    assert policy(sqs, url) is None
    assert error(sqs.remove_permission, QueueUrl=url, Label="crossaccount2") == (
        "InvalidParameterValue",
        "Value crossaccount2 for parameter Label is invalid. Reason: can't find label.",
        400,
    )


def test_several_actions_are_a_list(sqs: Any, url: str) -> None:
    actions = ["SendMessage", "ReceiveMessage", "*"]
    sqs.add_permission(**add(url, "l", [FIRST], *actions))
    listed = [f"SQS:{action}" for action in actions]
    assert policy(sqs, url)["Statement"] == [statement("l", root(FIRST), listed)]


def test_wrong_permissions(sqs: Any, url: str) -> None:
    too_many = [
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    ]
    for wanted, expected in (
        (
            add(url, "l", [FIRST], "RemovePermission"),
            (
                "InvalidParameterValue",
                (
                    "Value SQS:RemovePermission for parameter ActionName is invalid. "
                    "Reason: Only the queue owner is allowed to invoke this action."
                ),
                400,
            ),
        ),
        (
            add(url, "l", [FIRST], *too_many),
            ("OverLimit", "8 Actions were found, maximum allowed is 7.", 403),
        ),
        (
            add(url, "l", []),
            (
                "InvalidParameterValue",
                (
                    "Value [] for parameter PrincipalId is invalid. "
                    "Reason: Unable to verify principal."
                ),
                400,
            ),
        ),
        (
            add(url, "l", [FIRST]) | {"Actions": []},
            ("MissingParameter", "The request must contain the parameter Actions.", 400),
        ),
        (
            add(url, "", [FIRST]),
            ("MissingParameter", "The request must contain the parameter Label.", 400),
        ),
    ):
        assert error(sqs.add_permission, **wanted) == expected
    assert policy(sqs, url) is None
    code, message, status = error(sqs.add_permission, **add(url, "x" * 81, [FIRST]))
    assert (code, status) == ("InvalidParameterValue", 400)
    assert message.startswith(f"Value {'x' * 81} for parameter Label is invalid. Reason: ")


def test_a_queue_that_is_not_there_has_no_permissions(sqs: Any) -> None:
    missing = f"http://localhost/{ACCOUNT}/missing"
    for call, params in (
        (sqs.add_permission, add(missing, "l", [FIRST])),
        (sqs.remove_permission, {"QueueUrl": missing, "Label": "l"}),
    ):
        assert error(call, **params)[::2] == ("AWS.SimpleQueueService.NonExistentQueue", 400)


def test_boto3_raises_the_modelled_exception(server: InProcessServer) -> None:
    sqs = server.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    with pytest.raises(sqs.exceptions.OverLimit):
        sqs.add_permission(**add(url, "l", [FIRST], *["SendMessage"] * 8))


def test_what_should_be_an_arn_is_taken_as_it_is(sqs: Any, url: str) -> None:
    """Recorded from AWS, with a template whose variables nobody had filled in."""
    condition = {"ArnEquals": {"aws:SourceArn": "'$sns_topic_arn'"}}
    held = {**statement("s", "*"), "Resource": "'$sqs_queue_arn'", "Condition": condition}
    text = json.dumps({"Version": "2012-10-17", "Statement": [held]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": text})
    assert policy(sqs, url) == json.loads(text)


def test_wrong_policies(sqs: Any, url: str) -> None:
    right = statement("s", "*")
    unknown = json.dumps({"Statement": [{**right, "Condition": {"Like": {"aws:SourceArn": "a"}}}]})
    wrong_policies = ("badjson", "[]", '{"Statement":[]}', '{"Statement":{}}', unknown)
    for wrong in wrong_policies:
        for call, params in (
            (sqs.set_queue_attributes, {"QueueUrl": url}),
            (sqs.create_queue, {"QueueName": "new"}),
        ):
            assert error(call, Attributes={"Policy": wrong}, **params) == (
                "InvalidAttributeValue",
                "Invalid value for the parameter Policy.",
                400,
            )
    for big, expected in (
        ({"Statement": [right] * 21}, "21 statements were found in the submitted policy, "),
        ({"Statement": [right], "Id": "i" * 8192}, "Submitted policy is over max allowed size."),
    ):
        over = {"Policy": json.dumps(big)}
        with pytest.raises(ClientError) as failed:
            sqs.set_queue_attributes(QueueUrl=url, Attributes=over)
        answer = failed.value.response
        assert answer["Error"]["Code"] == "OverLimit"
        assert answer["Error"]["Message"].startswith(expected)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert policy(sqs, url) is None

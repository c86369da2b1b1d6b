"""AddPermission and RemovePermission on stored queues; the rules are core/access_policy.py's."""

import asyncio
import json
from typing import Any

from tests.unit.control_plane.conftest import ACCOUNT, refusal

OTHER = "999999999999"


def permission(label: str, *actions: str) -> dict[str, Any]:
    return {
        "QueueUrl": "orders",
        "Label": label,
        "AWSAccountIds": [OTHER],
        "Actions": list(actions) or ["SendMessage"],
    }


def labels(control: Any) -> list[str]:
    policy = control.attributes("orders", "Policy").get("Policy")
    return [statement["Sid"] for statement in json.loads(policy)["Statement"]] if policy else []


def test_permissions_come_and_go(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.clock.advance(10)
    for label in ("one", "two"):
        assert control.call("AddPermission", **permission(label)) == {}
    assert labels(control) == ["one", "two"]
    times = control.attributes("orders", "CreatedTimestamp", "LastModifiedTimestamp")
    assert int(times["LastModifiedTimestamp"]) == int(times["CreatedTimestamp"]) + 10
    assert control.call("RemovePermission", QueueUrl="orders", Label="one") == {}
    assert labels(control) == ["two"]
    control.call("RemovePermission", QueueUrl="orders", Label="two")
    assert "Policy" not in control.attributes("orders", "All")


def test_a_permission_edits_the_policy_that_was_set(control: Any) -> None:
    policy = {
        "Version": "2012-10-17",
        "Statement": {
            "Sid": "mine",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": "*",
        },
    }
    attributes = {"Policy": json.dumps(policy)}
    control.call("CreateQueue", QueueName="orders", Attributes=attributes)
    control.call("AddPermission", **permission("added"))
    assert labels(control) == ["mine", "added"]
    taken = "Value mine for parameter Label is invalid. Reason: Already exists."
    assert refusal(control, "AddPermission", **permission("mine")).endswith(taken)
    control.call("RemovePermission", QueueUrl="orders", Label="mine")
    assert labels(control) == ["added"]
    control.call("SetQueueAttributes", QueueUrl="orders", Attributes={"Policy": ""})
    assert refusal(control, "RemovePermission", QueueUrl="orders", Label="added").endswith(
        "Reason: can't find label."
    )


def test_the_very_permission_again_is_no_change(control: Any) -> None:
    """An SDK repeats a call whose answer was lost."""
    control.call("CreateQueue", QueueName="orders")
    control.call("AddPermission", **permission("one"))
    before = control.cell.items()
    control.clock.advance(10)
    assert control.call("AddPermission", **permission("one")) == {}
    assert control.cell.items() == before


def test_what_is_refused_changes_nothing(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    assert refusal(control, "AddPermission", **permission("one", "CreateQueue")).startswith(
        "InvalidParameterValue: Value SQS:CreateQueue for parameter ActionName is invalid."
    )
    for number in range(20):
        control.call("AddPermission", **permission(f"l{number}"))
    assert refusal(control, "AddPermission", **permission("l20")) == (
        "OverLimit: 21 Statements were found, maximum allowed is 20."
    )


def test_permissions_given_at_the_same_time_are_all_there(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")

    async def interleaved() -> None:
        control.cell.before_answer = lambda: control.perform("AddPermission", **permission("two"))
        await control.perform("AddPermission", **permission("one"))

    asyncio.run(interleaved())
    assert sorted(labels(control)) == ["one", "two"]


def test_a_label_is_its_queues_own(control: Any) -> None:
    for name in ("orders", "other"):
        control.call("CreateQueue", QueueName=name)
    control.call("AddPermission", **permission("one"))
    control.call("AddPermission", **(permission("one", "*") | {"QueueUrl": "other"}))
    policy = json.loads(control.attributes("other", "Policy")["Policy"])
    assert policy["Statement"][0]["Resource"] == f"arn:aws:sqs:eu-west-1:{ACCOUNT}:other"

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from control_plane.core.definition import Definition
from data_plane.core.message import Counts
from tests.unit.control_plane.conftest import ACCOUNT, refusal

STANDARD_ATTRIBUTES = {
    "VisibilityTimeout",
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "SqsManagedSseEnabled",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
}
URL = f"http://localhost:9324/{ACCOUNT}/"


def test_the_catalog(control: Any) -> None:
    assert list(control.operations) == [
        "CreateQueue",
        "GetQueueUrl",
        "ListQueues",
        "DeleteQueue",
        "GetQueueAttributes",
        "SetQueueAttributes",
        "PurgeQueue",
        "TagQueue",
        "UntagQueue",
        "ListQueueTags",
        "ListDeadLetterSourceQueues",
        "AddPermission",
        "RemovePermission",
        "StartMessageMoveTask",
        "ListMessageMoveTasks",
        "CancelMessageMoveTask",
    ]


def test_create_is_idempotent_for_the_attributes_given(control: Any) -> None:
    attributes = {"DelaySeconds": "5"}
    first = control.call("CreateQueue", QueueName="orders", Attributes=attributes)
    uid = control.find("orders").uid
    assert first == {"QueueUrl": URL + "orders"}
    for same in ({}, attributes, {"VisibilityTimeout": "30"}):
        assert control.call("CreateQueue", QueueName="orders", Attributes=same) == first
    assert control.call("CreateQueue", QueueName="orders", tags={"a": "b"}) == first
    assert control.find("orders").uid == uid
    assert refusal(
        control, "CreateQueue", QueueName="orders", Attributes={"DelaySeconds": "6"}
    ) == (
        "QueueAlreadyExists: A queue already exists with the same name and a different value for "
        "attribute DelaySeconds"
    )


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("orders", {"FifoQueue": "true"}, "InvalidParameterValue: The name of a FIFO queue"),
        ("orders", {"FifoQueue": "false"}, "InvalidAttributeName: Unknown Attribute FifoQueue."),
        ("orders.fifo", {}, "InvalidParameterValue: Can only include alphanumeric characters,"),
        (
            "orders.fifo",
            {"FifoQueue": "false"},
            "InvalidAttributeName: Unknown Attribute FifoQueue.",
        ),
        (
            "orders.fifo",
            {"FifoQueue": "true", "DelaySeconds": "x"},
            "InvalidAttributeValue: Invalid value for the parameter DelaySeconds.",
        ),
        (
            "orders.fifo",
            {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"},
            "InvalidAttributeValue: Invalid value for the parameter FifoThroughputLimit. Reason: ",
        ),
        ("or.fifo.fifo", {"FifoQueue": "true"}, "InvalidParameterValue: The name of a FIFO queue"),
    ],
)
def test_types_of_queues(
    control: Any, name: str, attributes: dict[str, str], expected: str
) -> None:
    answer = refusal(control, "CreateQueue", QueueName=name, Attributes=attributes)
    assert answer.startswith(expected)


def test_a_deleted_name_is_not_free_for_60_seconds(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    uid = control.find("orders").uid
    assert control.call("DeleteQueue", QueueUrl="orders") == {}
    assert control.messages.dropped_uids == [uid]
    control.clock.advance(59)
    assert refusal(control, "CreateQueue", QueueName="orders").startswith(
        "AWS.SimpleQueueService.QueueDeletedRecently: You must wait 60 seconds"
    )
    control.clock.advance(1)
    control.call("CreateQueue", QueueName="orders")
    assert control.find("orders").uid != uid


def test_the_rules_can_be_off(lenient: Any) -> None:
    lenient.call("CreateQueue", QueueName="orders")
    lenient.call("DeleteQueue", QueueUrl="orders")
    lenient.call("CreateQueue", QueueName="orders")
    for _ in range(2):
        lenient.call("PurgeQueue", QueueUrl="orders")
    assert lenient.messages.purged == ["orders"] * 2


def test_queue_urls_are_for_the_callers_own_queues(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    assert control.call("GetQueueUrl", QueueName="orders") == {"QueueUrl": URL + "orders"}
    own = control.call("GetQueueUrl", QueueName="orders", QueueOwnerAWSAccountId=ACCOUNT)
    assert own == {"QueueUrl": URL + "orders"}
    missing = "AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist."
    assert refusal(control, "GetQueueUrl", QueueName="other") == missing
    foreign = {"account": "9" * 12, "QueueName": "orders"}
    assert refusal(control, "GetQueueUrl", **foreign) == missing
    assert refusal(control, "GetQueueUrl", QueueOwnerAWSAccountId=ACCOUNT, **foreign) == missing
    assert refusal(control, "GetQueueUrl", QueueName="orders", region="us-east-1") == missing


def test_attributes_of_a_queue(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"DelaySeconds": "5"})
    created = str(control.clock.now_us() // 1_000_000)
    control.messages.known = Counts(visible=3, in_flight=2, delayed=1, oldest_sent_ms=0)
    assert control.attributes("orders", "All") == {
        "VisibilityTimeout": "30",
        "DelaySeconds": "5",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "ApproximateNumberOfMessages": "3",
        "ApproximateNumberOfMessagesNotVisible": "2",
        "ApproximateNumberOfMessagesDelayed": "1",
        "CreatedTimestamp": created,
        "LastModifiedTimestamp": created,
        "QueueArn": f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders",
    }
    assert control.messages.counted == ["orders"]
    assert control.attributes("orders", "DelaySeconds") == {"DelaySeconds": "5"}
    assert control.attributes("orders") == {}
    assert control.messages.counted == ["orders"]
    unknown = {"QueueUrl": "orders", "AttributeNames": ["All", "Nonsense"]}
    assert refusal(control, "GetQueueAttributes", **unknown) == (
        "InvalidAttributeName: Unknown Attribute Nonsense."
    )


def test_setting_attributes_is_all_or_nothing(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"DelaySeconds": "5"})
    control.clock.advance(10)
    mixed = {"VisibilityTimeout": "60", "DelaySeconds": "901"}
    assert refusal(control, "SetQueueAttributes", QueueUrl="orders", Attributes=mixed) == (
        "InvalidAttributeValue: Invalid value for the parameter DelaySeconds."
    )
    assert refusal(control, "SetQueueAttributes", QueueUrl="orders", Attributes={}) == (
        "MissingParameter: The request must contain the parameter Attribute.Name."
    )
    control.call("SetQueueAttributes", QueueUrl="orders", Attributes={"VisibilityTimeout": "60"})
    shown = control.attributes("orders", "All")
    assert (shown["VisibilityTimeout"], shown["DelaySeconds"]) == ("60", "5")
    assert int(shown["LastModifiedTimestamp"]) == int(shown["CreatedTimestamp"]) + 10


def redrive(target: str) -> dict[str, str]:
    arn = f"arn:aws:sqs:{target}"
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (f"eu-west-1:{ACCOUNT}:missing", "Dead letter target does not exist."),
        (
            f"us-east-1:{ACCOUNT}:dead",
            "Dead-letter target must be in same region as the source.",
        ),
        ("eu-west-1:999999999999:dead", "Dead-letter target owner should be same as the source."),
        (
            f"eu-west-1:{ACCOUNT}:dead.fifo",
            "Dead-letter queue must be same type of queue as the source..",
        ),
    ],
)
def test_a_dead_letter_queue_must_fit(control: Any, target: str, reason: str) -> None:
    for name in ("dead", "orders"):
        control.call("CreateQueue", QueueName=name)
    wanted = redrive(target)
    expected = (
        f"InvalidParameterValue: Value {wanted['RedrivePolicy']} for parameter RedrivePolicy is "
        f"invalid. Reason: {reason}"
    )
    assert refusal(control, "CreateQueue", QueueName="new", Attributes=wanted) == expected
    setting = {"QueueUrl": "orders", "Attributes": wanted}
    assert refusal(control, "SetQueueAttributes", **setting) == expected


def test_a_dead_letter_queue_that_fits(control: Any) -> None:
    control.call("CreateQueue", QueueName="dead")
    wanted = redrive(f"eu-west-1:{ACCOUNT}:dead")
    control.call("CreateQueue", QueueName="orders", Attributes=wanted)
    assert json.loads(control.attributes("orders", "RedrivePolicy")["RedrivePolicy"]) == {
        "deadLetterTargetArn": f"arn:aws:sqs:eu-west-1:{ACCOUNT}:dead",
        "maxReceiveCount": 3,
    }
    control.call("SetQueueAttributes", QueueUrl="orders", Attributes={"RedrivePolicy": ""})
    assert control.attributes("orders", "RedrivePolicy") == {}


@pytest.mark.parametrize(
    ("allowed", "sources"),
    [
        ({"redrivePermission": "denyAll"}, []),
        ({"redrivePermission": "allowAll"}, ["created", "changed", "other"]),
        (
            {
                "redrivePermission": "byQueue",
                "sourceQueueArns": [
                    f"arn:aws:sqs:eu-west-1:{ACCOUNT}:{name}" for name in ("created", "changed")
                ],
            },
            ["created", "changed"],
        ),
    ],
)
def test_a_dead_letter_queue_says_whose_it_is(
    control: Any, allowed: dict[str, Any], sources: list[str]
) -> None:
    allow_policy = {"RedriveAllowPolicy": json.dumps(allowed)}
    control.call("CreateQueue", QueueName="dead", Attributes=allow_policy)
    for name in ("changed", "other"):
        control.call("CreateQueue", QueueName=name)
    wanted = redrive(f"eu-west-1:{ACCOUNT}:dead")
    for action, name in (
        ("CreateQueue", "created"),
        ("SetQueueAttributes", "changed"),
        ("SetQueueAttributes", "other"),
    ):
        where = {"QueueName" if action == "CreateQueue" else "QueueUrl": name}
        if name in sources:
            control.call(action, Attributes=wanted, **where)
        else:
            assert refusal(control, action, Attributes=wanted, **where) == (
                f"InvalidParameterValue: Value {wanted['RedrivePolicy']} for parameter "
                "RedrivePolicy is invalid. Reason: The redrive allow policy of the dead letter "
                "target does not allow this source."
            )


def test_a_queue_may_be_its_own_dead_letter_queue(control: Any) -> None:
    own = redrive(f"eu-west-1:{ACCOUNT}:dead")
    assert refusal(control, "CreateQueue", QueueName="dead", Attributes=own).endswith(
        "Reason: Dead letter target does not exist."
    )
    control.call("CreateQueue", QueueName="dead")
    control.call("SetQueueAttributes", QueueUrl="dead", Attributes=own)
    assert control.attributes("dead", "RedrivePolicy") == own
    sources = control.call("ListDeadLetterSourceQueues", QueueUrl="dead")["queueUrls"]
    assert [url.rpartition("/")[2] for url in sources] == ["dead"]


def test_its_own_allow_policy_of_the_same_call_decides(control: Any) -> None:
    own = redrive(f"eu-west-1:{ACCOUNT}:dead")
    control.call("CreateQueue", QueueName="dead")
    denied = own | {"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'}
    setting = {"QueueUrl": "dead", "Attributes": denied}
    assert refusal(control, "SetQueueAttributes", **setting).endswith(
        "The redrive allow policy of the dead letter target does not allow this source."
    )
    assert control.attributes("dead", "RedrivePolicy") == {}


def test_a_fifo_queue(control: Any) -> None:
    given = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    control.call("CreateQueue", QueueName="orders.fifo", Attributes=given)
    assert control.find("orders.fifo").fifo
    control.call("CreateQueue", QueueName="orders.fifo", Attributes={"FifoQueue": "true"})
    different = {"QueueName": "orders.fifo", "Attributes": given | {"DelaySeconds": "1"}}
    assert refusal(control, "CreateQueue", **different).endswith("for attribute DelaySeconds")
    shown = control.attributes("orders.fifo", "All")
    assert {name: shown[name] for name in shown if name not in STANDARD_ATTRIBUTES} == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }
    scope = {"DeduplicationScope": "messageGroup"}
    control.call("SetQueueAttributes", QueueUrl="orders.fifo", Attributes=scope)
    limit = {"FifoThroughputLimit": "perMessageGroupId", "ContentBasedDeduplication": "false"}
    control.call("SetQueueAttributes", QueueUrl="orders.fifo", Attributes=limit)
    assert control.attributes("orders.fifo", *scope, *limit) == scope | limit
    end = {"QueueUrl": "orders.fifo", "Attributes": {"DeduplicationScope": "queue"}}
    assert refusal(control, "SetQueueAttributes", **end).startswith(
        "InvalidAttributeValue: Invalid value for the parameter FifoThroughputLimit. Reason: "
    )


def test_dead_letters_of_fifo_queues_go_to_fifo_queues(control: Any) -> None:
    fifo = {"FifoQueue": "true"}
    control.call("CreateQueue", QueueName="dead.fifo", Attributes=fifo)
    control.call("CreateQueue", QueueName="dead")
    fitting = redrive(f"eu-west-1:{ACCOUNT}:dead.fifo")
    control.call("CreateQueue", QueueName="orders.fifo", Attributes=fifo | fitting)
    wrong = fifo | redrive(f"eu-west-1:{ACCOUNT}:dead")
    assert refusal(control, "CreateQueue", QueueName="new.fifo", Attributes=wrong).endswith(
        "Reason: Dead-letter queue must be same type of queue as the source.."
    )


def test_a_purge_is_stored_as_the_stamp_it_got(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    assert control.find("orders").purged_us == 0
    assert control.call("PurgeQueue", QueueUrl="orders") == {}
    assert control.find("orders").purged_us == control.clock.now_us()
    control.clock.advance(59)
    assert refusal(control, "PurgeQueue", QueueUrl="orders") == (
        "AWS.SimpleQueueService.PurgeQueueInProgress: "
        "Only one PurgeQueue operation on orders is allowed every 60 seconds."
    )
    assert control.messages.purged == ["orders"]
    control.clock.advance(1)
    control.call("PurgeQueue", QueueUrl="orders")
    assert control.messages.purged == ["orders", "orders"]


def test_tags(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", tags={"a": "1", "b": ""})
    assert control.call("ListQueueTags", QueueUrl="orders") == {"Tags": {"a": "1", "b": ""}}
    control.call("TagQueue", QueueUrl="orders", Tags={"a": "2", "ü": "ß"})
    control.call("UntagQueue", QueueUrl="orders", TagKeys=["b", "unknown"])
    assert control.call("ListQueueTags", QueueUrl="orders") == {"Tags": {"a": "2", "ü": "ß"}}
    control.call("UntagQueue", QueueUrl="orders", TagKeys=["a", "ü"])
    assert control.call("ListQueueTags", QueueUrl="orders") == {}


@pytest.mark.parametrize(
    "tags",
    [
        {"": "x"},
        {"k" * 129: "x"},
        {"k": "v" * 257},
        {"aws:k": "x"},
        {"AWS:k": "x"},
        {"k": None},
        {"k": "a & b"},
        {"k\u2019s": ""},
        {f"k{number}": "" for number in range(51)},
    ],
    ids=lambda tags: f"{str(tags)[:12]}-{len(str(tags))}",
)
def test_wrong_tags_are_refused(control: Any, tags: dict[str, Any]) -> None:
    control.call("CreateQueue", QueueName="orders")
    answer = refusal(control, "TagQueue", QueueUrl="orders", Tags=tags)
    assert answer.startswith("InvalidParameterValue: ")
    answer = refusal(control, "CreateQueue", QueueName="new", tags=tags)
    assert answer.startswith("InvalidParameterValue: ")


def test_50_tags_at_their_limits_are_accepted(control: Any) -> None:
    tags = {f"{number:0128}": "v" * 256 for number in range(50)}
    control.call("CreateQueue", QueueName="orders", tags=tags)
    assert control.call("ListQueueTags", QueueUrl="orders") == {"Tags": tags}
    answer = refusal(control, "TagQueue", QueueUrl="orders", Tags={"one more": ""})
    assert answer == "InvalidParameterValue: Too many tags added for queue orders."
    control.call("TagQueue", QueueUrl="orders", Tags={f"{7:0128}": "new"})


def test_messages_are_kept_longer_before_a_raised_retention_is_in_force(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders", Attributes={"MessageRetentionPeriod": "600"})
    for period in ("600", "60", "3600"):
        control.call(
            "SetQueueAttributes",
            QueueUrl="orders",
            Attributes={"MessageRetentionPeriod": period},
        )
    assert control.messages.restamped == [3600]
    assert control.messages.changed_to == [(1, 600), (2, 60), (3, 3600)]


def test_messages_are_kept_longer_where_another_server_has_lowered_the_retention(
    control: Any,
) -> None:
    """This one has not heard of it, and takes a raised retention for a lowered one."""
    elsewhere = control.server()

    def lowered(known: Definition) -> Definition:
        return replace(known, attributes={"MessageRetentionPeriod": "60"})

    control.call("CreateQueue", QueueName="orders")
    queue = control.find("orders")
    asyncio.run(elsewhere.change(queue, lowered))
    assert control.find("orders").retention_s == 345_600
    control.call(
        "SetQueueAttributes", QueueUrl="orders", Attributes={"MessageRetentionPeriod": "3600"}
    )
    assert control.messages.restamped == [3600]
    assert [one.was_raised for one in asyncio.run(elsewhere.purges(9))] == [True]
    assert control.messages.changed_to == [(3, 3600)]

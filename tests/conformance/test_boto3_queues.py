"""The queue operations through unmodified boto3 (JSON) and botocore on the Query protocol."""

import json
from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

SETTABLE = {
    "VisibilityTimeout": "43200",
    "DelaySeconds": "900",
    "MaximumMessageSize": "1024",
    "MessageRetentionPeriod": "60",
    "ReceiveMessageWaitTimeSeconds": "20",
    "KmsMasterKeyId": "alias/aws/sqs",
    "KmsDataKeyReusePeriodSeconds": "86400",
    "SqsManagedSseEnabled": "false",
    "Policy": (
        '{"Version":"2012-10-17","Statement":[{"Sid":"<&>","Effect":"Allow","Principal":"*",'
        '"Action":"sqs:*","Resource":"*"}]}'
    ),
    "RedrivePolicy": json.dumps(
        {"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead", "maxReceiveCount": 5},
        separators=(",", ":"),
    ),
    "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
}
NAMES = [*SETTABLE]


def test_a_queue_from_birth_to_death(sqs: Any, server: InProcessServer) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert url == f"{server.endpoint}/{ACCOUNT}/orders"
    assert sqs.get_queue_url(QueueName="orders")["QueueUrl"] == url
    assert sqs.list_queues()["QueueUrls"] == [url]
    assert sqs.delete_queue(QueueUrl=url)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "QueueUrls" not in sqs.list_queues()
    code, message, status = error(sqs.create_queue, QueueName="orders")
    assert (code, status) == ("AWS.SimpleQueueService.QueueDeletedRecently", 400)
    assert message.startswith("You must wait 60 seconds after deleting a queue")
    server.clock.advance(60)
    assert sqs.create_queue(QueueName="orders")["QueueUrl"] == url


def test_a_queue_that_is_not_there(sqs: Any) -> None:
    for call, params in (
        (sqs.get_queue_url, {"QueueName": "missing"}),
        (sqs.delete_queue, {"QueueUrl": f"http://localhost/{ACCOUNT}/missing"}),
        (sqs.purge_queue, {"QueueUrl": "missing"}),
        (sqs.list_queue_tags, {"QueueUrl": "missing"}),
        (sqs.receive_message, {"QueueUrl": "missing"}),
    ):
        code, message, status = error(call, **params)
        assert (code, status) == ("AWS.SimpleQueueService.NonExistentQueue", 400)
        assert message.startswith("The specified queue does not exist")


def test_boto3_raises_the_modelled_exception(server: InProcessServer) -> None:
    sqs = server.client()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName="missing")


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_set_on_creation_and_later(sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName="dead")
    value = SETTABLE[name]
    created = sqs.create_queue(QueueName="created", Attributes={name: value})["QueueUrl"]
    changed = sqs.create_queue(QueueName="changed")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=changed, Attributes={name: value})
    for url in (created, changed):
        assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"] == {
            name: value
        }
        everything = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert everything[name] == value


def test_all_attributes_of_a_new_queue(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown.pop("CreatedTimestamp") == shown.pop("LastModifiedTimestamp")
    assert shown == {
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "VisibilityTimeout": "30",
    }
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)


def test_counts_follow_the_messages(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for delay_s in (0, 0, 0, 600):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay_s)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert [shown[name] for name in names] == ["2", "1", "1"]


def test_wrong_attributes(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert error(sqs.create_queue, QueueName="new", Attributes={"Nonsense": "1"}) == (
        "InvalidAttributeName",
        "Unknown Attribute Nonsense.",
        400,
    )
    assert error(sqs.create_queue, QueueName="new", Attributes={"FifoQueue": "false"}) == (
        "InvalidAttributeName",
        "Unknown Attribute FifoQueue.",
        400,
    )
    assert error(sqs.set_queue_attributes, QueueUrl=url, Attributes={"DelaySeconds": "901"}) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter DelaySeconds.",
        400,
    )
    assert error(sqs.set_queue_attributes, QueueUrl=url, Attributes={"FifoQueue": "true"}) == (
        "InvalidAttributeName",
        "Unknown Attribute FifoQueue.",
        400,
    )
    assert error(sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["Nonsense"]) == (
        "InvalidAttributeName",
        "Unknown Attribute Nonsense.",
        400,
    )
    assert "new" not in str(sqs.list_queues())


def test_attributes_of_a_fifo_queue(sqs: Any) -> None:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="orders.fifo", Attributes=fifo)["QueueUrl"]
    names = [*fifo, "DeduplicationScope", "FifoThroughputLimit", "QueueArn"]
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] == fifo | {
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
        "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders.fifo",
    }
    setting = sqs.set_queue_attributes
    setting(QueueUrl=url, Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "false"})
    assert error(setting, QueueUrl=url, Attributes={"FifoQueue": "false"}) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        400,
    )
    limit = {"FifoThroughputLimit": "perMessageGroupId"}
    assert error(setting, QueueUrl=url, Attributes=limit)[::2] == ("InvalidAttributeValue", 400)
    setting(QueueUrl=url, Attributes={"DeduplicationScope": "messageGroup", **limit})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert (shown["DeduplicationScope"], shown["ContentBasedDeduplication"]) == (
        "messageGroup",
        "false",
    )
    assert shown["FifoThroughputLimit"] == "perMessageGroupId"
    assert error(sqs.create_queue, QueueName="orders.fifo", Attributes=fifo) == (
        "QueueAlreadyExists",
        (
            "A queue already exists with the same name and a different value for attribute "
            "ContentBasedDeduplication"
        ),
        400,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ContentBasedDeduplication", "Unknown Attribute ContentBasedDeduplication."),
        (
            "DeduplicationScope",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
        (
            "FifoThroughputLimit",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
    ],
)
def test_fifo_attributes_on_standard_queues(sqs: Any, name: str, message: str) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    wrong = {"Attributes": {name: "true"}}
    expected = ("InvalidAttributeName", message, 400)
    assert error(sqs.set_queue_attributes, QueueUrl=url, **wrong) == expected
    assert error(sqs.create_queue, QueueName="new", **wrong) == expected


def test_wrong_names(sqs: Any) -> None:
    for name in ("a b", "x" * 81, "orders.fifo", "ü"):
        assert error(sqs.create_queue, QueueName=name) == (
            "InvalidParameterValue",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
            400,
        )
    for name in ("orders", "a b.fifo", "x" * 76 + ".fifo"):
        fifo = {"QueueName": name, "Attributes": {"FifoQueue": "true"}}
        code, message, status = error(sqs.create_queue, **fifo)
        assert (code, status) == ("InvalidParameterValue", 400)
        assert message.startswith("The name of a FIFO queue can only include alphanumeric")


def test_the_same_name_with_other_attributes(sqs: Any) -> None:
    sqs.create_queue(QueueName="orders", Attributes={"DelaySeconds": "5"})
    sqs.create_queue(QueueName="orders")
    assert error(sqs.create_queue, QueueName="orders", Attributes={"DelaySeconds": "6"}) == (
        "QueueAlreadyExists",
        (
            "A queue already exists with the same name and a different value for attribute "
            "DelaySeconds"
        ),
        400,
    )


def test_a_dead_letter_queue_that_is_not_there(sqs: Any) -> None:
    policy = SETTABLE["RedrivePolicy"]
    assert error(sqs.create_queue, QueueName="q", Attributes={"RedrivePolicy": policy}) == (
        "InvalidParameterValue",
        (
            f"Value {policy} for parameter RedrivePolicy is invalid. "
            "Reason: Dead letter target does not exist."
        ),
        400,
    )


@pytest.mark.parametrize(
    "name", ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"]
)
def test_the_empty_text_removes_an_attribute(sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName="dead")
    url = sqs.create_queue(QueueName="q", Attributes={name: SETTABLE[name]})["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: ""})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert name not in shown


def test_the_ways_of_encryption_exclude_each_other(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q", Attributes={"KmsMasterKeyId": "k"})["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["SqsManagedSseEnabled"] == "false"
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true"})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["SqsManagedSseEnabled"] == "true"
    assert "KmsMasterKeyId" not in shown
    both = {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}
    assert error(sqs.create_queue, QueueName="p", Attributes=both)[0] == "InvalidAttributeName"


def test_tags(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders", tags={"a": "1", "b": ""})["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "1", "b": ""}
    sqs.tag_queue(QueueUrl=url, Tags={"a": "2", "ü": "ß @/+"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["b"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "2", "ü": "ß @/+"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["a", "ü"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    many = {f"k{number}": "" for number in range(51)}
    assert error(sqs.tag_queue, QueueUrl=url, Tags=many)[0] == "InvalidParameterValue"
    assert error(sqs.tag_queue, QueueUrl=url, Tags={"aws:x": ""})[0] == "InvalidParameterValue"
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_a_paginator_sees_every_queue_once(sqs: Any) -> None:
    for number in range(7):
        sqs.create_queue(QueueName=f"q{number}")
    sqs.create_queue(QueueName="other")
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix="q", PaginationConfig={"PageSize": 3}
    )
    found = [page["QueueUrls"] for page in pages]
    assert [len(urls) for urls in found] == [3, 3, 1]
    names = [url.rpartition("/")[2] for urls in found for url in urls]
    assert names == [f"q{number}" for number in range(7)]


def test_wrong_pages(sqs: Any) -> None:
    assert error(sqs.list_queues, MaxResults=1001)[::2] == ("InvalidParameterValue", 400)
    assert error(sqs.list_queues, MaxResults=0)[::2] == ("InvalidParameterValue", 400)
    assert error(sqs.list_queues, MaxResults=1, NextToken="x")[::2] == (
        "InvalidParameterValue",
        400,
    )


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_accounts_and_regions_are_apart(server: InProcessServer, protocol: str) -> None:
    here = server.client(protocol)
    elsewhere = server.client(protocol, region="us-east-1")
    stranger = server.client(protocol, account="999999999999")
    url = here.create_queue(QueueName="orders", Attributes={"DelaySeconds": "1"})["QueueUrl"]
    for other in (elsewhere, stranger):
        assert "QueueUrls" not in other.list_queues()
        code, _, _ = error(other.get_queue_url, QueueName="orders")
        assert code == "AWS.SimpleQueueService.NonExistentQueue"
        other.create_queue(QueueName="orders", Attributes={"DelaySeconds": "2"})
    assert error(stranger.get_queue_url, QueueName="orders", QueueOwnerAWSAccountId=ACCOUNT)[0] == (
        "AWS.SimpleQueueService.NonExistentQueue"
    )
    names = ["DelaySeconds", "QueueArn"]
    shown = here.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert shown == {"DelaySeconds": "1", "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders"}
    shown = elsewhere.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert shown == {"DelaySeconds": "2", "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders"}


def test_a_purge(sqs: Any, server: InProcessServer) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="before")
    sqs.purge_queue(QueueUrl=url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="after")
    assert error(sqs.purge_queue, QueueUrl=url) == (
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "Only one PurgeQueue operation on orders is allowed every 60 seconds.",
        403,
    )
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == ["after"]
    server.clock.advance(60)
    sqs.purge_queue(QueueUrl=url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_queue_that_was_created_again_is_empty(sqs: Any, server: InProcessServer) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="old")
    sqs.delete_queue(QueueUrl=url)
    server.clock.advance(61)
    sqs.create_queue(QueueName="orders")
    assert "Messages" not in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)

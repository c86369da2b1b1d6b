"""Redrive policies and the sources of dead-letter queues through clients of both protocols."""

import json
from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def redrive(target: str, **members: Any) -> dict[str, str]:
    policy = {"deadLetterTargetArn": arn(target), "maxReceiveCount": 3} | members
    return {"RedrivePolicy": json.dumps(policy)}


def names(urls: list[str]) -> list[str]:
    return [url.rpartition("/")[2] for url in urls]


def test_the_sources_of_a_dead_letter_queue(sqs: Any) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    assert not sqs.list_dead_letter_source_queues(QueueUrl=dead).get("queueUrls")
    created = sqs.create_queue(QueueName="created", Attributes=redrive("dead"))["QueueUrl"]
    changed = sqs.create_queue(QueueName="changed")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=changed, Attributes=redrive("dead", maxReceiveCount="3"))
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [changed, created]
    sqs.set_queue_attributes(QueueUrl=changed, Attributes={"RedrivePolicy": ""})
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [created]
    sqs.delete_queue(QueueUrl=created)
    assert not sqs.list_dead_letter_source_queues(QueueUrl=dead).get("queueUrls")


def test_without_sources_json_answers_an_empty_list(server: InProcessServer) -> None:
    """The member is required: clients of typed languages insist on it."""
    sqs = server.client()
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == []


def test_a_paginator_sees_every_source_once(sqs: Any) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    for number in range(7):
        sqs.create_queue(QueueName=f"q{number}", Attributes=redrive("dead"))
    pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
        QueueUrl=dead, PaginationConfig={"PageSize": 3}
    )
    found = [names(page["queueUrls"]) for page in pages]
    assert found == [["q0", "q1", "q2"], ["q3", "q4", "q5"], ["q6"]]
    assert "NextToken" not in sqs.list_dead_letter_source_queues(QueueUrl=dead)


def test_wrong_pages(sqs: Any) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    for number in range(2):
        sqs.create_queue(QueueName=f"q{number}", Attributes=redrive("dead"))
    listing = sqs.list_dead_letter_source_queues
    token = listing(QueueUrl=dead, MaxResults=1)["NextToken"]
    changed = (
        "InvalidParameterValue",
        (
            "Invalid NextToken value. If you are passing in NextToken, you must not change the "
            "other request parameters."
        ),
        400,
    )
    assert error(listing, QueueUrl=other, MaxResults=1, NextToken=token) == changed
    assert error(sqs.list_queues, MaxResults=1, NextToken=token) == changed
    assert error(listing, QueueUrl=dead, MaxResults=1, NextToken="invalidtoken") == (
        "InvalidParameterValue",
        "Invalid or expired next token.",
        400,
    )
    assert error(sqs.list_queues, MaxResults=1, NextToken="invalidtoken") == (
        "InvalidParameterValue",
        "Invalid NextToken value.",
        400,
    )
    for size in (0, 1_001):
        assert error(listing, QueueUrl=dead, MaxResults=size) == (
            "InvalidParameterValue",
            (
                "Value for parameter MaxResults is invalid. "
                "Reason: MaxResults must be an integer between 1 and 1000."
            ),
            400,
        )


WRONG_TARGETS = {
    "missing": (arn("missing"), "Dead letter target does not exist."),
    "dummy": ("dummy", "Invalid value for deadLetterTargetArn."),
    "topic": (
        f"arn:aws:sns:{REGION}:{ACCOUNT}:dead",
        "Only SQS queues are valid resources for deadLetterTargetArn.",
    ),
    "fifo": (arn("dead.fifo"), "Dead-letter queue must be same type of queue as the source.."),
    "region": (
        f"arn:aws:sqs:ap-south-1:{ACCOUNT}:dead",
        "Dead-letter target must be in same region as the source.",
    ),
    "owner": (
        f"arn:aws:sqs:{REGION}:999999999999:dead",
        "Dead-letter target owner should be same as the source.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_TARGETS)
def test_wrong_targets(sqs: Any, wrong: str) -> None:
    sqs.create_queue(QueueName="dead")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    target, reason = WRONG_TARGETS[wrong]
    attributes = redrive("", deadLetterTargetArn=target)
    expected = (
        "InvalidParameterValue",
        (
            f"Value {attributes['RedrivePolicy']} for parameter RedrivePolicy is invalid. "
            f"Reason: {reason}"
        ),
        400,
    )
    assert error(sqs.create_queue, QueueName="new", Attributes=attributes) == expected
    assert error(sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes) == expected


def test_a_policy_inside_a_string_is_refused_when_it_is_set(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    twice = {"RedrivePolicy": json.dumps(redrive("orders")["RedrivePolicy"])}
    assert error(sqs.set_queue_attributes, QueueUrl=url, Attributes=twice) == (
        "InvalidAttributeValue",
        (
            "Invalid value for the parameter RedrivePolicy. "
            "Reason: Redrive policy is not a valid JSON map."
        ),
        400,
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_dead_letter_queue_may_refuse_a_source(sqs: Any) -> None:
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [arn("orders")]}
    dead = sqs.create_queue(
        QueueName="dead", Attributes={"RedriveAllowPolicy": json.dumps(allowed)}
    )["QueueUrl"]
    sqs.create_queue(QueueName="orders", Attributes=redrive("dead"))
    code, message, status = error(sqs.create_queue, QueueName="new", Attributes=redrive("dead"))
    assert (code, status) == ("InvalidParameterValue", 400)
    assert message.endswith(
        "Reason: The redrive allow policy of the dead letter target does not allow this source."
    )
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": ""})
    sqs.create_queue(QueueName="new", Attributes=redrive("dead"))
    sources = sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]
    assert names(sources) == ["new", "orders"]

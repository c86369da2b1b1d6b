"""Browsing over the wire, standard and FIFO queues alike."""

from typing import Any

import pytest

from tests.conformance.client_calls import error, one
from tests.conformance.in_process import InProcessServer


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param, extended=True)


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


def browse(sqs: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    """The messages of all pages, as the SDK's paginator finds them."""
    pages = sqs.get_paginator("tidegate_browse_messages").paginate(QueueUrl=url, **options)
    return [message for page in pages for message in page.get("Messages", [])]


def test_an_empty_queue_has_one_empty_page(sqs: Any, url: str) -> None:
    answer = sqs.tidegate_browse_messages(QueueUrl=url)
    assert "Messages" not in answer
    assert "NextToken" not in answer


def test_a_message_is_shown_as_a_receive_shows_it(sqs: Any, url: str) -> None:
    sqs.send_message(
        QueueUrl=url,
        MessageBody="héllo\r\n<&>",
        MessageAttributes={
            "n": {"DataType": "Number", "StringValue": "1"},
            "b": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
        },
        MessageSystemAttributes={
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2-3"}
        },
        MessageGroupId="tenant",
    )
    (browsed,) = browse(sqs, url)
    received = one(sqs, url, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"])
    del received["ReceiptHandle"]
    first = received["Attributes"].pop("ApproximateFirstReceiveTimestamp")
    assert received["Attributes"].pop("ApproximateReceiveCount") == "1"
    assert browsed.pop("State") == "visible"
    assert browsed["Attributes"].pop("ApproximateReceiveCount") == "0"
    assert browsed == received
    (in_flight,) = browse(sqs, url)
    assert in_flight["State"] == "inFlight"
    assert in_flight["Attributes"]["ApproximateFirstReceiveTimestamp"] == first
    assert int(in_flight["VisibleTimestamp"]) == int(first) + 30_000


def test_states_and_pages(server: InProcessServer, sqs: Any, url: str) -> None:
    for body in ("a", "b", "c"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    sqs.send_message(QueueUrl=url, MessageBody="d", DelaySeconds=60)
    handle = one_of(sqs, url)["ReceiptHandle"]
    for size in (1, 2, 100):
        found = browse(sqs, url, PaginationConfig={"PageSize": size})
        assert [message["Body"] for message in found] == ["a", "b", "c", "d"]
        states = [message["State"] for message in found]
        assert states == ["inFlight", "visible", "visible", "delayed"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    server.clock.advance(61)
    assert [message["State"] for message in browse(sqs, url)] == ["visible"] * 3


def one_of(sqs: Any, url: str) -> dict[str, Any]:
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    return dict(message)


def test_a_fifo_queue_is_shown_in_the_order_of_its_groups(
    server: InProcessServer, sqs: Any
) -> None:
    url = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    sent = []
    for number in range(6):
        group = "even" if number % 2 == 0 else "odd"
        sent.append(
            sqs.send_message(
                QueueUrl=url,
                MessageBody=str(number),
                MessageGroupId=group,
                MessageDeduplicationId=f"id-{number}",
            )
        )
    handle = one_of(sqs, url)["ReceiptHandle"]
    for size in (1, 4, 100):
        found = browse(sqs, url, PaginationConfig={"PageSize": size})
        assert [message["Body"] for message in found] == list("012345")
        assert [message["State"] for message in found] == ["inFlight"] + ["visible"] * 5
    assert [message["Attributes"]["SequenceNumber"] for message in found] == [
        answer["SequenceNumber"] for answer in sent
    ]
    assert found[1]["Attributes"]["MessageGroupId"] == "odd"
    assert found[1]["Attributes"]["MessageDeduplicationId"] == "id-1"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert [message["Body"] for message in browse(sqs, url)] == list("12345")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "60"})
    assert {message["State"] for message in browse(sqs, url)} == {"delayed"}
    server.clock.advance(61)
    assert {message["State"] for message in browse(sqs, url)} == {"visible"}


@pytest.mark.parametrize("count", [0, 101, -1])
def test_a_page_has_up_to_a_hundred_messages(sqs: Any, url: str, count: int) -> None:
    found = error(sqs.tidegate_browse_messages, QueueUrl=url, MaxNumberOfMessages=count)
    reason = f"Value {count} for parameter MaxNumberOfMessages is invalid. Reason: "
    message = f"{reason}Must be between 1 and 100, if provided."
    assert found == ("InvalidParameterValue", message, 400)


def test_tokens_are_for_their_queue_alone(sqs: Any, url: str) -> None:
    for body in "ab":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    token = sqs.tidegate_browse_messages(QueueUrl=url, MaxNumberOfMessages=1)["NextToken"]
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    refused = ("InvalidParameterValue", "Invalid or expired next token.", 400)
    call = sqs.tidegate_browse_messages
    assert error(call, QueueUrl=other, NextToken=token) == refused
    for spoilt in (token[:-4], token[4:], f"{token[:8]}AAAA{token[12:]}", "x", "é", "=" * 5_000):
        assert error(call, QueueUrl=url, NextToken=spoilt) == refused
    assert call(QueueUrl=url, NextToken=token)["Messages"][0]["Body"] == "b"


def test_a_missing_queue(sqs: Any) -> None:
    found = error(sqs.tidegate_browse_messages, QueueUrl="missing")
    assert found[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_the_work_is_metered_as_messages_shown(server: InProcessServer, sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="four")
    sqs.tidegate_browse_messages(QueueUrl=url)
    served = server.served[-1]
    assert (served.operation, served.messages, served.bytes) == ("TidegateBrowseMessages", 1, 4)

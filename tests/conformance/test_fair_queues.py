"""Message groups on standard queues, through unmodified clients, over one and two front ends."""

from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer

BATCHES = 5


@pytest.fixture
def url(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


def send_noisy(client: Any, url: str) -> list[str]:
    """Much more than a group may have waiting among the quiet: the bodies."""
    bodies = [f"noisy {number}" for number in range(10 * BATCHES)]
    for start in range(0, len(bodies), 10):
        entries = [
            {"Id": str(at), "MessageBody": body, "MessageGroupId": "noisy"}
            for at, body in enumerate(bodies[start : start + 10])
        ]
        assert len(client.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
    return bodies


def receive(client: Any, url: str, count: int = 10) -> list[Any]:
    answer = client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=count, AttributeNames=["MessageGroupId"]
    )
    return list(answer.get("Messages", []))


def delete(client: Any, url: str, handles: list[str]) -> None:
    for start in range(0, len(handles), 10):
        entries = [
            {"Id": str(at), "ReceiptHandle": handle}
            for at, handle in enumerate(handles[start : start + 10])
        ]
        assert "Failed" not in client.delete_message_batch(QueueUrl=url, Entries=entries)


def drain(client: Any, url: str) -> list[str]:
    bodies: list[str] = []
    while messages := receive(client, url):
        bodies += [message["Body"] for message in messages]
        delete(client, url, [message["ReceiptHandle"] for message in messages])
    return bodies


def test_a_quiet_group_passes_a_noisy_one(sqs: Any, url: str) -> None:
    noisy = send_noisy(sqs, url)
    sqs.send_message(QueueUrl=url, MessageBody="quiet", MessageGroupId="quiet")
    (first,) = receive(sqs, url, 1)
    assert (first["Body"], first["Attributes"]) == ("quiet", {"MessageGroupId": "quiet"})
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody="of no group")
    (second,) = receive(sqs, url, 1)
    assert second["Body"] == "of no group"
    assert "Attributes" not in second
    assert sorted(drain(sqs, url)) == sorted(noisy)
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "0"
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_the_other_front_end_knows_the_quiet_one_too(server: InProcessServer) -> None:
    sending, receiving = server.client("json"), server.another().client("query")
    url = sending.create_queue(QueueName="orders")["QueueUrl"]
    assert receive(receiving, url) == []
    noisy = send_noisy(sending, url)
    server.clock.advance(2)
    sending.send_message(QueueUrl=url, MessageBody="quiet", MessageGroupId="quiet")
    (first,) = receive(receiving, url, 1)
    assert first["Body"] == "quiet"
    assert sorted(drain(receiving, url)) == sorted(noisy)


def test_a_handle_of_a_noisy_message_serves_at_the_other_front_end(
    server: InProcessServer,
) -> None:
    here, there = server.client("json"), server.another().client("json")
    url = here.create_queue(QueueName="orders")["QueueUrl"]
    send_noisy(here, url)
    handles: list[str] = []
    while messages := receive(here, url):
        handles += [message["ReceiptHandle"] for message in messages]
    assert len(handles) == 10 * BATCHES
    there.change_message_visibility(QueueUrl=url, ReceiptHandle=handles[-1], VisibilityTimeout=0)
    (again,) = receive(there, url)
    delete(there, url, [again["ReceiptHandle"], *handles[:-1]])
    server.clock.advance(31)
    assert receive(here, url) == []

"""Queues that come into being with their first message, where the server is set to do so."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.client_calls import error, one
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS

MISSING = "AWS.SimpleQueueService.NonExistentQueue"


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    with InProcessServer(RUNNERS[request.param], auto_create_queues=True) as started:
        yield started


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param)


def url_of(name: str, account: str = "111122223333") -> str:
    return f"http://queues.example:9324/{account}/{name}"


def names(sqs: Any) -> list[str]:
    return [url.rpartition("/")[2] for url in sqs.list_queues().get("QueueUrls", [])]


def test_the_first_message_creates_its_queue(sqs: Any) -> None:
    sqs.send_message(QueueUrl=url_of("orders"), MessageBody="first")
    sqs.send_message(QueueUrl="orders", MessageBody="second")
    assert names(sqs) == ["orders"]
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    assert url == url_of("orders")
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert answer["VisibilityTimeout"] == "30"
    assert answer["ApproximateNumberOfMessages"] == "2"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=one_of(sqs, url)["ReceiptHandle"])
    assert one(sqs, url)["Body"] == "second"


def one_of(sqs: Any, url: str) -> dict[str, Any]:
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    return dict(message)


def test_a_batch_creates_its_queue(sqs: Any) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=url_of("orders"),
        Entries=[
            {"Id": "good", "MessageBody": "x"},
            {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert names(sqs) == ["orders"]


def test_a_fifo_name_creates_a_fifo_queue(sqs: Any) -> None:
    first = sqs.send_message(
        QueueUrl=url_of("jobs.fifo"),
        MessageBody="x",
        MessageGroupId="g",
        MessageDeduplicationId="1",
    )
    assert first["SequenceNumber"]
    names_asked = ["FifoQueue", "ContentBasedDeduplication"]
    answer = sqs.get_queue_attributes(QueueUrl="jobs.fifo", AttributeNames=names_asked)
    assert answer["Attributes"] == {"FifoQueue": "true", "ContentBasedDeduplication": "false"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("orders", {"MessageBody": "x", "DelaySeconds": 901}),
        ("orders", {"MessageBody": "\x00"}),
        ("orders", {"MessageBody": "x", "MessageDeduplicationId": "1"}),
        ("jobs.fifo", {"MessageBody": "x"}),
        ("jobs.fifo", {"MessageBody": "x", "MessageGroupId": "g"}),
        ("orders", {"MessageBody": "x" * (1 << 20) + "x"}),
    ],
)
def test_a_message_that_is_refused_creates_nothing(
    sqs: Any, name: str, options: dict[str, Any]
) -> None:
    assert error(sqs.send_message, QueueUrl=url_of(name), **options)[2] == 400
    if name == "orders" and len(options["MessageBody"]) < 100:
        entries = [{"Id": "a", **options}]
        answer = sqs.send_message_batch(QueueUrl=url_of(name), Entries=entries)
        assert "Successful" not in answer
    assert names(sqs) == []


def test_nothing_but_a_message_creates_a_queue(sqs: Any) -> None:
    url = url_of("orders")
    assert error(sqs.receive_message, QueueUrl=url)[0] == MISSING
    assert error(sqs.purge_queue, QueueUrl=url)[0] == MISSING
    assert error(sqs.get_queue_url, QueueName="orders")[0] == MISSING
    assert error(sqs.delete_queue, QueueUrl=url)[0] == MISSING
    assert names(sqs) == []


def test_queues_of_others_and_wrong_names_stay_missing(sqs: Any) -> None:
    for url in (url_of("orders", "999999999999"), "wrong!", url_of("x" * 81), ".fifo"):
        assert error(sqs.send_message, QueueUrl=url, MessageBody="x")[2] in {400, 404}
    assert names(sqs) == []


def test_a_message_does_not_bring_back_what_was_just_deleted(
    server: InProcessServer, sqs: Any
) -> None:
    url = url_of("orders")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.delete_queue(QueueUrl=url)
    assert error(sqs.send_message, QueueUrl=url, MessageBody="x")[0] == MISSING
    server.clock.advance(61)
    sqs.send_message(QueueUrl=url, MessageBody="new")
    assert one(sqs, url)["Body"] == "new"


def test_two_servers_create_one_queue(server: InProcessServer, sqs: Any) -> None:
    other = server.another()
    assert other.registry is not server.registry
    expected = server.engine.expected_queue("111122223333", "eu-west-1", "orders")  # type: ignore[attr-defined]
    sqs.send_message(QueueUrl=url_of("orders"), MessageBody="x")
    stored = server.run(server.engine._create(expected))  # type: ignore[attr-defined]
    assert stored.uid != expected.uid
    assert names(sqs) == ["orders"]


def test_by_default_no_queue_is_created() -> None:
    plain = InProcessServer()
    sqs = plain.client()
    assert error(sqs.send_message, QueueUrl=url_of("orders"), MessageBody="x")[0] == MISSING
    assert names(sqs) == []
    plain.close()

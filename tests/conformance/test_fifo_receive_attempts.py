"""FIFO queues: a receive that is repeated under its ReceiveRequestAttemptId."""

from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.fifo_calls import Fifo
from tests.conformance.in_process import InProcessServer


@pytest.fixture
def loaded(sqs: Any) -> Fifo:
    queue = Fifo(sqs)
    for body in ("a1", "a2", "b1"):
        queue.send(body)
    return queue


def attempt(fifo: Fifo, name: str, **options: Any) -> list[dict[str, Any]]:
    return fifo.receive(2, ReceiveRequestAttemptId=name, **options)


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def test_the_same_attempt_gets_the_same_messages_and_handles(loaded: Fifo) -> None:
    first = attempt(loaded, "one")
    assert bodies(first) == ["a1", "a2"]
    again = attempt(loaded, "one")
    assert bodies(again) == ["a1", "a2"]
    handles = [[message["ReceiptHandle"] for message in got] for got in (first, again)]
    assert handles[0] == handles[1]
    loaded.delete(*first)
    assert bodies(attempt(loaded, "two")) == ["b1"]


def test_another_attempt_gets_other_messages(loaded: Fifo) -> None:
    attempt(loaded, "one")
    assert bodies(attempt(loaded, "two")) == ["b1"]
    assert loaded.bodies() == []


def test_an_attempt_of_another_front_end_is_the_same(loaded: Fifo, server: InProcessServer) -> None:
    first = attempt(loaded, "one")
    other = loaded.through(server.another().client("json"))
    assert bodies(attempt(other, "one")) == bodies(first)
    other.delete(*first)


def test_a_repetition_begins_the_timeout_anew(loaded: Fifo, server: InProcessServer) -> None:
    attempt(loaded, "one")
    server.clock.advance(20)
    attempt(loaded, "one")
    server.clock.advance(20)
    assert loaded.bodies() == ["b1"]
    server.clock.advance(11)
    assert loaded.bodies(2) == ["a1", "a2"]


NOT_RETRYABLE = (
    "InvalidParameterValue",
    (
        "Value one for parameter ReceiveRequestAttemptId is invalid. Reason: The "
        "receiveRequestAttemptId is not valid anymore since the receive call is not retryable."
    ),
    400,
)


def repeated(loaded: Fifo, **options: Any) -> tuple[str, str, int]:
    params = {"QueueUrl": loaded.url, "ReceiveRequestAttemptId": "one", **options}
    return error(loaded.sqs.receive_message, **params)


def test_an_attempt_of_which_a_message_was_deleted_is_refused(
    loaded: Fifo, server: InProcessServer
) -> None:
    first = attempt(loaded, "one")
    loaded.delete(first[1])
    assert repeated(loaded) == NOT_RETRYABLE
    other = loaded.through(server.another().client("json"))
    assert repeated(other) == NOT_RETRYABLE
    # What is left of it is held as before, and to be had under another name once it is visible.
    server.clock.advance(31)
    assert sorted(bodies(attempt(loaded, "two"))) == ["a1", "b1"]


@pytest.mark.parametrize("timeout_s", [0, 5, 600])
def test_an_attempt_of_which_a_visibility_was_changed_is_refused(
    loaded: Fifo, server: InProcessServer, timeout_s: int
) -> None:
    first = attempt(loaded, "one")
    server.clock.advance(1)
    loaded.sqs.change_message_visibility(
        QueueUrl=loaded.url, ReceiptHandle=first[1]["ReceiptHandle"], VisibilityTimeout=timeout_s
    )
    assert repeated(loaded) == NOT_RETRYABLE
    assert repeated(loaded, VisibilityTimeout=timeout_s) == NOT_RETRYABLE
    server.clock.advance(301)
    attempt(loaded, "one")


def test_repetitions_are_no_changes(loaded: Fifo, server: InProcessServer) -> None:
    handles = [message["ReceiptHandle"] for message in attempt(loaded, "one")]
    for timeout_s in (40, 40, 7, 30):
        server.clock.advance(3)
        again = attempt(loaded, "one", VisibilityTimeout=timeout_s)
        assert [message["ReceiptHandle"] for message in again] == handles
    loaded.delete(*again)
    assert repeated(loaded) == NOT_RETRYABLE


def test_what_others_hold_does_not_come_again(loaded: Fifo, server: InProcessServer) -> None:
    attempt(loaded, "one")
    server.clock.advance(31)
    assert sorted(loaded.bodies()) == ["a1", "a2", "b1"]
    assert attempt(loaded, "one") == []


def test_nothing_is_known_of_an_attempt_after_a_purge(loaded: Fifo) -> None:
    attempt(loaded, "one")
    loaded.sqs.purge_queue(QueueUrl=loaded.url)
    assert attempt(loaded, "one") == []
    loaded.send("a3")
    assert bodies(attempt(loaded, "one")) == ["a3"]
    assert bodies(attempt(loaded, "one")) == ["a3"]


def test_after_five_minutes_it_is_a_new_attempt(loaded: Fifo, server: InProcessServer) -> None:
    assert bodies(attempt(loaded, "one", VisibilityTimeout=1000)) == ["a1", "a2"]
    server.clock.advance(301)
    assert bodies(attempt(loaded, "one")) == ["b1"]


def test_an_attempt_that_got_nothing_may_get_something(sqs: Any) -> None:
    queue = Fifo(sqs)
    assert attempt(queue, "one") == []
    queue.send("a1")
    assert bodies(attempt(queue, "one")) == ["a1"]


@pytest.mark.parametrize("name", ["a b", "a" * 129])
def test_wrong_names(loaded: Fifo, name: str) -> None:
    params = {"QueueUrl": loaded.url, "ReceiveRequestAttemptId": name}
    code, message, status = error(loaded.sqs.receive_message, **params)
    assert (code, status) == ("InvalidParameterValue", 400)
    assert message.startswith(f"Value {name} for parameter ReceiveRequestAttemptId is invalid.")
    assert bodies(attempt(loaded, "!" * 128)) == ["a1", "a2"]


@pytest.mark.parametrize("name", ["one", "a b", "a" * 129])
def test_standard_queues_take_no_notice_of_attempts(sqs: Any, name: str) -> None:
    """Listeners of awspring/spring-cloud-aws 3.0.0-M2 send one to every queue (#529, #579)."""
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    first = sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId=name)["Messages"]
    assert bodies(first) == ["a"]
    sqs.send_message(QueueUrl=url, MessageBody="b")
    again = sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId=name)["Messages"]
    assert bodies(again) == ["b"]

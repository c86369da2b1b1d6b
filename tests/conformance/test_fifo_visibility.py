"""FIFO queues: timeouts of messages and of their groups, and handles that expire."""

from typing import Any

import pytest

from tests.conformance.client_calls import error
from tests.conformance.fifo_calls import EXPIRED, Fifo, by_group
from tests.conformance.in_process import InProcessServer


@pytest.fixture
def fifo(sqs: Any) -> Fifo:
    return Fifo(sqs)


def send(fifo: Fifo, *bodies: str) -> None:
    for body in bodies:
        fifo.send(body)


def test_the_timeout_of_a_message_is_that_of_its_group(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "a2", "a3", "b1")
    assert fifo.bodies(2, VisibilityTimeout=60) == ["a1", "a2"]
    server.clock.advance(59)
    assert fifo.bodies(1, VisibilityTimeout=0) == ["b1"]
    server.clock.advance(2)
    assert by_group(fifo.bodies()) == {"a": ["a1", "a2", "a3"], "b": ["b1"]}


def test_no_timeout_holds_nothing(fifo: Fifo) -> None:
    """Recorded from AWS."""
    send(fifo, "a1", "b1", "b2", "c1", "a2")
    assert fifo.bodies(3, VisibilityTimeout=0) == ["a1", "a2", "b1"]
    assert fifo.bodies(VisibilityTimeout=0) == ["c1", "a1", "a2", "b1", "b2"]


def test_a_message_before_those_in_flight_comes_back_alone(fifo: Fifo) -> None:
    """Recorded from AWS."""
    send(fifo, "a1", "a2", "b1")
    first, _ = fifo.receive(2)
    fifo.change(first, 0)
    assert fifo.bodies(3) == ["b1", "a1"]


def test_what_a_longer_timeout_holds_is_what_comes_after(
    fifo: Fifo, server: InProcessServer
) -> None:
    send(fifo, "a1", "a2", "a3")
    messages = fifo.receive()
    fifo.change(messages[1], 600)
    server.clock.advance(31)
    (again,) = fifo.receive()
    assert again["Body"] == "a1"
    fifo.delete(again)
    assert fifo.bodies() == []
    server.clock.advance(570)
    assert fifo.bodies() == ["a2", "a3"]


def test_a_message_after_those_in_flight_does_not_come_back_before_them(
    fifo: Fifo, server: InProcessServer
) -> None:
    send(fifo, "a1", "a2")
    _, second = fifo.receive()
    fifo.change(second, 0)
    assert fifo.bodies() == []
    server.clock.advance(31)
    assert fifo.bodies() == ["a1", "a2"]


def test_a_timeout_can_be_prolonged(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "a2")
    (held,) = fifo.receive(1)
    server.clock.advance(20)
    fifo.change(held, 100)
    server.clock.advance(99)
    assert fifo.bodies() == []
    server.clock.advance(2)
    assert fifo.bodies() == ["a1", "a2"]


def test_the_visibility_of_the_queue_is_the_default(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, VisibilityTimeout="5")
    fifo.send("a1")
    assert fifo.bodies() == ["a1"]
    server.clock.advance(4)
    assert fifo.bodies() == []
    server.clock.advance(2)
    assert fifo.bodies() == ["a1"]


def test_a_handle_deletes_until_it_expires(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "a2")
    first, second = fifo.receive()
    server.clock.advance(29)
    fifo.delete(first)
    server.clock.advance(2)
    assert fifo.refused_as_expired(second)
    assert fifo.bodies() == ["a2"]
    assert fifo.refused_as_expired(second)


def test_a_delete_that_is_repeated_succeeds(fifo: Fifo) -> None:
    fifo.send("a1")
    (held,) = fifo.receive()
    fifo.delete(held, held)
    assert fifo.bodies() == []


def test_the_handle_of_an_earlier_receive_has_expired(fifo: Fifo, server: InProcessServer) -> None:
    fifo.send("a1")
    (old,) = fifo.receive()
    server.clock.advance(31)
    (new,) = fifo.receive()
    assert fifo.refused_as_expired(old)
    fifo.delete(new)
    server.clock.advance(31)
    assert fifo.bodies() == []


def test_a_change_after_the_visibility_has_ended_is_refused(
    fifo: Fifo, server: InProcessServer
) -> None:
    fifo.send("a1")
    (held,) = fifo.receive()
    server.clock.advance(31)
    handle = held["ReceiptHandle"]
    change = {"ReceiptHandle": handle, "VisibilityTimeout": 30}
    refused = error(fifo.sqs.change_message_visibility, QueueUrl=fifo.url, **change)
    assert refused == ("InvalidParameterValue", EXPIRED.format(handle), 400)
    answer = fifo.sqs.change_message_visibility_batch(
        QueueUrl=fifo.url, Entries=[{"Id": "late", **change}]
    )
    (failed,) = answer["Failed"]
    assert (failed["Code"], failed["Message"]) == (
        "ReceiptHandleIsInvalid",
        "The receipt handle has expired",
    )
    assert fifo.bodies() == ["a1"]


def test_a_handle_that_was_prolonged_has_not_expired(fifo: Fifo, server: InProcessServer) -> None:
    fifo.send("a1")
    (held,) = fifo.receive()
    fifo.change(held, 100)
    server.clock.advance(60)
    fifo.delete(held)
    server.clock.advance(60)
    assert fifo.bodies() == []


def test_batches_of_deletes_and_changes_fail_by_entry(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "b1")
    (old,) = fifo.receive(1)
    server.clock.advance(31)
    new = fifo.receive()
    handles = [message["ReceiptHandle"] for message in (old, *new)]
    entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(handles)]
    entries.append({"Id": "bad", "ReceiptHandle": "garbage"})
    answer = fifo.sqs.delete_message_batch(QueueUrl=fifo.url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["1", "2"]
    assert [(f["Id"], f["Code"], f["Message"], f["SenderFault"]) for f in answer["Failed"]] == [
        ("0", "ReceiptHandleIsInvalid", "The receipt handle has expired", True),
        (
            "bad",
            "ReceiptHandleIsInvalid",
            'The input receipt handle "garbage" is not a valid receipt handle.',
            True,
        ),
    ]
    server.clock.advance(31)
    assert fifo.bodies() == []


def test_a_batch_of_changes(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "a2", "b1", "c1")
    messages = fifo.receive()
    entries = [
        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": timeout_s}
        for n, (message, timeout_s) in enumerate(zip(messages, (0, 0, 600, 0), strict=True))
    ]
    answer = fifo.sqs.change_message_visibility_batch(QueueUrl=fifo.url, Entries=entries)
    assert "Failed" not in answer
    assert by_group(fifo.bodies()) == {"a": ["a1", "a2"], "c": ["c1"]}
    server.clock.advance(601)
    assert by_group(fifo.bodies()) == {"a": ["a1", "a2"], "b": ["b1"], "c": ["c1"]}


def test_the_visibility_of_what_is_gone(fifo: Fifo) -> None:
    fifo.send("a1")
    (held,) = fifo.receive()
    fifo.delete(held)
    change = {"QueueUrl": fifo.url, "ReceiptHandle": held["ReceiptHandle"], "VisibilityTimeout": 1}
    assert error(fifo.sqs.change_message_visibility, **change)[::2] == (
        "InvalidParameterValue",
        400,
    )


def test_a_handle_of_another_queue(fifo: Fifo) -> None:
    other = Fifo(fifo.sqs, "other.fifo")
    fifo.send("a1")
    (held,) = fifo.receive()
    delete = {"QueueUrl": other.url, "ReceiptHandle": held["ReceiptHandle"]}
    assert error(fifo.sqs.delete_message, **delete)[0] == "ReceiptHandleIsInvalid"


def test_receive_counts_grow(fifo: Fifo, server: InProcessServer) -> None:
    send(fifo, "a1", "a2")
    names = ["ApproximateReceiveCount"]
    for expected in ("1", "2", "3"):
        received = fifo.receive(MessageSystemAttributeNames=names)
        assert [message["Attributes"][names[0]] for message in received] == [expected] * 2
        server.clock.advance(31)

"""FIFO queues: order within a group, groups that are held, sequence numbers."""

import itertools
from typing import Any

import pytest

from tests.conformance.client_calls import one
from tests.conformance.fifo_calls import Fifo, by_group
from tests.conformance.in_process import ACCOUNT, InProcessServer

SYSTEM = ["SequenceNumber", "MessageGroupId", "MessageDeduplicationId", "ApproximateReceiveCount"]


@pytest.fixture
def fifo(sqs: Any) -> Fifo:
    return Fifo(sqs)


def send(fifo: Fifo, *bodies: str) -> None:
    for body in bodies:
        fifo.send(body)


def test_a_message_comes_back_as_it_was_sent(fifo: Fifo) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "grüße & <b>"},
        "bytes": {"DataType": "Binary.raw", "BinaryValue": bytes(range(256))},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}
    sent = fifo.send(
        "ü\n😀",
        "group-1",
        "dedup-1",
        MessageAttributes=attributes,
        MessageSystemAttributes=trace,
    )
    received = one(
        fifo.sqs, fifo.url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    assert received["MessageId"] == sent["MessageId"]
    assert (received["Body"], received["MessageAttributes"]) == ("ü\n😀", attributes)
    assert received["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert received["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = received["Attributes"]
    assert int(system.pop("SentTimestamp")) <= int(system.pop("ApproximateFirstReceiveTimestamp"))
    assert system == {
        "AWSTraceHeader": "Root=1",
        "ApproximateReceiveCount": "1",
        "MessageDeduplicationId": "dedup-1",
        "MessageGroupId": "group-1",
        "SenderId": ACCOUNT,
        "SequenceNumber": sent["SequenceNumber"],
    }


@pytest.mark.parametrize("option", ["AttributeNames", "MessageSystemAttributeNames"])
def test_system_attributes_are_shown_when_asked_for(fifo: Fifo, option: str) -> None:
    fifo.send("a1", dedup="d")
    assert "Attributes" not in one(fifo.sqs, fifo.url, VisibilityTimeout=0)
    shown = one(fifo.sqs, fifo.url, **{option: SYSTEM})["Attributes"]
    assert shown.keys() == set(SYSTEM)
    assert (shown["MessageGroupId"], shown["MessageDeduplicationId"]) == ("a", "d")
    assert shown["ApproximateReceiveCount"] == "2"


def test_sequence_numbers_have_20_digits_and_grow(fifo: Fifo) -> None:
    numbers = [fifo.send(f"{group}1")["SequenceNumber"] for group in "abcab"[:3]]
    batch = fifo.send_batch(*({"MessageBody": body} for body in ("a2", "b2", "c2")))
    numbers += [entry["SequenceNumber"] for entry in batch["Successful"]]
    numbers.append(fifo.send("a3")["SequenceNumber"])
    assert all(len(number) == 20 and number.isdigit() for number in numbers)
    assert all(first < second for first, second in itertools.pairwise(numbers))


def test_standard_queues_have_none(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert "SequenceNumber" not in sqs.send_message(QueueUrl=url, MessageBody="x")
    shown = one(sqs, url, MessageSystemAttributeNames=["All"])["Attributes"]
    assert not {"SequenceNumber", "MessageDeduplicationId", "MessageGroupId"} & shown.keys()


def test_a_receive_takes_all_it_can_of_one_group_before_the_next(fifo: Fifo) -> None:
    """Recorded from AWS."""
    send(fifo, "a1", "b1", "a2", "a3")
    assert fifo.bodies() == ["a1", "a2", "a3", "b1"]


def test_a_receive_may_have_all_its_messages_of_one_group(fifo: Fifo) -> None:
    bodies = [f"a{number:02}" for number in range(12)]
    send(fifo, *bodies)
    first = fifo.receive()
    assert [message["Body"] for message in first] == bodies[:10]
    assert fifo.bodies() == []
    fifo.delete(*first)
    assert fifo.bodies() == bodies[10:]


def test_a_group_is_held_while_one_of_its_messages_is_in_flight(fifo: Fifo) -> None:
    send(fifo, "a1", "a2", "a3", "b1")
    first, second = fifo.receive(2)
    assert (first["Body"], second["Body"]) == ("a1", "a2")
    assert fifo.bodies() == ["b1"]
    fifo.delete(first)
    assert fifo.bodies() == []
    fifo.delete(second)
    assert fifo.bodies() == ["a3"]


def test_a_group_is_held_also_against_what_is_sent_meanwhile(fifo: Fifo) -> None:
    fifo.send("a1")
    (held,) = fifo.receive()
    send(fifo, "a2", "b1")
    assert fifo.bodies() == ["b1"]
    assert fifo.bodies() == []
    fifo.delete(held)
    assert fifo.bodies() == ["a2"]


def test_a_group_that_was_empty_comes_back(fifo: Fifo) -> None:
    for body in ("a1", "a2", "a3"):
        fifo.send(body)
        assert fifo.drain() == [body]
    assert fifo.bodies() == []


def test_after_a_delete_of_all_that_was_received_the_group_goes_on(fifo: Fifo) -> None:
    send(fifo, "a1", "b1", "a2", "b2", "a3", "a4", "c1")
    received = fifo.receive(2)
    assert [message["Body"] for message in received] == ["a1", "a2"]
    fifo.delete(*received)
    assert by_group(fifo.bodies()) == {"a": ["a3", "a4"], "b": ["b1", "b2"], "c": ["c1"]}


def test_after_a_delete_of_a_part_the_group_is_held(fifo: Fifo) -> None:
    send(fifo, "a1", "b1", "a2", "b2", "a3", "c1")
    received = fifo.receive(2)
    fifo.delete(received[0])
    assert fifo.bodies() == ["b1", "b2", "c1"]


def test_order_holds_after_timeouts(fifo: Fifo, server: InProcessServer) -> None:
    bodies = ["a1", "a2", "a3"]
    send(fifo, *bodies)
    for _ in range(3):
        assert fifo.bodies() == bodies
        server.clock.advance(31)
    first = fifo.receive()
    fifo.delete(first[1])
    server.clock.advance(31)
    assert fifo.bodies() == ["a1", "a3"]


def test_messages_of_a_group_go_to_two_consumers_one_after_the_other(
    fifo: Fifo, server: InProcessServer
) -> None:
    other = fifo.through(server.another().client("json"))
    send(fifo, "a1", "a2", "b1")
    other.send("a3")
    (first,) = other.receive(1)
    assert (first["Body"], fifo.bodies(1)) == ("a1", ["b1"])
    assert other.bodies() == fifo.bodies() == []
    other.delete(first)
    server.clock.advance(1)
    (second,) = fifo.receive(1)
    assert (second["Body"], other.bodies()) == ("a2", [])
    fifo.delete(second)
    server.clock.advance(1)
    assert other.bodies() == ["a3"]


def test_many_groups_all_come_each_in_its_order(fifo: Fifo) -> None:
    bodies = [f"{group}{number}" for number in range(5) for group in "abcdefgh"]
    for start in range(0, len(bodies), 10):
        fifo.send_batch(*({"MessageBody": body} for body in bodies[start : start + 10]))
    assert by_group(fifo.drain()) == by_group(bodies)


def test_the_biggest_message_fits(fifo: Fifo) -> None:
    body = "a" + "x" * ((1 << 20) - 1)
    fifo.send(body)
    fifo.send("a2")
    assert fifo.drain() == [body, "a2"]


def test_what_expired_holds_nobody_up(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, MessageRetentionPeriod="60")
    send(fifo, "a1", "b1")
    assert fifo.bodies(1) == ["a1"]
    server.clock.advance(40)
    fifo.send("a2")
    server.clock.advance(21)
    assert fifo.bodies() == ["a2"]


def test_a_purge_empties_the_queue_and_frees_its_groups(fifo: Fifo) -> None:
    send(fifo, "a1", "a2", "b1")
    fifo.receive(1)
    fifo.sqs.purge_queue(QueueUrl=fifo.url)
    assert fifo.bodies() == []
    send(fifo, "a3", "b2")
    assert by_group(fifo.bodies()) == {"a": ["a3"], "b": ["b2"]}


def test_a_queue_that_was_created_again_is_empty(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs)
    first = fifo.send("a1")
    sqs.delete_queue(QueueUrl=fifo.url)
    server.clock.advance(61)
    again = Fifo(sqs)
    assert again.bodies() == []
    assert again.send("a1")["MessageId"] != first["MessageId"]
    assert again.bodies() == ["a1"]

"""FIFO queues: approximate numbers of messages, which are exact on one front end that rests."""

from typing import Any

import pytest

from tests.conformance.fifo_calls import Fifo
from tests.conformance.in_process import InProcessServer

KINDS = ("", "NotVisible", "Delayed")
NAMES = [f"ApproximateNumberOfMessages{kind}" for kind in KINDS]


def counts(fifo: Fifo) -> tuple[int, ...]:
    """How many are visible, in flight, delayed."""
    shown = fifo.sqs.get_queue_attributes(QueueUrl=fifo.url, AttributeNames=NAMES)["Attributes"]
    return tuple(int(shown[name]) for name in NAMES)


@pytest.fixture
def fifo(sqs: Any) -> Fifo:
    return Fifo(sqs)


def test_what_waits_and_what_is_in_flight(fifo: Fifo, server: InProcessServer) -> None:
    """The first three are recorded from AWS."""
    assert counts(fifo) == (0, 0, 0)
    for body in ("a1", "a2", "a3", "b1", "c1"):
        fifo.send(body)
    assert counts(fifo) == (5, 0, 0)
    received = fifo.receive(4)
    assert counts(fifo) == (1, 4, 0)
    fifo.delete(*received[:3])
    assert counts(fifo) == (1, 1, 0)
    server.clock.advance(31)
    assert counts(fifo) == (2, 0, 0)


def test_what_its_group_holds_back_is_waiting(fifo: Fifo) -> None:
    for body in ("a1", "a2", "a3"):
        fifo.send(body)
    (held,) = fifo.receive(1)
    assert counts(fifo) == (2, 1, 0)
    fifo.change(held, 0)
    assert counts(fifo) == (3, 0, 0)


def test_duplicates_do_not_count(fifo: Fifo) -> None:
    fifo.send("a1")
    fifo.send("a1")
    fifo.send_batch({"MessageBody": "a1"}, {"MessageBody": "a2"}, {"MessageBody": "a2"})
    assert counts(fifo) == (2, 0, 0)


def test_what_is_delayed(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, DelaySeconds="60")
    fifo.send("a1")
    fifo.send("a2")
    assert counts(fifo) == (0, 0, 2)
    server.clock.advance(61)
    assert counts(fifo) == (2, 0, 0)


def test_after_a_purge_there_is_nothing(fifo: Fifo) -> None:
    fifo.send("a1")
    fifo.send("b1")
    fifo.receive(1)
    fifo.sqs.purge_queue(QueueUrl=fifo.url)
    assert counts(fifo) == (0, 0, 0)
    fifo.send("a2")
    assert counts(fifo) == (1, 0, 0)


def test_what_expired_does_not_count(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, MessageRetentionPeriod="60")
    fifo.send("a1")
    server.clock.advance(121)
    assert counts(fifo) == (0, 0, 0)

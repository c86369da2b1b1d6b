"""FIFO queues: delays of the queue, and receives that wait."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance.fifo_calls import Fifo
from tests.conformance.in_process import InProcessServer
from tests.conformance.long_polls import WAIT_S, end_of_poll


def test_the_delay_of_the_queue(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, DelaySeconds="60")
    fifo.send("a1")
    fifo.send("b1", DelaySeconds=0)
    assert fifo.bodies() == []
    server.clock.advance(59)
    assert fifo.bodies() == []
    server.clock.advance(2)
    assert sorted(fifo.bodies()) == ["a1", "b1"]


def test_a_delayed_message_does_not_hold_those_before_it(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs, DelaySeconds="60")
    fifo.send("a1")
    server.clock.advance(40)
    fifo.send("a2")
    server.clock.advance(21)
    (first,) = fifo.receive()
    assert first["Body"] == "a1"
    fifo.delete(first)
    assert fifo.bodies() == []
    server.clock.advance(40)
    assert fifo.bodies() == ["a2"]


@pytest.mark.parametrize("option", [0, None])
def test_a_delay_that_ends_holds_nothing(sqs: Any, option: int | None) -> None:
    fifo = Fifo(sqs, DelaySeconds="900")
    more: dict[str, Any] = {} if option is None else {"DelaySeconds": option}
    fifo.send("a1", **more)
    assert fifo.bodies() == []
    fifo.set(DelaySeconds="0")
    assert fifo.bodies() == ["a1"]


def test_a_delay_that_begins_holds_what_is_there(sqs: Any, server: InProcessServer) -> None:
    fifo = Fifo(sqs)
    fifo.send("a1")
    fifo.set(DelaySeconds="60")
    fifo.send("a2")
    assert fifo.bodies() == []
    server.clock.advance(61)
    assert fifo.bodies() == ["a1", "a2"]


def bodies_of_a_poll(server: InProcessServer, fifo: Fifo, act: Callable[[Fifo], None]) -> list[str]:
    """What a waiting receive gets when something is done meanwhile."""
    other = fifo.through(server.free().client("json"))
    poll = partial(fifo.bodies, WaitTimeSeconds=WAIT_S)
    bodies: list[str] = end_of_poll(server, poll, lambda: act(other))
    return bodies


def test_a_wait_ends_with_the_first_message(server: InProcessServer) -> None:
    fifo = Fifo(server.client())
    assert bodies_of_a_poll(server, fifo, lambda other: other.send("a1")) == ["a1"]


def test_a_wait_ends_when_a_delete_frees_the_group(server: InProcessServer) -> None:
    fifo = Fifo(server.client())
    fifo.send("a1")
    fifo.send("a2")
    (held,) = fifo.receive(1)
    assert bodies_of_a_poll(server, fifo, lambda other: other.delete(held)) == ["a2"]


def test_a_wait_ends_when_a_message_is_given_back(server: InProcessServer) -> None:
    fifo = Fifo(server.client())
    fifo.send("a1")
    fifo.send("a2")
    (held,) = fifo.receive(1)
    assert bodies_of_a_poll(server, fifo, lambda other: other.change(held, 0)) == ["a1", "a2"]


def test_a_wait_ends_when_a_timeout_does(server: InProcessServer) -> None:
    fifo = Fifo(server.client())
    fifo.send("a1")
    assert fifo.bodies(VisibilityTimeout=1) == ["a1"]
    assert bodies_of_a_poll(server, fifo, lambda _: None) == ["a1"]


def test_a_wait_ends_when_a_delay_does(server: InProcessServer) -> None:
    fifo = Fifo(server.client(), DelaySeconds="1")
    fifo.send("a1")
    assert bodies_of_a_poll(server, fifo, lambda _: None) == ["a1"]


def test_a_wait_does_not_take_what_is_held(server: InProcessServer) -> None:
    fifo = Fifo(server.client())
    fifo.send("a1")
    (held,) = fifo.receive(1)

    def act(other: Fifo) -> None:
        other.send("a2")
        other.send("b1")
        other.delete(held)

    first = bodies_of_a_poll(server, fifo, act)
    assert first in (["b1"], ["a2"], ["a2", "b1"], ["b1", "a2"])


def test_a_wait_without_messages_lasts(server: InProcessServer) -> None:
    fifo = Fifo(server.client(), ReceiveMessageWaitTimeSeconds="1")
    fifo.send("a1")
    started_s = time.monotonic()
    assert fifo.bodies() == ["a1"]
    assert fifo.bodies() == []
    assert time.monotonic() - started_s >= 0.99


# Another front end's poll goes on to its end, as with standard queues.
@pytest.mark.parametrize("server", ["event loop"], indirect=True)
def test_a_wait_ends_with_its_queue(server: InProcessServer) -> None:
    fifo = Fifo(server.client())

    def poll() -> Any:
        try:
            return fifo.receive(WaitTimeSeconds=WAIT_S)
        except ClientError as failure:
            return failure.response["Error"]["Code"]

    outcome = end_of_poll(server, poll, lambda: server.client().delete_queue(QueueUrl=fifo.url))
    assert outcome in ("AWS.SimpleQueueService.NonExistentQueue", [])

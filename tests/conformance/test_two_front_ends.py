"""Two front ends on one cell, each with a client: what one does, the other finds by looking."""

from functools import partial
from typing import Any

import pytest

from tests.conformance.client_calls import nothing, one
from tests.conformance.in_process import InProcessServer
from tests.conformance.long_polls import WAIT_S, Waits, begin, end_of_poll


@pytest.fixture
def clients(server: InProcessServer) -> tuple[Any, Any]:
    return server.client("json"), server.another().client("query")


def test_a_long_poll_finds_what_the_other_was_sent(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    polling, sending = clients
    url = polling.create_queue(QueueName="orders")["QueueUrl"]
    answer = end_of_poll(
        server,
        lambda: polling.receive_message(QueueUrl=url, WaitTimeSeconds=WAIT_S),
        lambda: sending.send_message(QueueUrl=url, MessageBody="x"),
    )
    assert [message["Body"] for message in answer["Messages"]] == ["x"]


def test_a_long_poll_outlives_a_queue_that_the_other_deletes(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    polling, deleting = clients
    url = polling.create_queue(QueueName="orders")["QueueUrl"]
    waits = Waits(server)
    answer = begin(lambda: polling.receive_message(QueueUrl=url, WaitTimeSeconds=WAIT_S))
    waits.reach(1)
    deleting.delete_queue(QueueUrl=url)
    # It looks once a second. While it waits no read is under way that would take 20 s so.
    waits.reach(waits.begun + 1)
    server.clock.advance(WAIT_S)
    assert "Messages" not in answer()


def test_each_receives_what_either_was_sent_and_nobody_twice(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    url = clients[0].create_queue(QueueName="orders")["QueueUrl"]
    bodies = [f"{number:02}" for number in range(40)]

    def send(client: Any, mine: list[str]) -> None:
        for start in range(0, len(mine), 10):
            entries = [{"Id": body, "MessageBody": body} for body in mine[start : start + 10]]
            assert "Failed" not in client.send_message_batch(QueueUrl=url, Entries=entries)

    def drain(client: Any) -> list[dict[str, Any]]:
        received: list[dict[str, Any]] = []
        while batch := client.receive_message(QueueUrl=url, MaxNumberOfMessages=7).get("Messages"):
            received += batch
        return received

    sending = [begin(partial(send, clients[n], bodies[n::2])) for n in range(2)]
    assert [answer() for answer in sending] == [None, None]
    draining = [begin(partial(drain, client)) for client in clients]
    received = [message for answer in draining for message in answer()]
    # Who lost each race for a block may have given up before the winner had all of it.
    received += drain(clients[0])
    assert sorted(message["Body"] for message in received) == bodies
    for message in received:
        clients[1].delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    server.clock.advance(31)
    assert all(nothing(client, url) for client in clients)


def test_a_batch_with_delays_comes_in_its_time(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    """Parts with different delays are written side by side."""
    url = clients[0].create_queue(QueueName="orders")["QueueUrl"]
    entries = [
        {"Id": str(delay_s), "MessageBody": str(delay_s), "DelaySeconds": delay_s}
        for delay_s in (0, 20, 40)
    ]
    answer = clients[0].send_message_batch(QueueUrl=url, Entries=entries)
    ids = {sent["Id"]: sent["MessageId"] for sent in answer["Successful"]}
    for delay_s in (0, 20, 40):
        message = one(clients[1], url)
        assert (message["Body"], message["MessageId"]) == (str(delay_s), ids[str(delay_s)])
        clients[1].delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        server.clock.advance(20)

"""Two front ends on one cell, each with a client: what one does, the other finds by looking."""

import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import pytest

from tests.conformance.client_calls import nothing, one
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_messages import watch_for_reads


def begin(call: Callable[[], Any]) -> Callable[[], Any]:
    """Call in a thread; what is returned waits for the answer."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()

    def answer() -> Any:
        thread.join(30)
        return answers[0]

    return answer


def watch_for_waits(server: InProcessServer) -> threading.Event:
    """An event that is set each time when a long poll has looked and begins to wait."""
    waiting = threading.Event()
    waits = server.ground.waits
    wait_for = waits.wait_for

    async def tell_and_wait_for(channel: Hashable, seen: int, until_us: int) -> bool:
        waiting.set()
        return await wait_for(channel, seen, until_us)

    waits.wait_for = tell_and_wait_for  # type: ignore[method-assign]
    return waiting


@pytest.fixture
def clients(server: InProcessServer) -> tuple[Any, Any]:
    return server.client("json"), server.another().client("query")


def test_a_long_poll_finds_what_the_other_was_sent(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    polling, sending = clients
    url = polling.create_queue(QueueName="orders")["QueueUrl"]
    looked = watch_for_reads(server)
    answer = begin(lambda: polling.receive_message(QueueUrl=url, WaitTimeSeconds=20))
    assert looked.wait(10)
    sending.send_message(QueueUrl=url, MessageBody="x")
    assert [message["Body"] for message in answer()["Messages"]] == ["x"]


def test_a_long_poll_outlives_a_queue_that_the_other_deletes(
    server: InProcessServer, clients: tuple[Any, Any]
) -> None:
    polling, deleting = clients
    url = polling.create_queue(QueueName="orders")["QueueUrl"]
    waiting = watch_for_waits(server)
    answer = begin(lambda: polling.receive_message(QueueUrl=url, WaitTimeSeconds=20))
    assert waiting.wait(10)
    deleting.delete_queue(QueueUrl=url)
    # It looks once a second. While it waits no read is under way that would take 20 s so.
    waiting.clear()
    assert waiting.wait(10)
    server.clock.advance(20)
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

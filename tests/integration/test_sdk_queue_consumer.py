"""The SDK's consumer of queues on a real server that is killed, over a network that is cut."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.cut_network import cut_network
from tests.integration.sdk_site import FACT_S_MAX, program, sdk_client, wait_until
from tests.integration.server_process import ServerProcess
from tidegate_sdk import QueueConsumer, ReceivedMessage, RetryError

PROGRAM = """
import sys, time
from tests.integration.sdk_site import sdk_client
from tidegate_sdk import QueueConsumer

def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

def handle(message):
    say(f"begin {message.body}")
    time.sleep(0.2)  # its work
    say(f"end {message.body}")

client, url = sdk_client(sys.argv[1], "sqs"), sys.argv[2]
QueueConsumer(client, url, handle, workers=2, wait_s=1, visibility_s=3_600).run()
"""
"""What it does not give back is away for an hour."""


class Ledger:
    """What handlers have seen, by body, in order of beginning."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def handle(self, message: ReceivedMessage) -> None:
        with self._lock:
            self.seen.append(message.body)


def send(sqs: Any, url: str, count: int, *, groups: int = 0) -> list[str]:
    bodies = [f"{number}" for number in range(count)]
    for first in range(0, count, 10):
        entries: list[dict[str, Any]] = [
            {"Id": body, "MessageBody": body} for body in bodies[first : first + 10]
        ]
        for entry in entries if groups else ():
            entry["MessageGroupId"] = f"{int(entry['Id']) % groups}"
            entry["MessageDeduplicationId"] = entry["Id"]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    return bodies


def left(sqs: Any, url: str) -> int:
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(map(int, told.values()))


@contextmanager
def running(consumer: QueueConsumer) -> Iterator[QueueConsumer]:
    thread = threading.Thread(target=consumer.run, daemon=True)
    thread.start()
    yield consumer
    consumer.stop()
    thread.join(FACT_S_MAX)
    assert not thread.is_alive()


@pytest.mark.parametrize("groups", [0, 5], ids=["standard", "fifo"])
def test_a_killed_server_loses_nothing_and_groups_keep_their_order(
    server: ServerProcess, groups: int
) -> None:
    sqs = sdk_client(server.url, "sqs")
    fifo = {"QueueName": "orders.fifo", "Attributes": {"FifoQueue": "true"}}
    url = sqs.create_queue(**(fifo if groups else {"QueueName": "orders"}))["QueueUrl"]
    bodies, ledger = send(sqs, url, 400, groups=groups), Ledger()
    with running(QueueConsumer(sqs, url, ledger.handle, wait_s=1, visibility_s=5)):
        wait_until(lambda: len(ledger.seen) > 100, "a quarter of the messages")
        server.kill()
        server.start()
        wait_until(lambda: set(ledger.seen) == set(bodies), "all messages")
        wait_until(lambda: not left(sqs, url), "all deletes")
    for group in range(groups):
        first_times = list(dict.fromkeys(b for b in ledger.seen if int(b) % groups == group))
        assert first_times == sorted(first_times, key=int)


def test_a_network_that_is_cut_ends_no_consumer_and_loses_nothing(server: ServerProcess) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    bodies, ledger = send(sqs, url, 300), Ledger()
    with cut_network(server.port) as network:
        far = sdk_client(network.url, "sqs")
        far_url = url.replace(server.url, network.url)
        with running(QueueConsumer(far, far_url, ledger.handle, wait_s=1, visibility_s=5)):
            for seen in (50, 150):
                wait_until(lambda at=seen: len(ledger.seen) > at, "some messages")  # type: ignore[misc]
                network.cut()
                time.sleep(0.3)  # as long as the network is away
                network.mend()
            network.answers_lost = 1
            wait_until(lambda: set(ledger.seen) == set(bodies), "all messages")
            wait_until(lambda: not left(sqs, url), "all deletes")


def test_a_message_stays_hidden_while_its_handler_works(server: ServerProcess) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, 1)
    hidden_until: set[Any] = set()

    def is_extended_twice() -> bool:
        [shown] = sqs.tidegate_browse_messages(QueueUrl=url)["Messages"]
        hidden_until.add(shown.get("VisibleTimestamp"))
        return len(hidden_until) > 2

    def handle(_message: ReceivedMessage) -> None:
        wait_until(is_extended_twice, "extensions")

    with running(QueueConsumer(sqs, url, handle, wait_s=1, visibility_s=6)):
        wait_until(lambda: not left(sqs, url), "its delete")
    assert len(hidden_until) > 2


def test_poison_goes_to_the_dead_letters_and_the_rest_is_done(server: ServerProcess) -> None:
    sqs = sdk_client(server.url, "sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    [arn] = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])[
        "Attributes"
    ].values()
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "2"}}'
    url = sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    send(sqs, url, 20)

    def handle(message: ReceivedMessage) -> None:
        if message.body == "7":
            raise ValueError(message.body)

    with running(QueueConsumer(sqs, url, handle, wait_s=1, retry_first_s=1)):
        wait_until(lambda: left(sqs, dead), "a dead letter")
        wait_until(lambda: not left(sqs, url), "all other messages")
    [letter] = sqs.receive_message(QueueUrl=dead)["Messages"]
    assert letter["Body"] == "7"


@pytest.mark.parametrize("failure", [ValueError("again"), RetryError(0.5)], ids=["any", "retry"])
def test_parts_of_seconds_are_rounded_up(server: ServerProcess, failure: Exception) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, 1)
    counts: list[int] = []

    def handle(message: ReceivedMessage) -> None:
        counts.append(message.receive_count)
        if len(counts) == 1:
            raise failure

    with running(QueueConsumer(sqs, url, handle, wait_s=2, retry_first_s=0.5)):
        wait_until(lambda: not left(sqs, url), "its delete")
    assert counts == [1, 2]


def test_a_retry_at_no_time_is_a_failure_as_any_other(server: ServerProcess) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    send(sqs, url, 1)
    counts: list[int] = []

    def handle(message: ReceivedMessage) -> None:
        counts.append(message.receive_count)
        if len(counts) == 1:
            raise RetryError("soon")  # type: ignore[arg-type]

    with running(QueueConsumer(sqs, url, handle, wait_s=2, retry_first_s=1)):
        wait_until(lambda: not left(sqs, url), "its delete")
    assert counts == [1, 2]


def test_a_queue_that_is_deleted_ends_its_consumer(server: ServerProcess) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    consumer = QueueConsumer(sqs, url, lambda _: None, wait_s=1)
    with pytest.raises(ClientError, match=r"QueueDoesNotExist|NonExistentQueue"):
        consumer.run()


def test_a_program_that_is_stopped_ends_what_it_has_begun_and_gives_back_the_rest(
    server: ServerProcess,
) -> None:
    sqs = sdk_client(server.url, "sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    bodies = send(sqs, url, 40)
    with program(PROGRAM, server.url, url) as started:
        lines = [started.said.readline() for _ in range(6)]
        lines += started.stop(signal.SIGTERM).splitlines()
    words = Counter(line.split()[0] for line in lines)
    assert words["begin"] == words["end"] < 40
    done = {line.split()[1] for line in lines if line.startswith("end")}
    assert len(done) == words["end"]
    seen = Ledger()
    with running(QueueConsumer(sqs, url, seen.handle, wait_s=1)):
        wait_until(lambda: not left(sqs, url), "what was given back")
    assert sorted(seen.seen) == sorted(set(bodies) - done)

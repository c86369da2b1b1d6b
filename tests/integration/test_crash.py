"""kill -9 under load: nothing that was acknowledged is undone by it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.integration.server_process import ServerProcess

SENDERS = 4
WORKERS = 2
RECEIVED_AT_ONCE = 4
ACKNOWLEDGED_BEFORE_KILL = 400
VISIBILITY_S = 600


@dataclass
class Ledger:
    """What clients were told, by message id."""

    sent: set[str] = field(default_factory=set)
    received: dict[str, int] = field(default_factory=dict)
    """Receive count as it was answered last."""
    deleted: set[str] = field(default_factory=set)
    enough: threading.Event = field(default_factory=threading.Event)


def send(client: Any, queue: str, ledger: Ledger) -> None:
    while True:
        entries = [{"Id": str(n), "MessageBody": f"body {n}"} for n in range(5)]
        answer = client.send_message_batch(QueueUrl=queue, Entries=entries)
        ledger.sent.update(entry["MessageId"] for entry in answer["Successful"])
        if len(ledger.sent) >= ACKNOWLEDGED_BEFORE_KILL and len(ledger.deleted) >= SENDERS:
            ledger.enough.set()


def work(client: Any, queue: str, ledger: Ledger) -> None:
    """Receive, and delete every other message."""
    while True:
        answer = client.receive_message(
            QueueUrl=queue,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            WaitTimeSeconds=1,
            VisibilityTimeout=VISIBILITY_S,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        for n, message in enumerate(answer.get("Messages", [])):
            count = int(message["Attributes"]["ApproximateReceiveCount"])
            ledger.received[message["MessageId"]] = count
            if n % 2 == 0:
                client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                ledger.deleted.add(message["MessageId"])


def until_the_crash(job: Any, server: ServerProcess, queue: str, ledger: Ledger) -> None:
    try:
        job(server.client(), queue, ledger)
    except (BotoCoreError, ClientError):
        return


def visible_ids(client: Any, queue: str) -> set[str]:
    found: set[str] = set()
    while messages := client.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=VISIBILITY_S
    ).get("Messages"):
        ids = [message["MessageId"] for message in messages]
        assert not found.intersection(ids), "a leased message was handed out again"
        found.update(ids)
    return found


def test_a_crash_under_load_undoes_nothing_that_was_acknowledged(server: ServerProcess) -> None:
    queue = server.client().create_queue(QueueName="orders")["QueueUrl"]
    ledger = Ledger()
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(until_the_crash, job, server, queue, ledger)
            for job in [send] * SENDERS + [work] * WORKERS
        ]
        assert ledger.enough.wait(120)
        server.kill()
        for job in jobs:
            job.result(60)
    server.start()
    visible = visible_ids(server.client(), queue)
    assert not visible & ledger.deleted, "a deleted message came back"
    assert not visible & set(ledger.received), "a leased message became visible"
    # What is left is leased by receives without an answer, but for deletes without one.
    counts = server.client().get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
    in_flight = int(counts["Attributes"]["ApproximateNumberOfMessagesNotVisible"])
    missing = len(ledger.sent - ledger.deleted) - in_flight
    assert missing <= WORKERS, f"{missing} acknowledged messages are missing"
    unseen = ledger.sent - visible - set(ledger.received)
    assert len(unseen) <= WORKERS * RECEIVED_AT_ONCE


def test_a_lease_and_its_count_outlive_a_crash(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="once")
    handle = ""
    for _ in range(2):
        (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
        handle = message["ReceiptHandle"]
        client.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    (message,) = client.receive_message(
        QueueUrl=queue, WaitTimeSeconds=20, VisibilityTimeout=VISIBILITY_S
    )["Messages"]
    server.kill()
    server.start()
    client = server.client()
    assert "Messages" not in client.receive_message(QueueUrl=queue)
    client.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    (message,) = client.receive_message(
        QueueUrl=queue, WaitTimeSeconds=20, MessageSystemAttributeNames=["All"]
    )["Messages"]
    assert int(message["Attributes"]["ApproximateReceiveCount"]) == 4

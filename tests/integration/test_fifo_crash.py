"""kill -9 of a server with FIFO queues: order, held groups and duplicates are as they were."""

import threading
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.conformance.fifo_calls import Fifo
from tests.integration.server_process import ServerProcess

GROUPS = "abcd"
SENT_BEFORE_KILL = 120


def send_until_the_crash(fifo: Fifo, group: str, sent: list[Any], enough: threading.Event) -> None:
    try:
        while True:
            body = f"{group}{len(sent):04}"
            answer = fifo.send(body)
            sent.append((body, answer["MessageId"], answer["SequenceNumber"]))
            if len(sent) >= SENT_BEFORE_KILL // len(GROUPS):
                enough.set()
    except (BotoCoreError, ClientError):
        return


def drain(fifo: Fifo) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    while messages := fifo.receive(MessageSystemAttributeNames=["SequenceNumber"]):
        found += [(m["Body"], m["MessageId"], m["Attributes"]["SequenceNumber"]) for m in messages]
        fifo.delete(*messages)
    return found


def test_what_was_acknowledged_stays_in_its_order(server: ServerProcess) -> None:
    fifo = Fifo(server.client())
    held_ids = [fifo.send(f"z{number}")["MessageId"] for number in range(3)]
    (held,) = fifo.receive(1, VisibilityTimeout=600)
    sent: dict[str, list[Any]] = {group: [] for group in GROUPS}
    enough = [threading.Event() for _ in GROUPS]
    senders = [
        threading.Thread(
            target=send_until_the_crash,
            args=(fifo.through(server.client()), group, sent[group], event),
        )
        for group, event in zip(GROUPS, enough, strict=True)
    ]
    for sender in senders:
        sender.start()
    assert all(event.wait(60) for event in enough)
    server.kill()
    for sender in senders:
        sender.join()
    server.start()

    # What was being sent when the server died may be there or not; sent again, it is there once.
    for group in GROUPS:
        body, message_id, sequence = sent[group][-1]
        again = fifo.send(body)
        assert (again["MessageId"], again["SequenceNumber"]) == (message_id, sequence)
        body = f"{group}{len(sent[group]):04}"
        unsure = fifo.send(body)
        sent[group].append((body, unsure["MessageId"], unsure["SequenceNumber"]))
    assert fifo.send("z0")["MessageId"] == held_ids[0]

    found = drain(fifo)
    for group in GROUPS:
        assert [message for message in found if message[0][0] == group] == sent[group]
    # The group that was held is held still, and its handle is good.
    assert len(found) == sum(map(len, sent.values()))
    fifo.delete(held)
    assert [message_id for _, message_id, _ in drain(fifo)] == held_ids[1:]

"""Calls on one FIFO queue, as the conformance tests of FIFO queues make them.

The first letter of a body is its message group, unless a test says another one.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.conformance.client_calls import error

EXPIRED = "Value {} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."


class Fifo:
    """A FIFO queue through one client. Without attributes it deduplicates by content."""

    def __init__(self, sqs: Any, name: str = "orders.fifo", **attributes: Any) -> None:
        self.sqs = sqs
        settings = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **attributes}
        texts = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in settings.items()
        }
        self.url = sqs.create_queue(QueueName=name, Attributes=texts)["QueueUrl"]

    def through(self, client: Any) -> "Fifo":
        """The same queue, through another client."""
        other = Fifo.__new__(Fifo)
        other.sqs, other.url = client, self.url
        return other

    def send(self, body: str, group: str = "", dedup: str | None = None, **more: Any) -> Any:
        """What the answer says of one message."""
        if dedup is not None:
            more["MessageDeduplicationId"] = dedup
        group = group or body[0]
        return self.sqs.send_message(
            QueueUrl=self.url, MessageBody=body, MessageGroupId=group, **more
        )

    def send_batch(self, *entries: dict[str, Any]) -> Any:
        """The answer of a batch whose ids are the numbers of its entries."""
        numbered = [
            {"Id": str(number), "MessageGroupId": entry["MessageBody"][:1], **entry}
            for number, entry in enumerate(entries)
        ]
        return self.sqs.send_message_batch(QueueUrl=self.url, Entries=numbered)

    def receive(self, count: int = 10, **options: Any) -> list[dict[str, Any]]:
        """Up to so many messages."""
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=count, **options)
        return list(answer.get("Messages", ()))

    def bodies(self, count: int = 10, **options: Any) -> list[str]:
        """The bodies of up to so many messages, received."""
        return [message["Body"] for message in self.receive(count, **options)]

    def delete(self, *messages: dict[str, Any]) -> None:
        """Delete received messages one by one."""
        for message in messages:
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def change(self, message: dict[str, Any], timeout_s: int) -> None:
        """Set the visibility of a received message anew."""
        self.sqs.change_message_visibility(
            QueueUrl=self.url,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=timeout_s,
        )

    def set(self, **attributes: str) -> None:
        """Change attributes of the queue."""
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes=attributes)

    def refused_as_expired(self, message: dict[str, Any]) -> bool:
        """Whether a delete is refused because its handle has expired."""
        handle = message["ReceiptHandle"]
        refused = error(self.sqs.delete_message, QueueUrl=self.url, ReceiptHandle=handle)
        return refused == ("InvalidParameterValue", EXPIRED.format(handle), 400)

    def drain(self) -> list[str]:
        """Receive and delete until there is nothing: all bodies."""
        found: list[str] = []
        while messages := self.receive():
            found += [message["Body"] for message in messages]
            self.delete(*messages)
        return found


def by_group(bodies: Sequence[str]) -> dict[str, list[str]]:
    """The bodies of each group, in their order: SQS promises none between groups."""
    groups: dict[str, list[str]] = {}
    for body in bodies:
        groups.setdefault(body[0], []).append(body)
    return groups

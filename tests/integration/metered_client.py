"""A client that keeps books of what was acknowledged to it, and repeats calls as SDKs do."""

import http.client
import json
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

UNIT_BYTES = 65_536
TIMEOUT_S = 60

Sums = Counter[tuple[str, str, str]]
"""By queue, operation, and what is counted."""


class LostReplyError(Exception):
    """Nobody knows whether the call took effect."""


@dataclass
class Books:
    """What a client was told, added up; `lost` replies may have been served or not.

    `again` is what attempts to send that stored nothing may have been counted as, at the most.
    """

    sums: Sums = field(default_factory=Counter)
    lost: int = 0
    again: Sums = field(default_factory=Counter)

    def add_again(self, queue: str, operation: str, sizes: list[int], times: int) -> None:
        """Each of so many requests had stored its messages before, or stored them for another."""
        self.again[queue, operation, "requests"] += times
        self.again[queue, operation, "units"] += times * max(1, -(-sum(sizes) // UNIT_BYTES))

    def add(self, queue: str, operation: str, sizes: list[int]) -> None:
        """A call that was acknowledged, with messages of these sizes."""
        self.sums[queue, operation, "requests"] += 1
        self.sums[queue, operation, "units"] += max(1, -(-sum(sizes) // UNIT_BYTES))
        self.sums[queue, operation, "messages"] += len(sizes)
        self.sums[queue, operation, "bytes"] += sum(sizes)


class MeteredClient:
    """Speaks AWS JSON 1.0 over one connection, as an account."""

    def __init__(self, port: int, account: str, books: Books) -> None:
        self.books = books
        self._port = port
        self._account = account
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def call(
        self, operation: str, params: dict[str, Any], invocation: str = "", attempt: int = 1
    ) -> Any:
        """The output. Raises LostReplyError."""
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{operation}",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self._account}/20260101/us-east-1/sqs"
            "/aws4_request, SignedHeaders=host, Signature=0",
            "amz-sdk-invocation-id": invocation or str(uuid.uuid4()),
            "amz-sdk-request": f"attempt={attempt}; max=9",
        }
        try:
            self._connection.request("POST", "/", json.dumps(params), headers)
            response = self._connection.getresponse()
            output = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise LostReplyError from error
        assert response.status == 200, output
        return output

    def close(self) -> None:
        self._connection.close()

    def create(self, name: str) -> str:
        """The queue's URL."""
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        output = self.call("CreateQueue", {"QueueName": name, "Attributes": attributes})
        url: str = output["QueueUrl"]
        return url

    def receive_and_delete(self, url: str) -> int:
        """Take what there is, and delete it: how many. Raises LostReplyError."""
        name = url.rpartition("/")[2]
        try:
            params = {"QueueUrl": url, "MaxNumberOfMessages": 10}
            messages = self.call("ReceiveMessage", params).get("Messages", [])
            self.books.add(name, "ReceiveMessage", [len(m["Body"]) for m in messages])
            for message in messages:
                handle = message["ReceiptHandle"]
                self.call("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})
                self.books.sums[name, "DeleteMessage", "requests"] += 1
                self.books.sums[name, "DeleteMessage", "units"] += 1
                self.books.sums[name, "DeleteMessage", "messages"] += 1
        except LostReplyError:
            self.books.lost += 1
            raise
        return len(messages)


@dataclass
class Send:
    """A call that sends, until it is acknowledged, however often it is repeated."""

    url: str
    sizes: list[int]
    batch: bool
    invocation: str = field(default_factory=lambda: str(uuid.uuid4()))
    attempts: int = 0

    def attempt(self, client: MeteredClient) -> None:
        """Send it. Raises LostReplyError."""
        operation = self._call(client)
        queue = self.url.rpartition("/")[2]
        client.books.add(queue, operation, self.sizes)
        client.books.add_again(queue, operation, self.sizes, self.attempts - 1)

    def repeat(self, client: MeteredClient) -> Books:
        """Send what was acknowledged once more: what that counts as. Raises LostReplyError."""
        books = Books()
        books.add_again(self.url.rpartition("/")[2], self._call(client), self.sizes, 1)
        return books

    def _call(self, client: MeteredClient) -> str:
        self.attempts += 1
        entries = [self._message(number) for number in range(len(self.sizes))]
        operation = "SendMessage"
        params: dict[str, Any] = {"QueueUrl": self.url, **entries[0]}
        if self.batch:
            numbered = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
            operation, params = "SendMessageBatch", {"QueueUrl": self.url, "Entries": numbered}
        output = client.call(operation, params, self.invocation, self.attempts)
        assert not output.get("Failed")
        return operation

    def _message(self, number: int) -> dict[str, str]:
        message = {"MessageBody": "x" * self.sizes[number]}
        if self.url.endswith(".fifo"):
            message["MessageGroupId"] = "g"
            message["MessageDeduplicationId"] = f"{self.invocation}-{number}"
        return message

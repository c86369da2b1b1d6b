"""A stream and a queue that reads it, as the conformance tests of such queues use them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

STREAM = "clicks"
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{STREAM}"


class StreamQueue:
    """A queue over the stream `clicks`, FIFO by its name or standard, through one client.

    It begins with the stream's first record, unless `attributes` say otherwise.
    """

    def __init__(self, server: InProcessServer, name: str = "work.fifo", **attributes: Any) -> None:
        self.sqs = server.client("json")
        settings: dict[str, Any] = {
            "TidegateStreamArn": ARN,
            "TidegateStartingPosition": "TRIM_HORIZON",
            **attributes,
        }
        if name.endswith(".fifo"):
            settings["FifoQueue"] = "true"
        texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in settings.items()
            if value is not None
        }
        self.url = self.sqs.create_queue(QueueName=name, Attributes=texts)["QueueUrl"]

    def through(self, server: InProcessServer) -> "StreamQueue":
        """The same queue, through another front end."""
        other = StreamQueue.__new__(StreamQueue)
        other.sqs, other.url = server.client("json"), self.url
        return other

    def receive(self, count: int = 10, **options: Any) -> list[dict[str, Any]]:
        """Up to so many messages, with all that they have."""
        asked: Mapping[str, Any] = {
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
            **options,
        }
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=count, **asked)
        return list(answer.get("Messages", ()))

    def bodies(self, count: int = 10, **options: Any) -> list[str]:
        """The bodies of up to so many messages, received."""
        return [message["Body"] for message in self.receive(count, **options)]

    def delete(self, *messages: dict[str, Any]) -> None:
        """Delete received messages, in one call."""
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages)
        ]
        answer = self.sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)
        assert not answer.get("Failed"), answer

    def drained(self, calls_max: int = 200) -> list[str]:
        """The bodies of all that is there, received and deleted in order."""
        found: list[str] = []
        for _ in range(calls_max):
            messages = self.receive()
            if not messages:
                return found
            self.delete(*messages)
            found += [message["Body"] for message in messages]
        raise AssertionError(f"there is no end after {found[-10:]}")

    def attributes(self, *names: str) -> dict[str, str]:
        """What the queue says of itself."""
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names or ["All"])
        return dict(answer.get("Attributes", {}))

    def counts(self) -> tuple[int, int]:
        """About how many messages are visible, and in flight."""
        found = self.attributes(
            "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
        )
        return (
            int(found["ApproximateNumberOfMessages"]),
            int(found["ApproximateNumberOfMessagesNotVisible"]),
        )


def put(kinesis: Any, *texts: str) -> None:
    """One record for each text, in one call; its partition key is its first letter."""
    records = [{"Data": text.encode(), "PartitionKey": text[0]} for text in texts]
    answer = kinesis.put_records(StreamName=STREAM, Records=records)
    assert answer["FailedRecordCount"] == 0, answer


def put_in_order(kinesis: Any, *texts: str) -> None:
    """One call for each text, so that each is a slot of its own."""
    for text in texts:
        kinesis.put_record(StreamName=STREAM, Data=text.encode(), PartitionKey=text[0])

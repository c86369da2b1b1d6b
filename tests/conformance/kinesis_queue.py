"""A stream on demand and a queue of the Kinesis API over it, as the conformance tests use them."""

from collections.abc import Hashable
from typing import Any

from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

STREAM = "visits"
STREAM_ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{STREAM}"
FROM_THE_FIRST = {"Type": "TRIM_HORIZON"}


def without_waiting(server: InProcessServer) -> InProcessServer:
    """The server, whose waits let its time pass at once: each receive here waits for a second."""

    async def wait_for(channel: Hashable, seen: int, until_us: int) -> bool:
        del channel, seen
        server.clock.advance(max(0, until_us - server.clock.now_us()) / 1_000_000)
        return True

    server.ground.waits.wait_for = wait_for  # type: ignore[method-assign]
    return server


class KinesisQueue:
    """A queue over the stream `visits`, from its first record on, through one client."""

    def __init__(
        self,
        server: InProcessServer,
        name: str = "work",
        *,
        position: dict[str, Any] | None = FROM_THE_FIRST,
        **given: Any,
    ) -> None:
        self.kinesis = server.kinesis()
        start = {} if position is None else {"StartingPosition": position}
        self.made = self.kinesis.create_queue(
            QueueName=name,
            StreamConfigurationList=[{"StreamARN": STREAM_ARN, **start}],
            **given,
        )["QueueDescription"]
        self.arn = self.made["QueueARN"]

    def through(self, server: InProcessServer) -> "KinesisQueue":
        """The same queue, through another front end."""
        other = KinesisQueue.__new__(KinesisQueue)
        other.kinesis, other.arn, other.made = server.kinesis(), self.arn, self.made
        return other

    def described(self) -> dict[str, Any]:
        """What DescribeQueue says."""
        return dict(self.kinesis.describe_queue(QueueARN=self.arn)["QueueDescription"])

    def receive(self, limit: int = 10, *, dead: bool = False, **options: Any) -> list[Any]:
        """Up to so many records, or dead letters; a second is waited for where there are none."""
        call = self.kinesis.receive_queue_records
        if dead:
            call = self.kinesis.receive_dead_letter_queue_records
        asked = {"Limit": limit, "WaitTimeSeconds": 1, **options}
        return list(call(QueueARN=self.arn, **asked)["QueueRecords"])

    def data(self, limit: int = 10, *, dead: bool = False, **options: Any) -> list[str]:
        """What was put into up to so many records, sorted."""
        return texts(self.receive(limit, dead=dead, **options))

    def acknowledge(self, *records: Any, dead: bool = False) -> dict[str, Any]:
        """Acknowledge received records, or dead letters, in one call."""
        call = self.kinesis.acknowledge_queue_records
        if dead:
            call = self.kinesis.acknowledge_dead_letter_queue_records
        return _lists(call(QueueARN=self.arn, Entries=_entries(records)))

    def hide(self, seconds: int, *records: Any, dead: bool = False) -> dict[str, Any]:
        """Hide received records, or dead letters, for so long from now."""
        call = self.kinesis.update_queue_records_visibility
        if dead:
            call = self.kinesis.update_dead_letter_queue_records_visibility
        entries = [{**one, "VisibilityTimeoutSeconds": seconds} for one in _entries(records)]
        return _lists(call(QueueARN=self.arn, Entries=entries))

    def restore(self, *records: Any) -> dict[str, Any]:
        """Restore dead letters."""
        call = self.kinesis.restore_dead_letter_queue_records
        return _lists(call(QueueARN=self.arn, Entries=_entries(records)))

    def drained(self, calls_max: int = 200) -> list[str]:
        """What was put into all that is there, received and acknowledged, sorted."""
        found: list[str] = []
        for _ in range(calls_max):
            records = self.receive()
            if not records:
                return sorted(found)
            assert self.acknowledge(*records)["Failed"] == []
            found += texts(records)
        raise AssertionError(f"there is no end after {found[-10:]}")


def _lists(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("Successful", "Failed")}


def _entries(records: Any) -> list[dict[str, Any]]:
    return [{"ReceiptHandle": record["ReceiptHandle"]} for record in records]


def texts(records: Any) -> list[str]:
    """What was put into records, sorted."""
    return sorted(record["Data"].decode() for record in records)


def codes(answer: dict[str, Any]) -> list[str]:
    """Why entries failed."""
    return [entry["ErrorCode"] for entry in answer["Failed"]]


def put(kinesis: Any, *words: str) -> None:
    """One record for each word, in one call; its partition key is the word."""
    records = [{"Data": word.encode(), "PartitionKey": word} for word in words]
    answer = kinesis.put_records(StreamName=STREAM, Records=records)
    assert answer["FailedRecordCount"] == 0, answer

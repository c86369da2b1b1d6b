"""A member of a consumer group in virtual time, whose threads are the test."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from sdk.tests.scripted import ScriptedClient, VirtualClock, leave_at_once
from tidegate_sdk import GroupConsumer, GroupShard, RecordBatch
from tidegate_sdk.clock import Backoff
from tidegate_sdk.group_callbacks import ShardsCallback, nothing

ARN = "arn:aws:kinesis:eu-west-1:000000000000:stream/clicks"
BEGIN = {"ShardIteratorType": "TRIM_HORIZON"}
DONE: dict[str, Any] = {"Successful": [], "Failed": []}


def assigned(name: str, epoch: int = 1, *, new: bool = True) -> dict[str, Any]:
    given = {"StreamARN": ARN, "ShardId": name, "AssignmentEpoch": epoch}
    return {**given, "Position": BEGIN} if new else given


def told(*assignment: dict[str, Any], epoch: int = 1, member: str = "me") -> dict[str, Any]:
    return {
        "MemberId": member,
        "MemberEpoch": epoch,
        "HeartbeatIntervalMillis": 3_000,
        "Assignment": list(assignment),
    }


def page(*numbers: int, ends: bool = False) -> dict[str, Any]:
    records = [{"SequenceNumber": f"{n}", "Data": b"x", "PartitionKey": "k"} for n in numbers]
    following = {} if ends else {"NextShardIterator": f"behind {numbers[-1:]}"}
    return {"Records": records, "MillisBehindLatest": 0, **following}


class Member:
    """A consumer whose threads are the test."""

    def __init__(
        self, *, read_timeout: float | None = None, handler: Any = None, **options: Any
    ) -> None:
        self.clock, self.client = VirtualClock(), ScriptedClient()
        if read_timeout is not None:
            made: Any = self.client
            made.meta = SimpleNamespace(config=SimpleNamespace(read_timeout=read_timeout))
        self.said: list[Any] = []
        self.batches: list[RecordBatch] = []
        self.meanwhile: Callable[[], Any] = lambda: None
        self.calls: dict[str, ShardsCallback] = {}
        """What callbacks do and return, by the words for them."""
        self.consumer = GroupConsumer(
            self.client,
            "readers",
            handler or self._handle,
            on_assigned=self._callback("assigned"),
            on_revoked=self._callback("revoked"),
            on_lost=self._callback("lost"),
            clock=self.clock,
            backoff=Backoff(fraction=lambda: 0.0),
            spawn=leave_at_once,
            **options,
        )
        self.client.lay_down("get_shard_iterator", lambda params: {"ShardIterator": str(params)})
        self.client.lay_down("tidegate_commit_offsets", DONE)

    def _callback(self, word: str) -> Callable[[Sequence[GroupShard]], object]:
        def say(shards: Sequence[GroupShard]) -> object:
            self.said.append((word, *[each.shard_id for each in shards]))
            return self.calls.get(word, nothing)(shards)

        return say

    def _handle(self, batch: RecordBatch) -> None:
        self.batches.append(batch)
        self.said.append([int(record["SequenceNumber"]) for record in batch.records])
        self.meanwhile()

    def beat(self, answer: Any) -> dict[str, Any]:
        """A heartbeat that is answered so: what it said."""
        self.next_is("tidegate_group_heartbeat", answer)
        assert self.consumer.beat_next()
        self.tell()
        return self.client.asked("tidegate_group_heartbeat")[-1]

    def next_is(self, operation: str, *answers: Any) -> None:
        self.client._answers[operation].clear()
        self.client.lay_down(operation, *answers)

    def read(self, answer: Any) -> None:
        self.next_is("get_records", answer)
        assert self.consumer.read_next()
        self.tell()

    def tell(self) -> None:
        """As the teller does, which is told one thing at a time."""
        if not self.consumer._news.is_under_way:
            while self.consumer.tell_next():
                pass

    def keep(self) -> None:
        while self.consumer.keep_next() or self.consumer.tell_next():
            pass

    def committed(self) -> list[tuple[str, int, str]]:
        return [
            (entry["ShardId"], entry["AssignmentEpoch"], entry["SequenceNumber"])
            for call in self.client.asked("tidegate_commit_offsets")
            for entry in call["Entries"]
        ]

    def finish(self) -> None:
        """Run to the end, as the threads would."""
        self.clock.while_waiting = self.keep
        self.consumer.stop()
        self.keep()
        self.consumer.run(signals=())


def joined(*shards: str, **options: Any) -> Member:
    here = Member(**options)
    here.beat(told(*map(assigned, shards)))
    return here

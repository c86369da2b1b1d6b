"""What calls on streams ask of a DynamoDB cell, and what that costs: the table of docs/cost.md.

`python -m tests.conformance.stream_cost_table` prints it.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any, Final, NamedTuple

from control_plane.core.price_list import PRICES
from data_plane.ports import Clock
from tests.conformance.capacity_cell import REQUEST_OF, CapacityCell
from tests.conformance.cost_table import WRITES, Case, bodies
from tests.conformance.in_process import InProcessServer
from tests.conformance.kinesis_queue import without_waiting

NAME: Final = "clicks"
FIRST: Final = "shardId-000000000000"
HALF: Final = str(2**126)
_USD_PER_WRITE_UNIT: Final = PRICES["write unit"].first
_USD_PER_READ_UNIT: Final = PRICES["read unit"].first


class Spent(NamedTuple):
    """Of one call: requests that write and that read, and their units."""

    writes: int
    reads: int
    write_units: int
    read_units: int


class Site:
    """A server that counts, with a stream of two shards."""

    def __init__(self) -> None:
        self.cells: list[CapacityCell] = []
        self.server = InProcessServer(new_cell=self._open)
        self.kinesis = self.server.kinesis(extended=True)
        self.sqs = self.server.client()
        self.kinesis.create_stream(StreamName=NAME, ShardCount=2)

    def _open(self, clock: Clock, _offload: object) -> CapacityCell:
        self.cells.append(CapacityCell(clock))
        return self.cells[-1]

    def spent(self, operation: str, **params: Any) -> tuple[Spent, dict[str, Any]]:
        """What a call costs, and its answer."""
        (cell,) = self.cells
        requests, units = cell.requests.copy(), cell.units.copy()
        client = self.kinesis if hasattr(self.kinesis, operation) else self.sqs
        answer = getattr(client, operation)(**params)
        asked, used = cell.requests - requests, cell.units - units
        writes = sum(asked[name] for name, request in REQUEST_OF.items() if request in WRITES)
        write_units = sum(used[name] for name in WRITES)
        spent = Spent(writes, asked.total() - writes, write_units, used.total() - write_units)
        return spent, answer

    def iterator(self, **how: Any) -> tuple[Spent, str]:
        """What it costs to make an iterator, and the iterator."""
        spent, answer = self.spent("get_shard_iterator", StreamName=NAME, ShardId=FIRST, **how)
        return spent, str(answer["ShardIterator"])


def _records(count: int, size_bytes: int, shards: int = 1) -> list[dict[str, Any]]:
    """Records of random text that go to one of the two shards, or to both in turn."""
    keys = ("0", str(2**127))[:shards]
    return [
        {"PartitionKey": "k", "Data": text, "ExplicitHashKey": keys[number % shards]}
        for number, text in enumerate(bodies(Case(size_bytes, 1), count))
    ]


def rows() -> Iterator[tuple[str, Spent]]:
    """Each call, and what it costs."""
    site = Site()
    with closing(site.server):
        yield from _puts(site)
        yield from _reads(site)
        yield from _others(site)
        yield from _kinesis_queues(site)
    site = Site()
    with closing(site.server):
        yield from _groups(site)
    site = Site()
    with closing(site.server):
        yield from _queues(site)


def _puts(site: Site) -> Iterator[tuple[str, Spent]]:
    (one,) = _records(1, 1_000)
    for title in ("PutRecord, 1 KB, a server's first to a shard", "PutRecord, 1 KB"):
        yield title, site.spent("put_record", StreamName=NAME, **one)[0]
    site.spent("put_records", StreamName=NAME, Records=_records(2, 1, shards=2))
    for count, size_bytes, size, shards in (
        *((10, 1_000, "1 KB", 1), (10, 1_000, "1 KB", 2)),
        *((100, 100, "100 B", 1), (100, 100, "100 B", 2)),
    ):
        records = _records(count, size_bytes, shards)
        spent, _ = site.spent("put_records", StreamName=NAME, Records=records)
        yield f"PutRecords, {count} of {size} to {'a shard' if shards == 1 else '2 shards'}", spent


def _reads(site: Site) -> Iterator[tuple[str, Spent]]:
    put = site.kinesis.put_record(StreamName=NAME, **_records(1, 1_000)[0])
    made, oldest = site.iterator(ShardIteratorType="TRIM_HORIZON")
    yield "GetShardIterator, TRIM_HORIZON", made
    made, latest = site.iterator(ShardIteratorType="LATEST")
    yield "GetShardIterator, LATEST", made
    number = {"StartingSequenceNumber": put["SequenceNumber"]}
    yield (
        "GetShardIterator, AT_SEQUENCE_NUMBER",
        site.iterator(ShardIteratorType="AT_SEQUENCE_NUMBER", **number)[0],
    )
    yield (
        "GetShardIterator, AT_TIMESTAMP",
        site.iterator(ShardIteratorType="AT_TIMESTAMP", Timestamp=1_000_000_000)[0],
    )
    spent, page = site.spent("get_records", ShardIterator=oldest)
    yield f"GetRecords, {len(page['Records'])} records", spent
    yield "GetRecords, nothing new", site.spent("get_records", ShardIterator=latest)[0]


def _others(site: Site) -> Iterator[tuple[str, Spent]]:
    for title, operation, params in (
        ("ListShards", "list_shards", {}),
        ("DescribeStreamSummary", "describe_stream_summary", {}),
        ("SplitShard", "split_shard", {"ShardToSplit": FIRST, "NewStartingHashKey": HALF}),
        (
            *("MergeShards", "merge_shards"),
            {
                "ShardToMerge": "shardId-000000000002",
                "AdjacentShardToMerge": "shardId-000000000003",
            },
        ),
        ("DeleteStream", "delete_stream", {}),
        ("CreateStream, 2 shards", "create_stream", {"ShardCount": 2}),
    ):
        yield title, site.spent(operation, StreamName=NAME, **params)[0]


def _kinesis_queues(site: Site) -> Iterator[tuple[str, Spent]]:
    """Of a queue of the Kinesis API over a stream of one shard, which has ten records at a time."""
    name = "visits"
    kinesis = without_waiting(site.server).kinesis()
    kinesis.create_stream(StreamName=name, ShardCount=1)
    summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    arn = summary["StreamARN"]
    kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    wanted = {
        "QueueName": "work",
        "StreamConfigurationList": [
            {"StreamARN": arn, "StartingPosition": {"Type": "TRIM_HORIZON"}}
        ],
        "QueueAttributes": {
            "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 1}
        },
    }
    spent, made = site.spent("create_queue", **wanted)
    yield "CreateQueue", spent
    queue = {"QueueARN": made["QueueDescription"]["QueueARN"]}
    wait = {**queue, "WaitTimeSeconds": 1}
    kinesis.put_records(StreamName=name, Records=_records(10, 1_000))
    kinesis.receive_queue_records(**wait, VisibilityTimeoutSeconds=0)
    spent, page = site.spent("receive_dead_letter_queue_records", **wait)
    yield f"ReceiveDeadLetterQueueRecords, {len(page['QueueRecords'])} records", spent
    restored = {**queue, "Entries": _entries(page)}
    yield (
        "RestoreDeadLetterQueueRecords, 10 of a block",
        site.spent("restore_dead_letter_queue_records", **restored)[0],
    )
    spent, page = site.spent("receive_queue_records", **wait)
    yield f"ReceiveQueueRecords, {len(page['QueueRecords'])} records that are at hand", spent
    yield (
        "AcknowledgeQueueRecords, 10 of a block",
        site.spent("acknowledge_queue_records", **queue, Entries=_entries(page))[0],
    )
    yield "DescribeQueue", site.spent("describe_queue", **queue)[0]
    yield "DeleteQueue", site.spent("delete_queue", **queue)[0]


def _entries(page: dict[str, Any]) -> list[dict[str, str]]:
    return [{"ReceiptHandle": record["ReceiptHandle"]} for record in page["QueueRecords"]]


def _groups(site: Site) -> Iterator[tuple[str, Spent]]:
    """Of a group of one member that reads a stream of two shards."""
    summary = site.kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
    named = {"StreamARN": summary["StreamARN"]}
    start = {"StreamARNs": [summary["StreamARN"]], "StartingPosition": {"Type": "TRIM_HORIZON"}}
    group = {"GroupName": "readers"}
    yield "TidegateCreateGroup", site.spent("tidegate_create_group", **group, **start)[0]
    spent, told = site.spent("tidegate_group_heartbeat", **group, MemberEpoch=0, MemberId="m")
    yield "TidegateGroupHeartbeat, joins, 2 shards", spent
    member = {**group, "MemberId": "m"}
    spent, _ = site.spent("tidegate_group_heartbeat", **member, MemberEpoch=told["MemberEpoch"])
    yield "TidegateGroupHeartbeat, goes on", spent
    put = site.kinesis.put_record(StreamName=NAME, **_records(1, 1_000)[0])
    epoch = {one["ShardId"]: one["AssignmentEpoch"] for one in told["Assignment"]}[FIRST]
    entry = {
        **named,
        "ShardId": FIRST,
        "AssignmentEpoch": epoch,
        "SequenceNumber": put["SequenceNumber"],
    }
    spent, answer = site.spent("tidegate_commit_offsets", **member, Entries=[entry])
    assert not answer["Failed"]
    yield "TidegateCommitOffsets, a shard", spent
    yield "TidegateDescribeGroup, 2 shards", site.spent("tidegate_describe_group", **group)[0]
    site.kinesis.tidegate_group_heartbeat(**member, MemberEpoch=-1)
    yield "TidegateDeleteGroup", site.spent("tidegate_delete_group", **group)[0]


def _queues(site: Site) -> Iterator[tuple[str, Spent]]:
    """Of a FIFO queue over a stream of two shards, of which one has records."""
    summary = site.kinesis.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]
    attributes = {
        "FifoQueue": "true",
        "TidegateStreamArn": summary["StreamARN"],
        "TidegateStartingPosition": "TRIM_HORIZON",
    }
    url = site.sqs.create_queue(QueueName="over.fifo", Attributes=attributes)["QueueUrl"]
    records = [
        {**one, "PartitionKey": f"k{number}"} for number, one in enumerate(_records(60, 1_000))
    ]
    site.kinesis.put_records(StreamName=NAME, Records=records)
    for title in ("ReceiveMessage, 10 records, a server's first", "ReceiveMessage, 10 records"):
        spent, answer = site.spent("receive_message", QueueUrl=url, MaxNumberOfMessages=10)
        assert len(answer["Messages"]) == 10
        yield title, spent
    entries = [
        {"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]}
        for number, one in enumerate(answer["Messages"])
    ]
    spent, _ = site.spent("delete_message_batch", QueueUrl=url, Entries=entries)
    yield "DeleteMessageBatch, 10 records", spent


@cache
def table() -> str:
    """The table, in Markdown."""
    columns = ("call", "writes", "reads", "write units", "read units", "USD per million")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for title, spent in rows():
        usd = spent.write_units * _USD_PER_WRITE_UNIT + spent.read_units * _USD_PER_READ_UNIT
        lines.append(f"| {title} | {' | '.join(map(str, spent))} | {usd:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

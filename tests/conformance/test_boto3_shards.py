"""Shards that others have made, and readers that follow them, by boto3's Kinesis client."""

from typing import Any

from tests.conformance.in_process import InProcessServer

NAME = "clicks"
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


def _page(kinesis: Any, shard: str, reader: Any = None) -> Any:
    """The oldest records of a shard, by the reader's front end."""
    found = kinesis.get_shard_iterator(
        StreamName=NAME, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )
    return (reader or kinesis).get_records(ShardIterator=found["ShardIterator"])


def test_a_front_end_knows_the_shards_that_another_one_made(server: InProcessServer) -> None:
    kinesis, other = server.kinesis(), server.another().kinesis()
    kinesis.create_stream(StreamName=NAME, ShardCount=1)
    other.put_record(StreamName=NAME, Data=b"1", PartitionKey="a")
    kinesis.split_shard(StreamName=NAME, ShardToSplit=FIRST, NewStartingHashKey=str(2**125))
    kinesis.put_record(StreamName=NAME, Data=b"2", PartitionKey="a", ExplicitHashKey="0")
    # The other one goes by what it knew before, for some seconds.
    page = _page(kinesis, SECOND, other)
    assert [record["Data"] for record in page["Records"]] == [b"2"]


def test_readers_pass_shards_that_were_made_on_the_way(server: InProcessServer) -> None:
    kinesis = server.kinesis()
    kinesis.create_stream(StreamName=NAME, ShardCount=3)
    kinesis.update_shard_count(StreamName=NAME, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    opened = kinesis.list_shards(StreamName=NAME, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    waiting, met = [FIRST, SECOND], set()
    while waiting:
        met.add(waiting[-1])
        page = _page(kinesis, waiting.pop())
        waiting += [child["ShardId"] for child in page.get("ChildShards", ())]
    assert met > {shard["ShardId"] for shard in opened}

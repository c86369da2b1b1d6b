"""A stream as a DataFrame: a task of Spark reads each shard, from its oldest record to its newest.

    spark-submit read_stream.py NAME ENDPOINT

needs boto3, and credentials as AWS's SDKs find them. Records that come meanwhile may be read or
not; run it again, from the last sequence numbers on, for what came later.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import boto3
from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "shard string, sequence_number string, arrived timestamp, partition_key string, data binary"
)
Row = tuple[str, str, datetime, str | None, bytes]


def client(endpoint: str, region: str) -> Any:
    """A client of streams."""
    return boto3.client("kinesis", endpoint_url=endpoint, region_name=region)


def shards_of(kinesis: Any, stream: str) -> list[str]:
    """All shards that have records, also those that were split or merged."""
    found: list[str] = []
    asked = {"StreamName": stream}
    while asked:
        page = kinesis.list_shards(**asked)
        found += [shard["ShardId"] for shard in page["Shards"]]
        asked = {"NextToken": page["NextToken"]} if "NextToken" in page else {}
    return found


def rows_of(kinesis: Any, stream: str, shard: str) -> Iterator[Row]:
    """The records of a shard, in their order, as far as there are any now."""
    first = {"StreamName": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = kinesis.get_shard_iterator(**first)["ShardIterator"]
    while iterator:
        page = kinesis.get_records(ShardIterator=iterator)
        for one in page["Records"]:
            arrived = one["ApproximateArrivalTimestamp"].replace(tzinfo=None)
            yield shard, one["SequenceNumber"], arrived, one.get("PartitionKey"), one["Data"]
        # Behind the last record nothing is to come in a closed shard, and nothing yet in others.
        iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None


def read_stream(
    session: SparkSession, stream: str, endpoint: str, region: str = "us-east-1"
) -> DataFrame:
    """The records of all shards, a partition for each."""
    shards = shards_of(client(endpoint, region), stream)

    def read(shard: str) -> Iterator[Row]:
        return rows_of(client(endpoint, region), stream, shard)

    rows = session.sparkContext.parallelize(shards, len(shards)).flatMap(read)
    return session.createDataFrame(rows, COLUMNS)


if __name__ == "__main__":
    spark = SparkSession.builder.appName("read a stream").getOrCreate()
    records = read_stream(spark, *sys.argv[1:3])
    records.groupBy("shard").count().orderBy("shard").show(truncate=False)

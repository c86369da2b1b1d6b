"""The example that reads a stream with Spark (docs/examples), on a real server."""

import importlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from pyspark.sql import SparkSession

from tests.spark.fresh import ROOT
from tests.spark.test_tenant_usage import SERVER

EXAMPLE: Final = ROOT / "docs/examples/read_stream.py"
NAME: Final = "clicks"
WHO: Final = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """Where a server listens."""
    command = [str(SERVER), "-m", "control_plane.cli", "serve", "--auth", "off", "--port", "0"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--data", str(tmp_path / "data")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        said = re.search(r" on (http://\S+), ", server.stdout.readline())
        assert said is not None, (tmp_path / "log").read_text()
        yield said[1]
        server.kill()


@pytest.fixture
def kinesis(endpoint: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(session.sparkContext.environment, name, value)
    with closing(boto3.client("kinesis", endpoint_url=endpoint, region_name="us-east-1")) as made:
        yield made


def test_a_stream_is_a_data_frame(session: SparkSession, endpoint: str, kinesis: Any) -> None:
    def put(numbers: range) -> None:
        records = [{"PartitionKey": str(one % 7), "Data": b"%d" % one} for one in numbers]
        kinesis.put_records(StreamName=NAME, Records=records)

    kinesis.create_stream(StreamName=NAME, ShardCount=3)
    put(range(300))
    kinesis.split_shard(StreamName=NAME, ShardToSplit="0", NewStartingHashKey=str(2**126))
    put(range(300, 400))
    session.sparkContext.addPyFile(str(EXAMPLE))
    example = importlib.import_module(EXAMPLE.stem)
    frame = example.read_stream(session, NAME, endpoint)
    rows = sorted(frame.collect())
    assert sorted(int(row.data) for row in rows) == list(range(400))
    assert {row.shard for row in rows} <= {f"shardId-{number:012}" for number in range(5)}
    by_key = {key: [int(row.data) for row in rows if row.partition_key == key] for key in "0123456"}
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert frame.rdd.getNumPartitions() == 5

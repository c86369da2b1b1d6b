"""Consumer groups on a real server: they are as they were after it was killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate_sdk
from tests.integration.server_process import ServerProcess

STREAM, GROUP, ACCOUNT = "clicks", "readers", "0" * 12


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    server.start()
    yield server
    server.kill()


def _client(server: ServerProcess) -> Any:
    return tidegate_sdk.client(
        server.url,
        "kinesis",
        region_name="eu-west-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )


def test_a_killed_server_forgets_neither_members_nor_commits(site: ServerProcess) -> None:
    kinesis = _client(site)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    kinesis.tidegate_create_group(
        GroupName=GROUP, StreamARNs=[arn], SessionTimeoutSeconds=300, Assignor="range"
    )
    put = kinesis.put_record(StreamName=STREAM, Data=b"x", PartitionKey="k")
    status, metrics = site.get("/metrics")
    assert status == 200
    labels = f'{{account="{ACCOUNT}",group="{GROUP}",region="eu-west-1",stream="{STREAM}"}}'
    assert f"tidegate_kinesis_group_lag_records{labels} 1.0\n" in metrics
    told = kinesis.tidegate_group_heartbeat(GroupName=GROUP, MemberEpoch=0, MemberId="me")
    [shard] = told["Assignment"]
    named = {name: shard[name] for name in ("StreamARN", "ShardId", "AssignmentEpoch")}
    entry = {**named, "SequenceNumber": put["SequenceNumber"]}
    answer = kinesis.tidegate_commit_offsets(GroupName=GROUP, MemberId="me", Entries=[entry])
    assert answer["Failed"] == []

    site.kill()
    site.start()
    kinesis = _client(site)
    beat = {"GroupName": GROUP, "MemberEpoch": told["MemberEpoch"], "MemberId": "me"}
    again = kinesis.tidegate_group_heartbeat(**beat, OwnedShards=[named])
    assert again["Assignment"] == [named]
    kinesis.tidegate_group_heartbeat(GroupName=GROUP, MemberEpoch=-1, MemberId="me")
    after = kinesis.tidegate_group_heartbeat(GroupName=GROUP, MemberEpoch=0)
    [shard] = after["Assignment"]
    assert shard["Position"]["StartingSequenceNumber"] == put["SequenceNumber"]
    described = kinesis.tidegate_describe_group(GroupName=GROUP)
    assert (described["State"], described["Shards"][0]["LagRecords"]) == ("Stable", 0)

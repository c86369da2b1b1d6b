"""A member of a consumer group as a client is, and what tests of groups need."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.serialize import create_serializer

from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

STREAM, GROUP = "clicks", "readers"
ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{STREAM}"
SESSION_S = 10


class Member:
    """A member as a client is: it remembers what it was told, and says what it has."""

    def __init__(self, kinesis: Any, group: str = GROUP, **who: str) -> None:
        self.kinesis, self.group, self.who = kinesis, group, who
        self.id, self.epoch = "", 0
        self.owned: dict[str, int] = {}
        self.positions: dict[str, dict[str, str]] = {}

    def beat(self, *, releases: bool = True, **more: Any) -> list[str]:
        """Come once; the shards that it is to read."""
        named = {"MemberId": self.id, **self.who} if self.id else self.who
        owned = [
            {"StreamARN": ARN, "ShardId": shard, "AssignmentEpoch": epoch}
            for shard, epoch in self.owned.items()
        ]
        answer = self.kinesis.tidegate_group_heartbeat(
            GroupName=self.group,
            MemberEpoch=self.epoch,
            **({"OwnedShards": owned} if self.id else {}),
            **named,
            **more,
        )
        self.id, self.epoch = answer["MemberId"], answer["MemberEpoch"]
        told = {one["ShardId"]: one["AssignmentEpoch"] for one in answer["Assignment"]}
        for one in answer["Assignment"]:
            if "Position" in one:
                self.positions[one["ShardId"]] = one["Position"]
        kept = {} if releases else self.owned
        self.owned = {**kept, **told}
        return sorted(told)

    def leave(self, epoch: int = -1) -> None:
        self.kinesis.tidegate_group_heartbeat(
            GroupName=self.group, MemberEpoch=epoch, MemberId=self.id
        )

    def read(self, shard: str) -> list[tuple[str, str]]:
        """What there is from where it was told to begin: sequence numbers and texts."""
        iterator = self.kinesis.get_shard_iterator(
            StreamARN=ARN, ShardId=shard, **self.positions[shard]
        )["ShardIterator"]
        records = self.kinesis.get_records(ShardIterator=iterator)["Records"]
        return [(one["SequenceNumber"], one["Data"].decode()) for one in records]

    def commit(self, shard: str, number: str, **more: str) -> tuple[str, str]:
        """Commit once: what is committed by now, or the code of the refusal."""
        entry = {
            "StreamARN": ARN,
            "ShardId": shard,
            "AssignmentEpoch": self.owned[shard],
            "SequenceNumber": number,
            **more,
        }
        answer = self.kinesis.tidegate_commit_offsets(
            GroupName=self.group, MemberId=self.id, Entries=[entry]
        )
        if answer["Failed"]:
            return "", answer["Failed"][0]["ErrorCode"]
        return answer["Successful"][0]["SequenceNumber"], ""


def create(kinesis: Any, **more: Any) -> Any:
    given = {"StreamARNs": [ARN], "StartingPosition": {"Type": "TRIM_HORIZON"}} | more
    return kinesis.tidegate_create_group(GroupName=GROUP, **given)["Group"]


def put(kinesis: Any, text: str, hash_key: int = 0) -> str:
    answer = kinesis.put_record(
        StreamName=STREAM, Data=text.encode(), PartitionKey="k", ExplicitHashKey=str(hash_key)
    )
    return str(answer["SequenceNumber"])


def shard_name(number: int) -> str:
    return f"shardId-{number:012}"


def described(kinesis: Any) -> tuple[str, dict[str, Any]]:
    answer = kinesis.tidegate_describe_group(GroupName=GROUP)
    return answer["State"], {one["ShardId"]: one for one in answer["Shards"]}


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refusal:
        call(**params)
    error = refusal.value.response["Error"]
    return error["Code"], error["Message"]


def unchecked(server: InProcessServer) -> Any:
    """A client that sends what its own model refuses."""
    client = server.kinesis(extended=True)
    client._serializer = create_serializer("json", include_validation=False)
    return client

"""Quotas for what streams store, and for how many there are, as boto3's client meets them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane.service import OPERATOR
from data_plane.core.owned import Owned
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer
from tests.conformance.runners import RUNNERS


@dataclass
class Amounts:
    """What is stored, as a test says it, by name."""

    capacity_bytes: int = 0
    each: dict[str, int] = field(default_factory=dict)
    met_names: set[str] = field(default_factory=set)

    def met(self, owned: Owned) -> None:
        self.met_names.add(owned.name)

    async def of_one(self, owned: Owned) -> int:
        return self.each.get(owned.name, 0)

    async def of_account(self, _owned: Owned) -> int:
        return sum(self.each.values())

    async def measure(self) -> None:
        pass


class Tenant:
    """A client of an account with quotas."""

    def __init__(self, runner: Any) -> None:
        self.stored = Amounts()
        self.server = InProcessServer(runner, verifies=True, stored=self.stored)
        self.server.run(self.server.accounts.create_account("root", OPERATOR, {}))
        self.server.run(self.server.accounts.create_account("tenant", ACCOUNT, {}))
        key: Any = self.server.run(self.server.accounts.create_key(ACCOUNT))
        self.kinesis = self.server.kinesis(key.id, key.secret, extended=True)

    def may(self, **quotas: int) -> None:
        self.server.run(self.server.accounts.set_quotas(ACCOUNT, quotas))
        self.server.clock.advance(10)


@pytest.fixture(params=RUNNERS)
def tenant(request: pytest.FixtureRequest) -> Iterator[Tenant]:
    made = Tenant(RUNNERS[request.param])
    with made.server:
        yield made


def refused(call: Callable[..., object], **params: object) -> str:
    with pytest.raises(ClientError) as error:
        call(**params)
    told = error.value.response
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert told["Error"]["Code"] == "LimitExceededException"
    return str(told["Error"]["Message"])


def test_a_stream_is_held_to_its_bytes(tenant: Tenant) -> None:
    tenant.kinesis.create_stream(StreamName="clicks", ShardCount=1)
    tenant.kinesis.create_stream(StreamName="other", ShardCount=1)
    tenant.may(queue_stored_bytes=10_000)
    tenant.stored.each = {"clicks": 9_000}
    record = {"Data": b"d" * 599, "PartitionKey": "k"}
    tenant.kinesis.put_record(StreamName="clicks", **record)
    assert tenant.stored.met_names == {"clicks"}
    told = refused(tenant.kinesis.put_records, StreamName="clicks", Records=[record] * 2)
    assert told == "Stream clicks has 9000 bytes of records stored, and its quota is 10000."
    tenant.kinesis.put_records(StreamName="other", Records=[record] * 2)
    tenant.stored.each = {"clicks": 10_000}
    refused(tenant.kinesis.put_record, StreamName="clicks", **record)
    # What is there is read, and made less, as ever.
    (shard,) = tenant.kinesis.list_shards(StreamName="clicks")["Shards"]
    iterator = tenant.kinesis.get_shard_iterator(
        StreamName="clicks", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    assert len(tenant.kinesis.get_records(ShardIterator=iterator)["Records"]) == 1
    tenant.kinesis.decrease_stream_retention_period(StreamName="clicks", RetentionPeriodHours=24)
    tenant.kinesis.delete_stream(StreamName="clicks")


def test_an_account_is_held_to_its_bytes_in_queues_and_streams(tenant: Tenant) -> None:
    tenant.kinesis.create_stream(StreamName="clicks", ShardCount=1)
    record = {"StreamName": "clicks", "Data": b"d" * 99, "PartitionKey": "k"}
    tenant.may(account_stored_bytes=10_000)
    tenant.stored.each = {"clicks": 100, "orders": 9_850}
    assert refused(tenant.kinesis.put_record, **record) == (
        f"Account {ACCOUNT} has 9950 bytes stored, and its quota is 10000."
    )
    tenant.stored.each["orders"] = 5_000
    tenant.kinesis.put_record(**record)
    tenant.may(account_stored_bytes=0, account_stored_percent=50)
    tenant.stored.capacity_bytes = 10_000
    refused(tenant.kinesis.put_record, **record)
    tenant.may(account_stored_percent=0)
    tenant.kinesis.put_record(**record)


def test_an_account_has_no_more_shards_than_it_may(tenant: Tenant) -> None:
    tenant.may(account_shards=5, account_streams=7)
    limits = tenant.kinesis.describe_limits()
    assert (limits["ShardLimit"], limits["OnDemandStreamCountLimit"]) == (5, 7)
    tenant.kinesis.create_stream(StreamName="one", ShardCount=2)
    tenant.kinesis.create_stream(StreamName="two", ShardCount=2)
    told = refused(tenant.kinesis.create_stream, StreamName="three", ShardCount=2)
    assert told.startswith(
        f"This request would exceed the shard limit for the account {ACCOUNT} in {REGION}. Current"
        " shard count for the account: 4. Limit: 5. Number of additional shards that would have"
        " resulted from this request: 2."
    )
    refused(
        tenant.kinesis.update_shard_count,
        StreamName="one",
        TargetShardCount=4,
        ScalingType="UNIFORM_SCALING",
    )

    def split(shard: int) -> None:
        tenant.kinesis.split_shard(
            StreamName="one",
            ShardToSplit=f"shardId-{shard:012}",
            NewStartingHashKey=str(2**126 if not shard else 3 * 2**126),
        )

    split(0)
    assert ": 5. Limit: 5." in refused(split, shard=1)
    # Merging makes room, also where there are more than there may be.
    tenant.may(account_shards=2)
    tenant.kinesis.merge_shards(
        StreamName="one",
        ShardToMerge="shardId-000000000002",
        AdjacentShardToMerge="shardId-000000000003",
    )
    with pytest.raises(tenant.kinesis.exceptions.ResourceInUseException):
        tenant.kinesis.create_stream(StreamName="one", ShardCount=9)


def test_an_account_has_no_more_groups_and_members_than_it_may(tenant: Tenant) -> None:
    kinesis = tenant.kinesis
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName="clicks")["StreamDescriptionSummary"]

    def create(name: str) -> None:
        kinesis.tidegate_create_group(GroupName=name, StreamARNs=[arn["StreamARN"]])

    def join(member: str) -> None:
        kinesis.tidegate_group_heartbeat(GroupName="one", MemberEpoch=0, MemberId=member)

    tenant.may(account_groups=2, group_members=1)
    create("one")
    create("two")
    assert refused(create, name="three") == (
        f"Account {ACCOUNT} has 2 groups in {REGION}, and its quota is 2."
    )
    join("a")
    join("a")
    assert refused(join, member="b") == "Group one has 1 members, and the quota is 1."
    tenant.may(account_groups=3, group_members=2)
    create("three")
    join("b")
    # Fewer than there are: those that are there stay, and come again.
    tenant.may(account_groups=1, group_members=1)
    join("a")
    assert refused(join, member="c") == "Group one has 2 members, and the quota is 1."
    refused(create, name="four")
    kinesis.tidegate_delete_group(GroupName="three")
    tenant.may(account_groups=0, group_members=0)
    create("four")
    join("c")

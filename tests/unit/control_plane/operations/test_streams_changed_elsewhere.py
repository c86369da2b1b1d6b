"""What another server has just changed of a stream, which this one knew as it was before."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from control_plane.consumer_groups.commits import CommitOf
from control_plane.consumer_groups.groups import ConsumerGroups, consumer_groups
from control_plane.consumer_groups.heartbeats import JOINS, Beat
from control_plane.core.group_offset import Commit
from control_plane.core.stream_definition import StreamDefinition
from control_plane.stream_operations.create_group import create_group
from control_plane.stream_operations.delete_stream import delete_stream
from control_plane.stream_operations.group_offsets import get_offsets
from control_plane.stream_operations.shard_room import ShardRoom
from control_plane.stream_operations.stream_policy import (
    delete_resource_policy,
    get_resource_policy,
)
from control_plane.stream_operations.tag_stream import add_tags_to_stream, list_tags_for_resource
from control_plane.stream_operations.update_shard_count import update_shard_count
from control_plane.streams import StreamRegistry
from data_plane.core.errors import LIMIT_EXCEEDED, STREAM_NOT_FOUND, RefusedError
from data_plane.core.quotas import UNLIMITED, DefinitionQuota, Quotas
from data_plane.core.stream import Stream
from data_plane.operations.put_records import Puts
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.streams.reading import Place
from tests.unit.control_plane.test_streams import WHERE, Bench, split_first

POLICY = '{"Statement":[]}'


class Site(Bench):
    """A registry, and another one at a server of its own, that knows the stream `clicks`."""

    async def open(self) -> Stream:
        made = await self.create(shards=1)
        self.elsewhere = self.registry
        self.registry = self.another(self.engine)
        assert await self.registry.find(*WHERE) is not None
        return made

    async def make_anew(self, made: Stream) -> StreamDefinition:
        """Another stream of the same name, by the other server."""
        account, region, name = WHERE
        await self.elsewhere.delete(made)
        anew = self.elsewhere.define(account=account, region=region, name=name, shards=1, tags={})
        await self.elsewhere.create(anew)
        return anew

    async def call(self, operation: Operation, **params: Any) -> Params:
        call = Call("r", *WHERE[:2], "", self.clock.now_us(), params, None)
        return await operation.perform(call)


@dataclass(frozen=True)
class SomeShards:
    """Quotas of an account that may have so many."""

    shards: int

    async def find_quotas(self, _account: str) -> Quotas:
        return replace(UNLIMITED, defined=DefinitionQuota(shards=self.shards))


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_policy_that_was_just_put_is_deleted(site: Site) -> None:
    async def scenario() -> None:
        made = await site.open()
        await site.elsewhere.change(made, lambda known: replace(known, policy=POLICY))
        await site.call(delete_resource_policy(site.registry), ResourceARN=made.arn)
        present = await site.elsewhere.read(*WHERE)
        assert present is not None
        assert present.policy == ""
        with pytest.raises(RefusedError, match="No resource policy") as refused:
            await site.call(delete_resource_policy(site.registry), ResourceARN=made.arn)
        assert refused.value.fault is STREAM_NOT_FOUND

    site.run(scenario())


def test_a_stream_that_was_just_deleted_has_neither_tags_nor_policy(site: Site) -> None:
    async def scenario() -> None:
        made = await site.open()
        await site.elsewhere.delete(made)
        for operation in (list_tags_for_resource, get_resource_policy):
            with pytest.raises(RefusedError, match="not found"):
                await site.call(operation(site.registry), ResourceARN=made.arn)

    site.run(scenario())


def test_a_stream_that_was_just_made_anew_is_the_one_that_is_meant(site: Site) -> None:
    async def scenario() -> None:
        made = await site.open()
        wanted = await site.make_anew(made)
        tags = {"team": "orders"}
        await site.call(add_tags_to_stream(site.registry), StreamName=WHERE[2], Tags=tags)
        present = await site.elsewhere.read(*WHERE)
        assert present is not None
        assert (present.uid, present.tags) == (wanted.uid, tags)
        await site.call(delete_stream(site.another(site.engine)), StreamName=WHERE[2])
        assert await site.elsewhere.read(*WHERE) is None

    site.run(scenario())


def test_a_group_reads_the_stream_that_was_just_made_anew(site: Site) -> None:
    async def scenario() -> None:
        made = await site.open()
        anew = await site.make_anew(made)
        groups = consumer_groups(
            *(site.cell, site.registry, site.engine, site.clock, site.entropy),
            EventLoopWaits(site.clock),
        )
        await site.call(create_group(groups), GroupName="readers", StreamARNs=[made.arn])
        group = await groups.registry.read(*WHERE[:2], "readers")
        assert [stream.uid for stream in group.streams] == [anew.uid]

    site.run(scenario())


def test_shards_that_were_just_made_count(site: Site) -> None:
    async def scenario() -> None:
        made = await site.open()
        await site.elsewhere.reshard(made, split_first)
        site.clock.advance(1)
        room = ShardRoom(site.registry, SomeShards(3))
        with pytest.raises(RefusedError, match="would exceed the shard limit") as refused:
            await site.call(
                update_shard_count(site.registry, room),
                StreamName=WHERE[2],
                TargetShardCount=4,
                ScalingType="UNIFORM_SCALING",
            )
        assert refused.value.fault is LIMIT_EXCEEDED

    site.run(scenario())


def _groups(site: Site) -> ConsumerGroups:
    return consumer_groups(
        *(site.cell, site.elsewhere, site.engine, site.clock, site.entropy),
        EventLoopWaits(site.clock),
    )


def test_offsets_of_a_stream_that_was_deleted_are_not_those_of_the_one_made_anew(
    site: Site,
) -> None:
    async def scenario() -> list[Params]:
        made = await site.open()
        groups = _groups(site)
        start = {"Type": "TRIM_HORIZON"}
        await site.call(
            create_group(groups),
            GroupName="readers",
            StreamARNs=[made.arn],
            StartingPosition=start,
        )
        group = await groups.registry.read(*WHERE[:2], "readers")
        joined = await groups.heartbeats.join(group, Beat("a", JOINS))
        [epoch] = joined.shards.values()
        commit = Commit("a", epoch, 7, "number of before")
        await groups.commits.commit(joined.group, CommitOf(made.name, made.uid, 0, commit))
        await site.make_anew(made)
        operation = get_offsets(groups, site.elsewhere.token_seal("pages"))
        named = [{"StreamARN": made.arn, "ShardId": "0"}]
        return [
            await site.call(operation, GroupName="readers", Shards=named),
            await site.call(operation, GroupName="readers"),
        ]

    of_one, of_all = site.run(scenario())
    assert "SequenceNumber" not in of_one["Offsets"][0]
    assert of_all["Offsets"] == of_one["Offsets"]


def test_a_repeated_call_finds_what_lies_in_a_shard_that_came_and_went(site: Site) -> None:
    """Its server knows the stream as it was before the shard was made."""

    async def put(streams: StreamRegistry, stream: Stream, attempt: int) -> None:
        puts = Puts(site.engine, streams, EventLoopWaits(site.clock))
        call = Call(
            *("r", *WHERE[:2], "", site.clock.now_us(), {}, None),
            invocation_id="i",
            attempt=attempt,
        )
        entry = {"PartitionKey": "k", "ExplicitHashKey": "0", "Data": b"once"}
        putting = await puts.put("PutRecords", call, stream, [entry])
        assert list(putting.stored) == [0]

    async def scenario() -> list[bytes]:
        made = await site.open()
        split = site.elsewhere.stream(await site.elsewhere.reshard(made, split_first))
        await put(site.elsewhere, split, 1)
        again = site.elsewhere.stream(await site.elsewhere.reshard(split, split_first))
        known = await site.registry.find(*WHERE)
        assert known == made
        await put(site.registry, made, 2)
        pages = [
            await site.engine.read(again, shard, Place(1), records_max=10) for shard in again.shards
        ]
        return [record.data for page in pages for record in page.records]

    assert site.run(scenario()) == [b"once"]

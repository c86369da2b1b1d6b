"""Consumer groups by boto3's Kinesis client, which has learned of them from the SDK extras."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ClientError

from control_plane.core import group_keys
from control_plane.core.consumer_group import GroupedStream, encode
from data_plane.core.limits import (
    ACCOUNT_GROUPS_MAX,
    GROUP_MEMBERS_MAX,
    GROUP_REBALANCE_S_DEFAULT,
    GROUP_REBALANCE_S_MAX,
    GROUP_REBALANCE_S_MIN,
    GROUP_SESSION_S_DEFAULT,
    GROUP_SESSION_S_MAX,
    GROUP_SESSION_S_MIN,
    GROUP_SHARDS_MAX,
    GROUP_STREAMS_MAX,
    OFFSET_METADATA_CHARS_MAX,
    STREAM_GROUPS_MAX,
)
from tests.conformance.group_member import (
    ARN,
    GROUP,
    SESSION_S,
    STREAM,
    Member,
    create,
    described,
    put,
    refused,
    shard_name,
    unchecked,
)
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

BANK = "444455556666"


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    return server.kinesis(extended=True)


@pytest.fixture
def group(kinesis: Any) -> str:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    create(kinesis)
    return GROUP


# Groups


def test_a_group_is_made_listed_and_removed(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    made = create(kinesis)
    assert made["GroupARN"] == f"arn:aws:kinesis:{REGION}:{ACCOUNT}:group/{GROUP}"
    assert made["StreamARNs"] == [ARN]
    assert made["SessionTimeoutSeconds"] == GROUP_SESSION_S_DEFAULT
    assert made["RebalanceTimeoutSeconds"] == GROUP_REBALANCE_S_DEFAULT
    assert made["Assignor"] == "sticky"
    assert refused(create, kinesis=kinesis)[0] == "ResourceInUseException"
    kinesis.tidegate_create_group(GroupName="others", StreamARNs=[ARN])
    pages = kinesis.get_paginator("tidegate_list_groups").paginate(PaginationConfig={"PageSize": 1})
    assert [one["GroupName"] for page in pages for one in page["Groups"]] == ["others", GROUP]
    kinesis.tidegate_delete_group(GroupName=GROUP)
    assert refused(kinesis.tidegate_describe_group, GroupName=GROUP) == (
        "ResourceNotFoundException",
        f"Group {GROUP} under account {ACCOUNT} not found.",
    )
    create(kinesis)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"StreamARNs": [ARN, ARN]}, "InvalidArgumentException"),
        ({"StreamARNs": [ARN.replace(STREAM, "none")]}, "ResourceNotFoundException"),
        ({"StreamARNs": [ARN.replace(ACCOUNT, BANK)]}, "InvalidArgumentException"),
        ({"StartingPosition": {"Type": "AT_TIMESTAMP"}}, "InvalidArgumentException"),
        ({"StartingPosition": {"Type": "LATEST", "Timestamp": 1}}, "InvalidArgumentException"),
        (
            {"StartingPosition": {"Type": "AT_TIMESTAMP", "Timestamp": 4_000_000_000}},
            "InvalidArgumentException",
        ),
        ({"StartingPosition": {"Type": "SOMEWHERE"}}, "ValidationException"),
        ({"Assignor": "none"}, "ValidationException"),
        ({"SessionTimeoutSeconds": GROUP_SESSION_S_MIN - 1}, "ValidationException"),
        ({"SessionTimeoutSeconds": GROUP_SESSION_S_MAX + 1}, "ValidationException"),
        ({"RebalanceTimeoutSeconds": GROUP_REBALANCE_S_MAX + 1}, "ValidationException"),
        (
            {"StreamARNs": [f"{ARN}{number}" for number in range(GROUP_STREAMS_MAX + 1)]},
            "ValidationException",
        ),
    ],
)
def test_wrong_groups_are_refused(
    server: InProcessServer, params: dict[str, Any], code: str
) -> None:
    kinesis = unchecked(server)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    given = {"StreamARNs": [ARN], **params}
    assert refused(kinesis.tidegate_create_group, GroupName=GROUP, **given)[0] == code


def test_the_ends_of_limits_are_accepted(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    made = create(
        kinesis,
        SessionTimeoutSeconds=GROUP_SESSION_S_MIN,
        RebalanceTimeoutSeconds=GROUP_REBALANCE_S_MIN,
    )
    assert made["RebalanceTimeoutSeconds"] == GROUP_REBALANCE_S_MIN
    member = Member(kinesis)
    shard = member.beat()[0]
    number = put(kinesis, "a")
    assert member.commit(shard, number, Metadata="m" * OFFSET_METADATA_CHARS_MAX) == (number, "")
    with pytest.raises(ClientError, match="ValidationException"):
        member.commit(shard, number, Metadata="m" * (OFFSET_METADATA_CHARS_MAX + 1))


def test_a_group_reads_so_many_shards_at_most(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=GROUP_SHARDS_MAX)
    kinesis.create_stream(StreamName="more", ShardCount=1)
    arns = [ARN, ARN.replace(STREAM, "more")]
    code, _ = refused(kinesis.tidegate_create_group, GroupName=GROUP, StreamARNs=arns)
    assert code == "LimitExceededException"
    create(kinesis)
    assert len(Member(kinesis).beat()) == GROUP_SHARDS_MAX


def test_a_stream_and_an_account_have_so_many_groups_at_most(
    kinesis: Any, server: InProcessServer
) -> None:
    for name in (STREAM, "more"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    create(kinesis)
    registry = server.service.streams.groups.registry
    made = server.run(registry.read(ACCOUNT, REGION, GROUP))
    others = made.streams[0]._replace(name="others")

    def fill(count: int, first: int, stream: GroupedStream) -> None:
        """Store so many groups that read this stream alone."""
        for number in range(first, first + count):
            one = replace(made, name=f"g{number}", streams=(stream,))
            key = group_keys.group(ACCOUNT, REGION, one.name)
            server.run(server.cell.put(key, encode(one)))

    def refusal(name: str, stream: str = STREAM) -> tuple[str, str]:
        arn = ARN.replace(STREAM, stream)
        return refused(kinesis.tidegate_create_group, GroupName=name, StreamARNs=[arn])

    fill(STREAM_GROUPS_MAX - 2, 0, made.streams[0])
    kinesis.tidegate_create_group(GroupName="last", StreamARNs=[ARN])
    assert refusal("beyond") == (
        "LimitExceededException",
        f"A stream is read by {STREAM_GROUPS_MAX} groups at most.",
    )
    assert refusal("last")[0] == "ResourceInUseException"
    kinesis.tidegate_delete_group(GroupName="last")
    kinesis.tidegate_create_group(GroupName="last", StreamARNs=[ARN])
    fill(ACCOUNT_GROUPS_MAX - STREAM_GROUPS_MAX - 1, STREAM_GROUPS_MAX, others)
    more = ARN.replace(STREAM, "more")
    kinesis.tidegate_create_group(GroupName="more", StreamARNs=[more])
    code, told = refusal("beyond", "more")
    assert code == "LimitExceededException"
    assert told == (
        f"Account {ACCOUNT} has {ACCOUNT_GROUPS_MAX} groups in {REGION}, and its quota is"
        f" {ACCOUNT_GROUPS_MAX}."
    )
    elsewhere = server.kinesis(extended=True, region="us-west-2")
    elsewhere.create_stream(StreamName=STREAM, ShardCount=1)
    west = ARN.replace(REGION, "us-west-2")
    elsewhere.tidegate_create_group(GroupName="beyond", StreamARNs=[west])


# Members


def test_a_group_made_anew_goes_on_above_the_epochs_of_the_former(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    epochs: list[int] = []
    for _ in range(2):
        create(kinesis)
        for _ in range(3):
            member = Member(kinesis)
            member.beat()
            epochs += member.owned.values()
            member.leave()
        kinesis.tidegate_delete_group(GroupName=GROUP)
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 6, "each has both shards under one epoch"


def test_members_share_the_shards(kinesis: Any, group: str) -> None:
    first, second = Member(kinesis, group), Member(kinesis, group)
    assert first.beat() == [shard_name(0), shard_name(1)]
    assert second.beat() == []
    assert len(first.beat()) == 1
    assert first.beat() == list(first.owned)
    assert len(second.beat()) == 1
    assert {*first.owned, *second.owned} == {shard_name(0), shard_name(1)}
    assert described(kinesis)[0] == "Stable"


def test_a_shard_is_handed_over_when_it_is_given_up(kinesis: Any, group: str) -> None:
    number = put(kinesis, "done")
    put(kinesis, "next")
    first, second = Member(kinesis, group), Member(kinesis, group)
    first.beat()
    assert first.read(shard_name(0))[0] == (number, "done")
    second.beat()
    kept = first.beat(releases=False)
    assert len(kept) == 1
    assert second.beat() == []
    assert described(kinesis)[0] == "Reconciling"
    moved = next(shard for shard in first.owned if shard not in kept)
    if moved == shard_name(0):
        assert first.commit(moved, number) == (number, "")
    late = dict(first.owned)
    first.owned = {shard: first.owned[shard] for shard in kept}
    first.beat()
    assert described(kinesis)[0] == "Assigning"
    assert second.beat() == [moved]
    if moved == shard_name(0):
        assert [text for _, text in second.read(moved)] == ["next"]
    first.owned = late
    assert first.commit(moved, put(kinesis, "x", 2**127 * int(moved[-1])))[1] == (
        "TidegateStaleAssignment"
    )


def test_a_member_that_leaves_gives_up_all_at_once(kinesis: Any, group: str) -> None:
    first, second = Member(kinesis, group), Member(kinesis, group)
    first.beat()
    number = put(kinesis, "done")
    first.commit(shard_name(0), number)
    second.beat()
    first.leave()
    assert second.beat() == [shard_name(0), shard_name(1)]
    assert second.positions[shard_name(0)] == {
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": number,
    }
    assert refused(first.beat)[0] == "TidegateUnknownMember"


def test_a_silent_member_loses_its_shards_after_its_session(
    kinesis: Any, group: str, server: InProcessServer
) -> None:
    silent, other = Member(kinesis, group), Member(kinesis, group)
    silent.beat()
    server.clock.advance(SESSION_S - 1)
    other.beat()
    assert other.beat() == []
    server.clock.advance(2)
    assert other.beat() == [shard_name(0), shard_name(1)]
    assert silent.commit(shard_name(0), put(kinesis, "late")) == ("", "TidegateStaleAssignment")
    with pytest.raises(ClientError, match="TidegateUnknownMember"):
        silent.beat()


def test_a_slow_member_is_dropped_after_the_rebalance_timeout(
    kinesis: Any, server: InProcessServer
) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    create(kinesis, SessionTimeoutSeconds=300, RebalanceTimeoutSeconds=5)
    slow, other = Member(kinesis), Member(kinesis)
    slow.beat()
    other.beat()
    slow.beat(releases=False)
    known = kinesis.tidegate_group_heartbeat(
        GroupName=GROUP, MemberId=other.id, MemberEpoch=other.epoch
    )
    assert known["RebalanceTimeoutSeconds"] == 5
    server.clock.advance(6)
    assert other.beat() == [shard_name(0), shard_name(1)]
    with pytest.raises(ClientError, match="TidegateUnknownMember"):
        slow.beat()


def test_an_instance_comes_back_and_keeps_its_shards(kinesis: Any, group: str) -> None:
    before, other = Member(kinesis, group, InstanceId="host-1"), Member(kinesis, group)
    before.beat()
    other.beat()
    mine = before.beat()
    before.beat()
    other.beat()
    after = Member(kinesis, group, InstanceId="host-1")
    assert refused(after.beat)[0] == "TidegateUnreleasedInstance"
    before.leave(-2)
    other.beat()
    assert len(other.owned) == 1
    assert after.beat() == mine
    assert after.owned != before.owned
    assert refused(before.beat)[0] == "TidegateFencedMember"
    assert before.commit(mine[0], put(kinesis, "x", 2**127 * int(mine[0][-1])))[1] == (
        "TidegateStaleAssignment"
    )


def _named_one(request: AWSPreparedRequest, **_: object) -> None:
    request.headers["amz-sdk-invocation-id"] = "one"


def test_a_call_that_an_sdk_repeats_joins_once(
    kinesis: Any, group: str, server: InProcessServer
) -> None:
    again = server.another().kinesis(extended=True)
    for client in (kinesis, again):
        client.meta.events.register_first("before-send.kinesis", _named_one)
    first, repeated = Member(kinesis, group), Member(again, group)
    first.beat()
    repeated.beat()
    assert first.id == repeated.id
    assert len(kinesis.tidegate_describe_group(GroupName=group)["Members"]) == 1


def test_a_heartbeat_waits_for_what_it_is_to_read(
    kinesis: Any, group: str, server: InProcessServer
) -> None:
    first, second = Member(kinesis, group), Member(kinesis, group)
    first.beat()
    second.beat()
    first.beat()
    before_us = server.clock.now_us()
    # What is free is told at once, and a change that is known is waited for.
    first.beat()
    second.beat(WaitTimeSeconds=20)
    assert len(second.owned) == 1
    second.beat()
    assert server.clock.now_us() - before_us < SESSION_S * 1_000_000 // 3


def test_members_are_bounded(kinesis: Any, group: str) -> None:
    for number in range(GROUP_MEMBERS_MAX):
        Member(kinesis, group, MemberId=f"m{number}").beat()
    code, message = refused(Member(kinesis, group).beat)
    told = f"Group {GROUP} has {GROUP_MEMBERS_MAX} members, and the quota is {GROUP_MEMBERS_MAX}."
    assert (code, message) == ("LimitExceededException", told)


# Who may do what


@pytest.fixture
def owner() -> Iterator[Any]:
    """The root of an account, on a server that asks policies, and the server."""
    server = InProcessServer(verifies=True)
    server.run(server.accounts.create_account("one", ACCOUNT, {}))
    key = server.run(server.accounts.create_key(ACCOUNT))
    kinesis = server.kinesis(key.id, key.secret, extended=True)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    yield server, kinesis
    server.close()


def _user(server: InProcessServer, name: str, actions: list[str], resource: str) -> Any:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resource}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    server.run(server.accounts.create_user(ACCOUNT, name, [policy]))
    key = server.run(server.accounts.create_key(ACCOUNT, user=name))
    return server.kinesis(key.id, key.secret, extended=True)


def test_a_user_may_do_with_a_group_what_its_policies_say(owner: Any) -> None:
    server, kinesis = owner
    group_arn = create(kinesis)["GroupARN"]
    actions = ["kinesis:TidegateGroupHeartbeat", "kinesis:TidegateCreateGroup"]
    ann = _user(server, "ann", actions, group_arn.replace(GROUP, "*"))
    assert Member(ann).beat() == [shard_name(0)]
    code, message = refused(ann.tidegate_describe_group, GroupName=GROUP)
    assert code == "AccessDeniedException"
    assert f"kinesis:TidegateDescribeGroup on resource: {group_arn}" in message
    # A group tells of its streams, so these are asked, too.
    hers = {"GroupName": "hers", "StreamARNs": [ARN]}
    assert refused(ann.tidegate_create_group, **hers)[0] == "AccessDeniedException"
    bob = _user(server, "bob", actions, "*")
    bob.tidegate_create_group(**hers)
    assert refused(bob.tidegate_list_groups)[0] == "AccessDeniedException"

"""How far consumer groups are: commits, positions, resets and lag, by boto3's Kinesis client."""

from typing import Any

import pytest

from data_plane.core.limits import (
    GROUP_COMMITS_MAX,
    GROUP_SESSION_S_MAX,
)
from tests.conformance.group_member import (
    ARN,
    GROUP,
    STREAM,
    Member,
    create,
    described,
    put,
    refused,
    shard_name,
    unchecked,
)
from tests.conformance.in_process import ACCOUNT, InProcessServer


@pytest.fixture
def kinesis(server: InProcessServer) -> Any:
    return server.kinesis(extended=True)


@pytest.fixture
def group(kinesis: Any) -> str:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    create(kinesis)
    return GROUP


def test_commits_do_not_go_back(kinesis: Any, group: str) -> None:
    member = Member(kinesis, group)
    member.beat()
    first, second = put(kinesis, "a"), put(kinesis, "b")
    assert member.commit(shard_name(0), second, Metadata="two") == (second, "")
    assert member.commit(shard_name(0), first) == (second, "")
    offsets = kinesis.tidegate_get_offsets(GroupName=group)["Offsets"]
    assert [one.get("SequenceNumber") for one in offsets] == [second, None]
    assert offsets[0]["Metadata"] == "two"
    assert member.commit(shard_name(1), second)[1] == "InvalidArgumentException"
    assert member.commit(shard_name(0), "SHARD_END")[1] == "InvalidArgumentException"
    member.owned[shard_name(7)] = 1
    assert member.commit(shard_name(7), second)[1] == "ResourceNotFoundException"


def test_children_wait_for_their_parents(kinesis: Any, group: str) -> None:
    member = Member(kinesis, group)
    member.beat()
    kinesis.split_shard(
        StreamName=STREAM, ShardToSplit=shard_name(0), NewStartingHashKey=str(2**126)
    )
    assert member.beat() == [shard_name(0), shard_name(1)]
    assert member.commit(shard_name(0), "SHARD_END") == ("SHARD_END", "")
    assert member.beat() == [shard_name(1), shard_name(2), shard_name(3)]
    assert member.positions[shard_name(2)] == {"ShardIteratorType": "TRIM_HORIZON"}
    kinesis.merge_shards(
        StreamName=STREAM, ShardToMerge=shard_name(2), AdjacentShardToMerge=shard_name(3)
    )
    member.commit(shard_name(2), "SHARD_END")
    assert member.beat() == [shard_name(1), shard_name(3)]
    member.commit(shard_name(3), "SHARD_END")
    assert member.beat() == [shard_name(1), shard_name(4)]


def test_lag_is_told_in_records_and_time(kinesis: Any, server: InProcessServer) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    create(kinesis, SessionTimeoutSeconds=GROUP_SESSION_S_MAX)
    member = Member(kinesis)
    member.beat()
    numbers = [put(kinesis, f"{number}") for number in range(5)]
    server.clock.advance(30)
    member.commit(shard_name(0), numbers[1])
    state, shards = described(kinesis)
    assert state == "Stable"
    assert shards[shard_name(0)]["LagRecords"] == 3
    assert 30_000 <= shards[shard_name(0)]["MillisBehindLatest"] < 31_000
    assert shards[shard_name(0)]["OwnerMemberId"] == member.id
    assert shards[shard_name(0)]["SequenceNumber"] == numbers[1]
    assert (shards[shard_name(1)]["LagRecords"], shards[shard_name(1)]["MillisBehindLatest"]) == (
        0,
        0,
    )
    member.commit(shard_name(0), numbers[-1])
    assert described(kinesis)[1][shard_name(0)]["LagRecords"] == 0
    server.clock.advance(2 * 86_400)
    assert described(kinesis)[1][shard_name(0)]["LagRecords"] == 0


def test_expired_records_are_no_lag(kinesis: Any, group: str, server: InProcessServer) -> None:
    put(kinesis, "old")
    server.clock.advance(23 * 3_600)
    put(kinesis, "new")
    assert described(kinesis)[1][shard_name(0)]["LagRecords"] == 2
    server.clock.advance(2 * 3_600)
    shard = described(kinesis)[1][shard_name(0)]
    assert shard["LagRecords"] == 1
    assert 7_200_000 <= shard["MillisBehindLatest"] < 7_300_000
    assert group == GROUP


def test_latest_is_fixed_when_the_group_is_made(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    put(kinesis, "before")
    kinesis.tidegate_create_group(GroupName=GROUP, StreamARNs=[ARN])
    put(kinesis, "after")
    member = Member(kinesis)
    member.beat()
    assert [text for _, text in member.read(shard_name(0))] == ["after"]


def test_closed_shards_are_not_read_from_latest(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    kinesis.split_shard(
        StreamName=STREAM, ShardToSplit=shard_name(0), NewStartingHashKey=str(2**127)
    )
    kinesis.tidegate_create_group(GroupName=GROUP, StreamARNs=[ARN])
    assert Member(kinesis).beat() == [shard_name(1), shard_name(2)]


def test_a_group_without_members_is_reset(kinesis: Any, group: str) -> None:
    member = Member(kinesis, group)
    member.beat()
    numbers = [put(kinesis, text) for text in "abc"]
    member.commit(shard_name(0), numbers[2])
    reset = kinesis.tidegate_reset_offsets
    whole = {"GroupName": group, "StartingPosition": {"Type": "TRIM_HORIZON"}}
    assert refused(reset, **whole) == (
        "ResourceInUseException",
        f"Group {group} under account {ACCOUNT} has members. Stop them first.",
    )
    assert refused(kinesis.tidegate_delete_group, GroupName=group)[0] == "ResourceInUseException"
    member.leave()

    def read_after(**given: Any) -> list[str]:
        reset(GroupName=group, **given)
        next_one = Member(kinesis, group)
        next_one.beat()
        texts = [text for _, text in next_one.read(shard_name(0))]
        next_one.leave()
        return texts

    shard = [{"StreamARN": ARN, "ShardId": shard_name(0)}]
    assert read_after(StartingPosition={"Type": "TRIM_HORIZON"}) == ["a", "b", "c"]
    assert read_after(StartingPosition={"Type": "LATEST"}) == []
    for kind, texts in (("AT_SEQUENCE_NUMBER", ["b", "c"]), ("AFTER_SEQUENCE_NUMBER", ["c"])):
        position = {"Type": kind, "SequenceNumber": numbers[1]}
        assert read_after(Shards=shard, StartingPosition=position) == texts
        assert refused(reset, GroupName=group, StartingPosition=position)[0] == (
            "InvalidArgumentException"
        )
    assert member.commit(shard_name(0), numbers[2])[1] == "TidegateStaleAssignment"
    missing = {"Type": "AT_SEQUENCE_NUMBER"}
    assert refused(reset, GroupName=group, Shards=shard, StartingPosition=missing)[0] == (
        "InvalidArgumentException"
    )


def test_a_dry_run_says_what_a_reset_would_do(
    kinesis: Any, group: str, server: InProcessServer
) -> None:
    member = Member(kinesis, group)
    member.beat()
    numbers = [put(kinesis, text) for text in "abc"]
    server.clock.advance(2)
    late = put(kinesis, "d")
    member.commit(shard_name(0), numbers[1])

    def foreseen(kind: str, **more: Any) -> dict[str, Any]:
        position = {"Type": kind, **more.pop("position", {})}
        [one, *_] = kinesis.tidegate_reset_offsets(
            GroupName=group, StartingPosition=position, DryRun=True, **more
        )["Shards"]
        assert one.pop("ShardId") == shard_name(0)
        assert one.pop("StreamARN") == ARN
        assert one.pop("SequenceNumber") == numbers[1]
        return dict(one)

    dry = {"GroupName": group, "StartingPosition": {"Type": "LATEST"}, "DryRun": True}
    assert refused(kinesis.tidegate_reset_offsets, **dry)[0] == "ResourceInUseException"
    member.leave()
    whole = foreseen("TRIM_HORIZON")
    assert 2_000 <= whole.pop("MillisBehindLatestAfter") < 3_000
    start = {"ShardIteratorType": "TRIM_HORIZON"}
    assert whole == {"Position": start, "LagRecords": 2, "LagRecordsAfter": 4}
    assert foreseen("LATEST")["LagRecordsAfter"] == 0
    since = {"Timestamp": server.clock.now_us() / 1e6 - 1}
    assert foreseen("AT_TIMESTAMP", position=since)["LagRecordsAfter"] == 1
    shards = [{"StreamARN": ARN, "ShardId": shard_name(0)}]
    after = {"SequenceNumber": numbers[0]}
    told = foreseen("AFTER_SEQUENCE_NUMBER", position=after, Shards=shards)
    assert told["LagRecordsAfter"] == 3
    # Nothing was reset.
    again = Member(kinesis, group)
    again.beat()
    assert [number for number, _ in again.read(shard_name(0))] == [numbers[2], late]


def test_a_dry_run_tells_of_shards_that_are_read_before_or_after_alone(kinesis: Any) -> None:
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    put(kinesis, "a")
    kinesis.split_shard(
        StreamName=STREAM, ShardToSplit=shard_name(0), NewStartingHashKey=str(2**127)
    )
    put(kinesis, "b")
    kinesis.tidegate_create_group(GroupName=GROUP, StreamARNs=[ARN])

    def foreseen(kind: str) -> dict[str, tuple[int, int, bool]]:
        shards = kinesis.tidegate_reset_offsets(
            GroupName=GROUP, StartingPosition={"Type": kind}, DryRun=True
        )["Shards"]
        return {
            one["ShardId"]: (one["LagRecords"], one["LagRecordsAfter"], "Position" in one)
            for one in shards
        }

    assert foreseen("LATEST") == {shard_name(1): (0, 0, True), shard_name(2): (0, 0, True)}
    whole = foreseen("TRIM_HORIZON")
    assert whole == {
        shard_name(0): (0, 1, True),
        shard_name(1): (0, 1, True),
        shard_name(2): (0, 0, True),
    }
    kinesis.tidegate_reset_offsets(GroupName=GROUP, StartingPosition={"Type": "TRIM_HORIZON"})
    assert foreseen("LATEST") == {
        shard_name(0): (1, 0, False),
        shard_name(1): (1, 0, True),
        shard_name(2): (0, 0, True),
    }


def test_a_shard_that_is_read_again_holds_up_its_children(kinesis: Any, group: str) -> None:
    member = Member(kinesis, group)
    member.beat()
    kinesis.split_shard(
        StreamName=STREAM, ShardToSplit=shard_name(0), NewStartingHashKey=str(2**126)
    )
    member.commit(shard_name(0), "SHARD_END")
    member.leave()
    kinesis.tidegate_reset_offsets(
        GroupName=group,
        Shards=[{"StreamARN": ARN, "ShardId": shard_name(0)}],
        StartingPosition={"Type": "TRIM_HORIZON"},
    )
    assert Member(kinesis, group).beat() == [shard_name(0), shard_name(1)]


def test_a_stream_that_is_made_anew_is_read_from_its_beginning(kinesis: Any, group: str) -> None:
    member = Member(kinesis, group)
    member.beat()
    member.commit(shard_name(0), put(kinesis, "old"))
    kinesis.delete_stream(StreamName=STREAM)
    assert member.beat() == []
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    number = put(kinesis, "new")
    assert member.beat() == [shard_name(0)]
    assert member.read(shard_name(0)) == [(number, "new")]
    assert member.commit(shard_name(0), number) == (number, "")


def test_a_stream_that_is_made_anew_at_once_is_read_from_its_beginning(
    kinesis: Any, group: str
) -> None:
    member = Member(kinesis, group)
    member.beat()
    former = put(kinesis, "old")
    member.commit(shard_name(0), former)
    told = dict(member.owned)
    kinesis.delete_stream(StreamName=STREAM)
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    number = put(kinesis, "new")
    assert member.beat() == [shard_name(0)]
    assert member.owned[shard_name(0)] > told[shard_name(0)]
    assert member.positions[shard_name(0)] == {"ShardIteratorType": "TRIM_HORIZON"}
    assert member.read(shard_name(0)) == [(number, "new")]
    member.owned |= told
    assert member.commit(shard_name(0), number)[1] == "TidegateStaleAssignment"


def test_offsets_are_told_a_page_at_a_time(kinesis: Any, group: str) -> None:
    pages = kinesis.get_paginator("tidegate_get_offsets").paginate(
        GroupName=group, PaginationConfig={"PageSize": 1}
    )
    assert [one["ShardId"] for page in pages for one in page["Offsets"]] == [
        shard_name(0),
        shard_name(1),
    ]
    shards = [{"StreamARN": ARN, "ShardId": shard_name(1)}]
    named = kinesis.tidegate_get_offsets(GroupName=group, Shards=shards)["Offsets"]
    assert [one["ShardId"] for one in named] == [shard_name(1)]
    code, _ = refused(kinesis.tidegate_get_offsets, GroupName=group, NextToken="none")
    assert code == "InvalidArgumentException"


def test_so_many_commits_come_with_a_call(server: InProcessServer, group: str) -> None:
    client = unchecked(server)
    entry = {
        "StreamARN": ARN,
        "ShardId": shard_name(0),
        "AssignmentEpoch": 1,
        "SequenceNumber": "SHARD_END",
    }
    answer = client.tidegate_commit_offsets(
        GroupName=group, MemberId="m", Entries=[entry] * GROUP_COMMITS_MAX
    )
    assert len(answer["Failed"]) == GROUP_COMMITS_MAX
    code, _ = refused(
        client.tidegate_commit_offsets,
        GroupName=group,
        MemberId="m",
        Entries=[entry] * (GROUP_COMMITS_MAX + 1),
    )
    assert code == "ValidationException"

"""Assignors: nobody has two shards more than another, and few shards change hands."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from control_plane.core.consumer_group import (
    RANGE,
    STICKY,
    ConsumerGroup,
    GroupMember,
    ShardHold,
    ShardKey,
)
from control_plane.core.group_assignment import ASSIGNORS, targets

EMPTY = ConsumerGroup(
    account="123456789012",
    region="eu-central-1",
    name="readers",
    uid="0" * 16,
    created_ms=0,
    session_s=10,
    rebalance_s=60,
    assignor=STICKY,
    streams=(),
)
NAMES = some.sets(some.sampled_from("abcdefgh"))


def group_of(
    members: set[str], holds: dict[ShardKey, ShardHold], assignor: str = STICKY
) -> ConsumerGroup:
    known = {member: GroupMember(member, 1) for member in sorted(members)}
    return replace(EMPTY, members=known, holds=holds, assignor=assignor)


@some.composite
def groups(draw: some.DrawFn) -> ConsumerGroup:
    """Any group, also one whose shards are at members that are gone."""
    whoever = some.sampled_from(["", *"abcdefghxy"])
    count = draw(some.integers(0, 30))
    holds = {
        ShardKey(number % 3, number): ShardHold(draw(whoever), 1, draw(whoever))
        for number in range(count)
    }
    return group_of(draw(NAMES), holds, draw(some.sampled_from(ASSIGNORS)))


@given(groups())
def test_members_have_all_shards_and_one_more_at_most(group: ConsumerGroup) -> None:
    wanted = targets(group)
    assert wanted.keys() == (group.holds.keys() if group.members else set())
    assert set(wanted.values()) <= group.members.keys()
    counts = Counter(dict.fromkeys(group.members, 0))
    counts.update(wanted.values())
    assert max(counts.values(), default=0) - min(counts.values(), default=0) <= 1


@given(groups())
def test_what_is_wanted_is_wanted_again(group: ConsumerGroup) -> None:
    wanted = targets(group)
    after = {
        key: hold._replace(target=wanted.get(key, ""), owner=wanted.get(key, ""))
        for key, hold in group.holds.items()
    }
    assert targets(replace(group, holds=after)) == wanted


@given(groups(), some.sampled_from("abcdefgh"))
def test_sticky_moves_no_more_than_a_share(group: ConsumerGroup, member: str) -> None:
    """Who comes gets a share; what goes is shared out; all else stays."""
    group = replace(group, assignor=STICKY)
    before = targets(group)
    held = {
        key: hold._replace(target=before.get(key, ""), owner=before.get(key, ""))
        for key, hold in group.holds.items()
    }
    names = set(group.members) ^ {member}
    after = targets(group_of(names, held))
    moved = [key for key in after if before.get(key) != after[key]]
    if member in names and before:
        assert len(moved) == Counter(after.values())[member]
        assert {after[key] for key in moved} <= {member}
    else:
        assert {before.get(key, member) for key in moved} <= {member}


def test_who_has_a_shard_keeps_it_rather_than_who_waits_for_one() -> None:
    holds = {
        ShardKey(0, 0): ShardHold("a", 1, "b", 5),
        ShardKey(0, 1): ShardHold("b", 1, "b"),
        ShardKey(0, 2): ShardHold("c", 1, "c"),
    }
    wanted = targets(group_of({"a", "b", "c"}, holds))
    assert wanted == {ShardKey(0, 0): "a", ShardKey(0, 1): "b", ShardKey(0, 2): "c"}


def test_what_was_for_a_member_that_is_gone_stays_where_it_is() -> None:
    holds = {
        ShardKey(0, number): ShardHold("a", 1, "gone" if number < 2 else "b") for number in range(4)
    }
    wanted = targets(group_of({"a", "b"}, holds))
    assert [wanted[ShardKey(0, number)] for number in range(4)] == ["a", "a", "b", "b"]


def test_ranges_follow_each_other_in_order_of_instances() -> None:
    holds = {ShardKey(stream, shard): ShardHold() for stream in range(2) for shard in range(3)}
    group = group_of({"a", "b", "c", "d"}, holds, RANGE)
    members = dict(group.members)
    members["d"] = GroupMember("d", 1, instance="0")
    wanted = targets(replace(group, members=members))
    assert [wanted[key] for key in sorted(holds)] == ["d", "d", "a", "a", "b", "c"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_without_members_nobody_is_to_have_anything(assignor: str) -> None:
    assert targets(group_of(set(), {ShardKey(0, 0): ShardHold("a", 1, "a")}, assignor)) == {}

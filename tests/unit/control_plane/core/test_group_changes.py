"""A consumer group and what happens to it: data in, data out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control_plane.core import group_changes, shard_map
from control_plane.core.consumer_group import (
    ConsumerGroup,
    GroupedStream,
    ShardHold,
    ShardKey,
    decode,
    encode,
    readable,
)
from control_plane.core.item_field import UnknownItemFormatError
from data_plane.core.limits import GROUP_SHARDS_MAX
from data_plane.core.stream import Shard, Stream

GROUP = ConsumerGroup(
    account="123456789012",
    region="eu-central-1",
    name="readers",
    uid="0" * 16,
    created_ms=0,
    session_s=10,
    rebalance_s=60,
    assignor="sticky",
    streams=(GroupedStream("clicks", "a" * 16),),
)
NOW_US = 1_790_000_000_000_000
ZERO, ONE, TWO = (ShardKey(0, number) for number in range(3))


def stream_of(*shards: Shard, version: int = 1, uid: str = "a" * 16) -> Stream:
    return Stream(
        account=GROUP.account,
        region=GROUP.region,
        name="clicks",
        uid=uid,
        cell="a",
        version=version,
        retention_s=86_400,
        kept_s=86_400,
        record_bytes_max=1_048_576,
        shards=shards or shard_map.first_shards(2, 1),
    )


def then(
    before: ConsumerGroup, after: ConsumerGroup, stream: Stream | None = None, now_us: int = NOW_US
) -> ConsumerGroup:
    known = {} if stream is None else {0: stream}
    return group_changes.balanced(before, group_changes.with_streams(after, known), now_us)


def of_members(*members: str, stream: Stream | None = None) -> ConsumerGroup:
    group = then(GROUP, GROUP, stream or stream_of())
    for member in members:
        group = then(group, group_changes.joined(group, member))
    return group


def test_the_first_member_has_all_at_once() -> None:
    group = of_members("a")
    assert group.shards_of("a") == {ZERO: 2, ONE: 2}
    assert group.members["a"].joined == 2


def test_what_changes_nothing_is_the_same_group() -> None:
    group = of_members("a")
    assert then(group, group, stream_of()) is group
    assert group_changes.without(group, ["b"]) is group


def test_a_shard_moves_when_its_owner_gives_it_up() -> None:
    group = of_members("a", "b")
    moving = next(key for key, hold in group.holds.items() if hold.target == "b")
    assert group.holds[moving] == ShardHold("a", 2, "b", NOW_US)
    assert not group.shards_of("b")
    kept = group.shards_of("a")
    still = then(group, group_changes.released(group, "a", 3, {**kept, moving: 2}))
    assert still is group
    after = then(group, group_changes.released(group, "a", 3, kept))
    assert after.shards_of("b") == {moving: 4}


def test_who_cannot_know_of_a_shard_does_not_give_it_up() -> None:
    group = of_members("a", "b")
    assert group_changes.released(group, "a", 1, {}) is group
    assert group_changes.released(group, "a", 2, {}) is not group


def test_a_shard_of_before_is_not_the_one_of_now() -> None:
    group = of_members("a", "b")
    moving = next(key for key, hold in group.holds.items() if hold.target == "b")
    assert group_changes.released(group, "a", 3, {moving: 1}) is not group


def test_who_is_gone_has_nothing() -> None:
    group = of_members("a", "b")
    after = then(group, group_changes.without(group, ["a"]))
    assert after.shards_of("b") == {ZERO: 4, ONE: 4}
    empty = then(after, group_changes.without(after, ["b"]))
    assert {hold.owner for hold in empty.holds.values()} == {""}


def test_a_member_that_joins_again_has_all_under_another_epoch() -> None:
    group = of_members("a", "b")
    after = then(group, group_changes.joined(group, "a"))
    assert after.members["a"].joined == 4
    assert list(after.shards_of("a").values()) == [4]
    assert list(after.shards_of("b").values()) == [4]


def test_an_instance_takes_over_what_it_had() -> None:
    group = then(GROUP, GROUP, stream_of())
    group = then(group, group_changes.joined(group, "a", "host"))
    assert group_changes.holder_of_instance(group, "host", "b") == group.members["a"]
    assert group_changes.holder_of_instance(group, "host", "a") is None
    group = then(group, group_changes.left_for_now(group, "a"))
    assert group_changes.holder_of_instance(group, "host", "b") is None
    group = then(group, group_changes.joined(group, "b", "host"))
    assert group.shards_of("b") == {ZERO: 4, ONE: 4}
    assert group.members["b"].before == "a"
    assert "a" not in group.members


def test_who_is_too_slow_is_known_by_its_shards() -> None:
    group = of_members("a", "b")
    late_us = NOW_US + 60_000_000
    assert group_changes.too_slow(group, late_us) == set()
    assert group_changes.too_slow(group, late_us + 1) == {"a"}
    assert group_changes.next_too_slow_us(group) == late_us + 1
    assert group_changes.next_too_slow_us(of_members("a")) is None


def split() -> tuple[Stream, Stream]:
    """A stream of one shard, and after that was split."""
    first = shard_map.first_shards(1, 1)
    plan = shard_map.split(first[0], 2**127, 1)
    after = shard_map.carried_out(first, plan, {0: 5_000_000})
    return stream_of(*first), stream_of(*after, version=2)


def test_children_wait_until_their_parent_is_done() -> None:
    before, after = split()
    group = of_members("a", stream=before)
    group = then(group, group, after)
    assert group.holds.keys() == {ZERO}
    epoch = group.holds[ZERO].epoch
    stale = group_changes.done(group, {ZERO: epoch - 1})
    assert stale is group
    group = then(group, group_changes.done(group, {ZERO: epoch}), after)
    assert group.holds.keys() == {ONE, TWO}


def test_children_of_merged_shards_wait_for_both() -> None:
    first = shard_map.first_shards(2, 1)
    plan = shard_map.merge(first[0], first[1], 2)
    merged = stream_of(*shard_map.carried_out(first, plan, {0: 5_000_000, 1: 5_000_000}))
    known = GroupedStream("clicks", merged.uid)
    assert readable(known, merged) == [0, 1]
    assert readable(known._replace(done=frozenset({0})), merged) == [1]
    assert readable(known._replace(done=frozenset({0, 1})), merged) == [2]


def test_parents_that_expired_or_are_not_read_hold_up_nobody() -> None:
    _, after = split()
    expired = replace(after, shards=after.shards[1:])
    assert readable(GroupedStream("clicks", after.uid), expired) == [1, 2]
    from_latest = GroupedStream("clicks", after.uid, 2, 3, frozenset({1, 2}))
    assert readable(from_latest, after) == [1, 2]


def test_an_older_definition_changes_nothing() -> None:
    before, after = split()
    group = of_members("a", stream=after)
    group = then(group, group_changes.done(group, {ZERO: 2}), after)
    assert then(group, group, before) is group


def test_a_stream_that_is_gone_or_made_anew() -> None:
    group = of_members("a")
    group = then(group, group_changes.done(group, {ZERO: 2}), stream_of())
    gone = group_changes.balanced(group, group_changes.with_streams(group, {0: None}), NOW_US)
    assert not gone.holds
    anew = then(gone, gone, stream_of(uid="b" * 16))
    assert anew.holds.keys() == {ZERO, ONE}
    assert anew.streams[0].done == frozenset()


def test_shards_of_a_stream_that_was_made_anew_at_once_are_others() -> None:
    group = of_members("a", "b")
    anew = then(group, group, stream_of(uid="b" * 16))
    assert {hold.owner for hold in anew.holds.values()} == {"a", "b"}
    assert {key: hold.epoch for key, hold in anew.holds.items()} == {ZERO: 4, ONE: 4}
    assert then(anew, anew, stream_of(uid="b" * 16)) is anew


def test_what_is_beyond_the_limit_waits_for_room() -> None:
    shards = shard_map.first_shards(GROUP_SHARDS_MAX, 1)
    plan = shard_map.split(shards[0], 5, GROUP_SHARDS_MAX)
    before = stream_of(*shards)
    after = stream_of(*shard_map.carried_out(shards, plan, {0: 5_000_000}), version=2)
    group = of_members("a", stream=before)
    epoch = group.holds[ZERO].epoch
    group = then(group, group_changes.done(group, {ZERO: epoch}), after)
    assert len(group.holds) == GROUP_SHARDS_MAX
    assert ShardKey(0, GROUP_SHARDS_MAX) in group.holds
    group = then(group, group_changes.done(group, {ONE: epoch}), after)
    assert ShardKey(0, GROUP_SHARDS_MAX + 1) in group.holds


def test_a_group_is_read_as_it_was_stored() -> None:
    group = of_members("a", "b", "c")
    group = then(group, group_changes.done(group, {ZERO: 2}), stream_of())
    group = replace(group, nonce=b"12345678", is_deleted=True)
    item = encode(group)
    assert decode(group.account, group.region, group.name, item) == group
    for broken in ({"v": 9}, {"k": "q"}):
        with pytest.raises(UnknownItemFormatError):
            decode(group.account, group.region, group.name, {**item, **broken})


MEMBERS = some.sampled_from("abcde")


class Life(RuleBasedStateMachine):
    """Whatever happens: epochs grow, and a shard has one owner, under an epoch of its own."""

    @initialize()
    def begin(self) -> None:
        self.shards = shard_map.first_shards(2, 1)
        self.version = 1
        self.now_us = NOW_US
        self.group = then(GROUP, GROUP, self.stream())
        self.owners: dict[tuple[ShardKey, int], str] = {}
        self.reset: set[ShardKey] = set()

    def stream(self) -> Stream:
        return stream_of(*self.shards, version=self.version)

    def apply(self, after: ConsumerGroup) -> None:
        before = self.group
        self.group = then(before, after, self.stream(), self.now_us)
        assert self.group is before or self.group.epoch == before.epoch + 1

    @rule(member=MEMBERS, instance=some.sampled_from(["", "i", "j"]))
    def join(self, member: str, instance: str) -> None:
        if group_changes.holder_of_instance(self.group, instance, member) is None:
            self.apply(group_changes.joined(self.group, member, instance))

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.apply(group_changes.without(self.group, [member]))

    @rule(member=MEMBERS)
    def leave_for_now(self, member: str) -> None:
        if member in self.group.members:
            self.apply(group_changes.left_for_now(self.group, member))

    @rule(member=MEMBERS, keeps=some.booleans(), knows=some.integers(0, 3))
    def beat(self, member: str, keeps: bool, knows: int) -> None:  # noqa: FBT001 - hypothesis's
        owned = {k: h.epoch for k, h in self.group.holds.items() if h.owner == member and keeps}
        epoch = self.group.epoch - knows
        self.apply(group_changes.released(self.group, member, epoch, owned))

    @rule(seconds=some.integers(1, 100))
    def wait(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000
        slow = group_changes.too_slow(self.group, self.now_us)
        self.apply(group_changes.without(self.group, slow))

    @rule(which=some.integers(0, 50))
    def split(self, which: int) -> None:
        opened = [one for one in self.shards if one.is_open]
        shard = opened[which % len(opened)]
        middle = (shard.first_hash + shard.last_hash) // 2
        if len(self.shards) < 12 and shard.first_hash + 1 < middle:
            plan = shard_map.split(shard, middle, len(self.shards))
            self.shards = shard_map.carried_out(self.shards, plan, {shard.number: 5_000_000})
            self.version += 1
            self.apply(self.group)

    @rule(which=some.integers(0, 50), lag=some.integers(0, 1))
    def end(self, which: int, lag: int) -> None:
        closed = [one.number for one in self.shards if not one.is_open]
        keys = [key for key in self.group.holds if key.shard in closed]
        if keys:
            key = keys[which % len(keys)]
            self.apply(group_changes.done(self.group, {key: self.group.holds[key].epoch - lag}))

    @invariant()
    def a_shard_has_one_owner_in_each_epoch(self) -> None:
        for key, hold in self.group.holds.items():
            if hold.owner:
                assert hold.owner in self.group.members
                assert hold.epoch <= self.group.epoch
                assert self.owners.setdefault((key, hold.epoch), hold.owner) == hold.owner

    @invariant()
    def shares_are_equal(self) -> None:
        targets = [hold.target for hold in self.group.holds.values()]
        counts = [targets.count(member) for member in self.group.members]
        assert not counts or max(counts) - min(counts) <= 1
        assert all(targets) or not self.group.members

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        assert all(hold.owner or not hold.target for hold in self.group.holds.values())

    @invariant()
    def children_come_after_their_parents(self) -> None:
        done = self.group.streams[0].done
        for shard in self.shards:
            if ShardKey(0, shard.number) in self.group.holds or shard.number in done:
                assert done >= set(shard.parents)

    @invariant()
    def it_is_stored_as_it_is(self) -> None:
        group = self.group
        assert decode(group.account, group.region, group.name, encode(group)) == group


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@given(some.integers(1, 8), some.integers(0, 8))
def test_all_that_is_handed_over_ends_up_stable(first: int, second: int) -> None:
    """Members that do as they are told have what they are to have, after two rounds."""
    group = of_members(*(f"m{number}" for number in range(first)))
    for number in range(second):
        group = then(group, group_changes.joined(group, f"n{number}"))
    for _ in range(2):
        for member in group.members:
            owned = group.shards_of(member)
            group = then(group, group_changes.released(group, member, group.epoch, owned))
    assert all(hold.owner == hold.target for hold in group.holds.values())

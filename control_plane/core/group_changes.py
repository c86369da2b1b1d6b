"""What happens to a consumer group: each event makes another group of it.

Pure functions: time and ids are arguments. They say what has happened; `balanced` then decides who
is to have what, hands over what is free, and counts the epoch.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from control_plane.core.consumer_group import (
    NOBODY,
    ConsumerGroup,
    GroupedStream,
    GroupMember,
    ShardHold,
    ShardKey,
    readable,
)
from control_plane.core.group_assignment import targets
from data_plane.core.limits import GROUP_SHARDS_MAX
from data_plane.core.stream import Stream

Edit = Callable[[ConsumerGroup], ConsumerGroup]
"""What happens to a group; may be asked several times, of the group as it is by then."""

_US_PER_S = 1_000_000


def balanced(before: ConsumerGroup, after: ConsumerGroup, now_us: int) -> ConsumerGroup:
    """The group after events, with the next epoch; `before` itself where nothing is different.

    A shard that nobody has goes to whom it is for, at once and under the new epoch. One that
    another member has stays there until that one gives it up.
    """
    epoch = before.epoch + 1
    wanted = targets(after)
    holds: dict[ShardKey, ShardHold] = {}
    for key, hold in after.holds.items():
        target = wanted.get(key, NOBODY)
        owner, since = hold.owner, hold.epoch
        if owner not in after.members:
            owner = NOBODY
        if not owner and target:
            owner, since = target, epoch
        moving_us = (hold.moving_us or now_us) if owner and owner != target else 0
        holds[key] = ShardHold(owner, since, target, moving_us)
    settled = replace(after, holds=holds, epoch=before.epoch)
    return before if settled == before else replace(settled, epoch=epoch)


def joined(group: ConsumerGroup, member: str, instance: str = "") -> ConsumerGroup:
    """A member comes, or comes back and has nothing any more of what it had.

    One of the same instance that was there before hands all that it had over to it.
    """
    epoch = group.epoch + 1
    former = member if member in group.members else _of_instance(group, instance)
    members = {name: one for name, one in group.members.items() if name != former}
    before = former if former != member else group.members[member].before
    members[member] = GroupMember(member, epoch, instance, before=before)
    holds = group.holds
    if former:
        holds = {key: _handed_on(hold, former, member, epoch) for key, hold in group.holds.items()}
    return replace(group, members=members, holds=holds)


def _handed_on(hold: ShardHold, former: str, member: str, epoch: int) -> ShardHold:
    """What the former one had is the member's, under another epoch: its commits fail from now."""
    target = member if hold.target == former else hold.target
    if hold.owner != former:
        return hold._replace(target=target)
    if target != member:
        return ShardHold(NOBODY, hold.epoch, target)
    return ShardHold(member, epoch, target)


def _of_instance(group: ConsumerGroup, instance: str) -> str:
    if not instance:
        return NOBODY
    return next((one.id for one in group.members.values() if one.instance == instance), NOBODY)


def holder_of_instance(group: ConsumerGroup, instance: str, member: str) -> GroupMember | None:
    """Another member than this one that has the instance, and did not leave."""
    other = group.members.get(_of_instance(group, instance))
    return other if other is not None and other.id != member and not other.left else None


def without(group: ConsumerGroup, gone: Collection[str]) -> ConsumerGroup:
    """Members are gone: they left, or their sessions ended."""
    if not any(member in group.members for member in gone):
        return group
    members = {name: one for name, one in group.members.items() if name not in gone}
    return replace(group, members=members)


def left_for_now(group: ConsumerGroup, member: str) -> ConsumerGroup:
    """A member of an instance goes, and is to be back before its session ends."""
    left = group.members[member]._replace(left=True)
    return replace(group, members={**group.members, member: left})


def released(
    group: ConsumerGroup, member: str, epoch: int, owned: Mapping[ShardKey, int]
) -> ConsumerGroup:
    """The member has these shards, and knows the group as it was at this epoch.

    What it is to give up, knew of and does not have any more is free. Who was not told of a shard
    yet may be told by an answer that is under way.
    """
    free = {
        key: hold._replace(owner=NOBODY)
        for key, hold in group.holds.items()
        if hold.owner == member != hold.target
        and hold.epoch <= epoch
        and owned.get(key) != hold.epoch
    }
    return replace(group, holds={**group.holds, **free}) if free else group


def too_slow(group: ConsumerGroup, now_us: int) -> set[str]:
    """Members that were asked to give up a shard for longer than they have time for."""
    since_us = now_us - group.rebalance_s * _US_PER_S
    return {
        hold.owner
        for hold in group.holds.values()
        if hold.owner and hold.owner != hold.target and hold.moving_us < since_us
    }


def next_too_slow_us(group: ConsumerGroup) -> int | None:
    """When the first of those who give up a shard will have been too slow; None: nobody does."""
    moving_us = [hold.moving_us for hold in group.holds.values() if hold.moving_us]
    return min(moving_us) + group.rebalance_s * _US_PER_S + 1 if moving_us else None


def done(group: ConsumerGroup, ended: Mapping[ShardKey, int]) -> ConsumerGroup:
    """Shards are committed to their end, under these epochs: what follows them may be read.

    What was handed over since, made anew or reset says itself whether it is at its end.
    """
    for key, epoch in ended.items():
        hold = group.holds.get(key)
        if hold is not None and hold.epoch == epoch:
            stream = group.streams[key.stream]
            group = group.with_stream(key.stream, stream._replace(done=stream.done | {key.shard}))
    return group


def begun_again(group: ConsumerGroup, position: int, stream: GroupedStream) -> ConsumerGroup:
    """A stream of a group without members is read from elsewhere: nothing of before counts."""
    holds = {key: hold for key, hold in group.holds.items() if key.stream != position}
    return replace(group.with_stream(position, stream), holds=holds)


def is_outdated(known: GroupedStream, stream: Stream) -> bool:
    """Whether the group knows a later definition of the stream than this one."""
    return known.uid == stream.uid and stream.version < known.version


def with_streams(group: ConsumerGroup, streams: Mapping[int, Stream | None]) -> ConsumerGroup:
    """The group with the shards that its streams, by their positions, have now.

    None: there is no such stream any more. What is outdated is not looked at. A stream that was
    made anew is read from its beginning, and its shards are others: nobody has them yet.
    """
    holds = dict(group.holds)
    for position, stream in streams.items():
        known = group.streams[position]
        if stream is not None and is_outdated(known, stream):
            continue
        if stream is not None:
            if known.uid != stream.uid:
                holds = {key: hold for key, hold in holds.items() if key.stream != position}
            known = _as_now(known, stream)
            group = group.with_stream(position, known)
        present = set() if stream is None else set(readable(known, stream))
        for key in [key for key in holds if key.stream == position]:
            if key.shard in present:
                present.remove(key.shard)
            else:
                del holds[key]
        holds.update({ShardKey(position, shard): ShardHold() for shard in sorted(present)})
    if holds != group.holds:
        held = [key for key in holds if key in group.holds]
        new = sorted(holds.keys() - group.holds.keys())
        kept = sorted([*held, *new[: max(0, GROUP_SHARDS_MAX - len(held))]])
        group = replace(group, holds={key: holds[key] for key in kept})
    return group


def _as_now(known: GroupedStream, stream: Stream) -> GroupedStream:
    if known.uid != stream.uid:
        return GroupedStream(known.name, stream.uid, stream.version)
    present = {shard.number for shard in stream.shards}
    return known._replace(
        version=stream.version, first=known.first & present, done=known.done & present
    )

"""Heartbeats: how a member joins a group, learns what it is to read, gives shards up, and leaves.

A shard is handed over in two steps. First nobody has it: the former member says that it does not,
or is gone. Then the new one comes, and takes it over by a write whose answer alone says where to
begin (offsets.py).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from control_plane.consumer_groups.offsets import Offsets
from control_plane.consumer_groups.registry import (
    ATTEMPTS_MAX,
    GroupRegistry,
    channel,
    too_many_changes,
)
from control_plane.core import group_changes
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.core.group_offset import GroupOffset
from data_plane.core.errors import (
    FENCED_MEMBER,
    LIMIT_EXCEEDED,
    UNKNOWN_MEMBER,
    UNRELEASED_INSTANCE,
    RefusedError,
)
from data_plane.ports import Clock, Waits

JOINS, LEAVES, LEAVES_FOR_NOW = 0, -1, -2
"""What a member says instead of an epoch that it knows."""

LOOK_US: Final = 500_000
"""What other front ends change is seen so much later by a heartbeat that waits."""

INTERVALS: Final = 3
"""So many heartbeats fit into a session."""

_US_PER_S: Final = 1_000_000


class Beat(NamedTuple):
    """What a member says: who it is, and as of which epoch it knows the group.

    It has the shards `owned`, under these assignment epochs; None: what it was told.
    """

    member: str
    epoch: int
    instance: str = ""
    owned: Mapping[ShardKey, int] | None = None


class BeatAnswer(NamedTuple):
    """The group, what of it the member is to read, and how far what is new to it is done."""

    group: ConsumerGroup
    shards: Mapping[ShardKey, int]
    told: Mapping[ShardKey, GroupOffset]


def interval_ms(group: ConsumerGroup) -> int:
    """How soon a member is to come again."""
    return group.session_s * 1_000 // INTERVALS


class Heartbeats:
    """Heartbeats of members, over groups and their offsets. Methods raise CellUnavailableError."""

    def __init__(
        self, registry: GroupRegistry, offsets: Offsets, clock: Clock, waits: Waits
    ) -> None:
        self._registry = registry
        self._offsets = offsets
        self._clock = clock
        self._waits = waits

    async def join(self, group: ConsumerGroup, beat: Beat) -> BeatAnswer:
        """A member comes, and has nothing. Raises RefusedError."""
        limits = await self._registry.room.limits(group.account)

        def joined(known: ConsumerGroup) -> ConsumerGroup:
            holder = group_changes.holder_of_instance(known, beat.instance, beat.member)
            if holder is not None:
                raise RefusedError(
                    UNRELEASED_INSTANCE,
                    f"Instance {beat.instance} is that of member {holder.id}, which has not left.",
                )
            after = group_changes.joined(known, beat.member, beat.instance)
            # Who was there before comes back, also where the quota is less by now.
            if len(after.members) > max(limits.members, len(known.members)):
                raise RefusedError(
                    LIMIT_EXCEEDED,
                    f"Group {known.name} has {len(known.members)} members, and the quota is"
                    f" {limits.members}.",
                )
            return after

        await self._registry.sessions.begin(group, beat.member)
        group = await self._registry.change_together(group, joined)
        return await self._told(group, beat._replace(owned={}))

    async def leave(self, group: ConsumerGroup, beat: Beat) -> None:
        """A member goes, for good or until its session ends; one that is none has gone."""

        def left(known: ConsumerGroup) -> ConsumerGroup:
            if beat.member not in known.members:
                return known
            if beat.epoch == LEAVES_FOR_NOW:
                return group_changes.left_for_now(known, beat.member)
            return group_changes.without(known, [beat.member])

        if beat.epoch == LEAVES_FOR_NOW:
            await self._registry.sessions.go_on(group, beat.member)
        await self._registry.change_together(group, left)
        if beat.epoch == LEAVES:
            await self._registry.sessions.end(group, beat.member)

    async def go_on(self, group: ConsumerGroup, beat: Beat, until_us: int) -> BeatAnswer:
        """A member is there, and waits until `until_us` for something else to do.

        It waits for less where its next heartbeat is due before. Raises RefusedError.
        """
        _check(group, beat)
        if not await self._registry.sessions.go_on(group, beat.member):
            raise _unknown(beat)
        until_us = min(until_us, self._clock.now_us() + interval_ms(group) * 1_000)
        while True:
            seen = self._waits.signals(channel(group))
            group = await self._up_to_date(group, beat)
            now_us = self._clock.now_us()
            if now_us >= until_us or _has_news(group, beat):
                return await self._told(group, beat)
            next_us = min(until_us, now_us + LOOK_US, *self._due_us(group, now_us))
            if not await self._waits.wait_for(channel(group), seen, next_us):
                return await self._told(group, beat)

    def _due_us(self, group: ConsumerGroup, now_us: int) -> list[int]:
        """When something is due for the group."""
        due_us = [self._registry.sessions.next_look_us(group)]
        too_slow_us = group_changes.next_too_slow_us(group)
        if too_slow_us is not None:
            due_us.append(too_slow_us)
        return [time_us for time_us in due_us if time_us > now_us]

    async def _up_to_date(self, group: ConsumerGroup, beat: Beat) -> ConsumerGroup:
        """The group as it is now, without what the member gives up. Raises RefusedError."""

        def released(known: ConsumerGroup) -> ConsumerGroup:
            if beat.owned is None:
                return known
            return group_changes.released(known, beat.member, beat.epoch, beat.owned)

        group = await self._registry.again(group)
        if released(group) is not group or await self._registry.is_due(group):
            group = await self._registry.change_together(group, released)
        _check(group, beat)
        return group

    async def _told(self, group: ConsumerGroup, beat: Beat) -> BeatAnswer:
        """What the member is to read; it takes over what it does not have yet."""
        for _ in range(ATTEMPTS_MAX):
            shards = group.shards_of(beat.member)
            new = [key for key, epoch in shards.items() if _is_new(key, epoch, beat)]
            told = await self._offsets.all_of(
                [self._offsets.take_over(group, key, beat.member, shards[key]) for key in new]
            )
            ended = {
                key: shards[key]
                for key, known in zip(new, told, strict=True)
                if known is not None and known.is_end
            }
            if ended:
                # Whoever read it to its end could not say so to the group.
                group = await self._registry.change(group, partial(group_changes.done, ended=ended))
            elif None in told:
                group = await self._registry.again(group)
            else:
                known = {key: one for key, one in zip(new, told, strict=True) if one is not None}
                return BeatAnswer(group, shards, known)
            _check(group, _as_joined(beat, group))
        raise too_many_changes(group)


def _as_joined(beat: Beat, group: ConsumerGroup) -> Beat:
    """The beat of a member that joins, as of now: it cannot be fenced by its own joining."""
    return beat if beat.epoch != JOINS else beat._replace(epoch=group.epoch)


def _is_new(key: ShardKey, epoch: int, beat: Beat) -> bool:
    """Whether the member does not have the shard yet, or cannot have been told of it."""
    return epoch > beat.epoch if beat.owned is None else beat.owned.get(key) != epoch


def _has_news(group: ConsumerGroup, beat: Beat) -> bool:
    """Whether the member is to read something else than what it has, and cannot know yet."""
    if group.epoch == beat.epoch:
        return False
    return beat.owned is None or group.shards_of(beat.member) != beat.owned


def _check(group: ConsumerGroup, beat: Beat) -> None:
    """Raise RefusedError where the member is none, or is another one by now."""
    member = group.members.get(beat.member)
    if member is None:
        if any(other.before == beat.member for other in group.members.values()):
            raise _fenced(beat)
        raise _unknown(beat)
    if member.left or not member.joined <= beat.epoch <= group.epoch:
        raise _fenced(beat)


def _unknown(beat: Beat) -> RefusedError:
    return RefusedError(
        UNKNOWN_MEMBER, f"Member {beat.member} is none of the group: it has to join again."
    )


def _fenced(beat: Beat) -> RefusedError:
    return RefusedError(
        FENCED_MEMBER,
        f"Member {beat.member} is another one since: it has to drop all shards, and join again.",
    )

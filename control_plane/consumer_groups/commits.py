"""Commits: how far members are in the shards that they have."""

from typing import NamedTuple

from control_plane.consumer_groups.offsets import Offsets
from control_plane.consumer_groups.registry import GroupRegistry
from control_plane.core import group_changes
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.core.group_offset import Commit, GroupOffset
from data_plane.core.errors import STALE_ASSIGNMENT, RefusedError


class CommitOf(NamedTuple):
    """A commit in a shard of the stream of this name and uid."""

    stream: str
    uid: str
    shard: int
    commit: Commit


class Commits:
    """Commits of members, over groups and their offsets. Methods raise CellUnavailableError."""

    def __init__(self, registry: GroupRegistry, offsets: Offsets) -> None:
        self._registry = registry
        self._offsets = offsets

    async def commit(self, group: ConsumerGroup, wanted: CommitOf) -> GroupOffset:
        """Note it: how far the shard is done by now, which may be further.

        The group may be as it was some seconds ago. A commit of the end is answered when the
        shards that follow may be read. Raises RefusedError (StaleAssignment).
        """
        known = await self._try(group, wanted)
        if known is None:
            # The stream, or the group, may have been made anew.
            present = await self._registry.read(group.account, group.region, group.name)
            if _place(present, wanted) != _place(group, wanted):
                group = present
                known = await self._try(group, wanted)
        if known is None:
            raise RefusedError(
                STALE_ASSIGNMENT,
                f"Member {wanted.commit.member} does not have the shard under epoch"
                f" {wanted.commit.epoch}.",
            )
        at = group.position_of(wanted.stream)
        if known.is_end and at is not None:
            ended = {ShardKey(at, wanted.shard): wanted.commit.epoch}
            # As it was some seconds ago the member may not have the shard: nothing would change.
            present = await self._registry.again(group)
            await self._registry.change(present, lambda one: group_changes.done(one, ended))
        return known

    async def _try(self, group: ConsumerGroup, wanted: CommitOf) -> GroupOffset | None:
        at = group.position_of(wanted.stream)
        if at is None or group.streams[at].uid != wanted.uid:
            return None
        return await self._offsets.commit(group, ShardKey(at, wanted.shard), wanted.commit)


def _place(group: ConsumerGroup, wanted: CommitOf) -> tuple[str, str]:
    at = group.position_of(wanted.stream)
    return group.uid, group.streams[at].uid if at is not None else ""

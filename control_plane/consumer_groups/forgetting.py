"""Offsets in shards of which no record is read any more: they go before the shards do."""

from collections.abc import Collection

from control_plane.consumer_groups.offsets import Offsets
from control_plane.consumer_groups.registry import GroupRegistry
from control_plane.core.consumer_group import ShardKey
from data_plane.core.stream import Stream


class Forgetting:
    """Removes offsets of groups. Methods raise CellUnavailableError."""

    def __init__(self, registry: GroupRegistry, offsets: Offsets) -> None:
        self._registry = registry
        self._offsets = offsets

    async def forget(self, stream: Stream, shards: Collection[int]) -> None:
        """Remove what groups have noted of these shards of a stream.

        Costs a look at all groups of its account, and a write for each shard and each group that
        reads the stream; STREAM_GROUPS_MAX bounds those.
        """
        async for group in self._registry.all_of(stream.account, stream.region):
            at = group.position_of(stream.name)
            if at is not None and group.streams[at].uid == stream.uid:
                await self._offsets.remove(group, [ShardKey(at, shard) for shard in shards])

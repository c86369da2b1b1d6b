"""How far a consumer group is behind in each of its streams."""

from typing import NamedTuple

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.core.consumer_group import ConsumerGroup
from control_plane.stream_operations.describe_group import lag_of
from control_plane.stream_operations.grouped import shards_read
from data_plane.streams.lag import Lag


class MeasuredGroup(NamedTuple):
    """Lags by stream, each the sum of its shards and the age of the oldest record of all.

    So many `shards` were looked at: what it costs goes by them.
    """

    lags: dict[str, Lag]
    shards: int

    @property
    def lag(self) -> Lag:
        """That of all streams together."""
        return Lag(
            sum(one.records for one in self.lags.values()),
            max((one.behind_ms for one in self.lags.values()), default=0),
        )


async def measured_group(groups: ConsumerGroups, group: ConsumerGroup) -> MeasuredGroup:
    """Look at all shards that the group reads. Raises CellUnavailableError."""
    group = await groups.registry.as_served(group)
    shards = await shards_read(groups, group)
    offsets = await groups.offsets.read(group, {one.key for one in shards})
    lags = await groups.offsets.all_of([lag_of(groups, one, offsets[one.key]) for one in shards])
    sums: dict[str, Lag] = {}
    for one, lag in zip(shards, lags, strict=True):
        before = sums.get(one.stream.name, Lag(0, 0))
        behind_ms = max(before.behind_ms, lag.behind_ms)
        sums[one.stream.name] = Lag(before.records + lag.records, behind_ms)
    return MeasuredGroup(sums, len(shards))

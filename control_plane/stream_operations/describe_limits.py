"""DescribeLimits: how many shards an account has, and may have."""

from control_plane.stream_operations.shard_room import ShardRoom, count_open
from control_plane.streams import StreamRegistry
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import DESCRIBE_LIMITS_OUTPUT, NOTHING


def describe_limits(registry: StreamRegistry, room: ShardRoom) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        opened, on_demand = await count_open(registry, call.account, call.region)
        limits = await room.limits(call.account)
        return {
            "ShardLimit": limits.shards,
            "OpenShardCount": opened,
            "OnDemandStreamCount": on_demand,
            "OnDemandStreamCountLimit": limits.streams,
        }

    return Operation("DescribeLimits", NOTHING, DESCRIBE_LIMITS_OUTPUT, perform, on_queue=False)

"""DescribeLimits: how many shards an account has, and may have."""

from control_plane.core.stream_definition import ON_DEMAND
from control_plane.streams import StreamRegistry
from data_plane.core.limits import ACCOUNT_SHARDS_MAX, ON_DEMAND_STREAMS_MAX
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import DESCRIBE_LIMITS_OUTPUT, NOTHING


def describe_limits(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        opened, on_demand = await count_open(registry, call)
        return {
            "ShardLimit": ACCOUNT_SHARDS_MAX,
            "OpenShardCount": opened,
            "OnDemandStreamCount": on_demand,
            "OnDemandStreamCountLimit": ON_DEMAND_STREAMS_MAX,
        }

    return Operation("DescribeLimits", NOTHING, DESCRIBE_LIMITS_OUTPUT, perform, on_queue=False)


async def count_open(registry: StreamRegistry, call: Call) -> tuple[int, int]:
    """How many open shards the caller's account has in a region, and streams on demand."""
    opened = on_demand = 0
    async for definition in registry.all_of(call.account, call.region):
        opened += sum(shard.is_open for shard in definition.shards)
        on_demand += definition.mode == ON_DEMAND
    return opened, on_demand

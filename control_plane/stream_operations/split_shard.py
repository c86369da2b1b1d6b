"""SplitShard and MergeShards."""

from control_plane.core import shard_map
from control_plane.core.stream_definition import Resharding, StreamDefinition
from control_plane.stream_operations.named import check_provisioned, on_stream, stream_named
from control_plane.stream_operations.shard_room import ShardRoom
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError, no_such_shard
from data_plane.core.stream import Shard
from data_plane.operations.stream_address import StreamName, named, shard_id, shard_number
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import MERGE_SHARDS_INPUT, NOTHING, SPLIT_SHARD_INPUT


def split_shard(registry: StreamRegistry, room: ShardRoom) -> Operation:
    """The operation on this registry, as far as there is room for shards."""

    async def perform(call: Call) -> Params:
        name = named(call.account, call.region, call.params)
        number = shard_number(call.params["ShardToSplit"], name)
        hash_key = int(call.params["NewStartingHashKey"])

        def plan(definition: StreamDefinition) -> Resharding:
            check_provisioned(definition)
            shard = _open_shard(definition, number, name)
            if not shard.first_hash + 1 < hash_key < shard.last_hash:
                raise RefusedError(
                    INVALID_ARGUMENT,
                    f"NewStartingHashKey {hash_key} used in SplitShard() on shard"
                    f" {shard_id(number)} in stream {name.name} under account {name.account} is not"
                    " both greater than one plus the shard's StartingHashKey"
                    f" {shard.first_hash} and less than the shard's EndingHashKey"
                    f" {shard.last_hash}.",
                )
            return shard_map.split(shard, hash_key, definition.next_shard)

        stream = await stream_named(registry, call)
        await room.check(stream.account, stream.region, len(stream.open_shards) + 1, 1)
        await registry.reshard(stream, plan)
        return {}

    return on_stream("SplitShard", SPLIT_SHARD_INPUT, NOTHING, perform)


def merge_shards(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        name = named(call.account, call.region, call.params)
        lower = shard_number(call.params["ShardToMerge"], name)
        upper = shard_number(call.params["AdjacentShardToMerge"], name)

        def plan(definition: StreamDefinition) -> Resharding:
            check_provisioned(definition)
            shard = _open_shard(definition, lower, name)
            adjacent = _open_shard(definition, upper, name)
            if not shard_map.adjoin(shard, adjacent):
                raise RefusedError(
                    INVALID_ARGUMENT,
                    f"Shards {shard_id(lower)} and {shard_id(upper)} in stream {name.name} under"
                    f" account {name.account} are not an adjacent pair of shards eligible for"
                    " merging",
                )
            return shard_map.merge(shard, adjacent, definition.next_shard)

        await registry.reshard(await stream_named(registry, call), plan)
        return {}

    return on_stream("MergeShards", MERGE_SHARDS_INPUT, NOTHING, perform)


def _open_shard(definition: StreamDefinition, number: int, name: StreamName) -> Shard:
    """The shard, if it may be changed. Raises RefusedError."""
    shard = next((one for one in definition.shards if one.number == number), None)
    if shard is None:
        raise no_such_shard(shard_id(number), name.name, name.account)
    if not shard.is_open:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Shard {shard_id(number)} in stream {name.name} under account {name.account} has"
            " already been merged or split, and thus is not eligible for merging or splitting.",
        )
    return shard

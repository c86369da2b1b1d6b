"""UpdateShardCount: as many shards of one size, by splits and merges."""

from control_plane.core import shard_map
from control_plane.core.stream_definition import Resharding, StreamDefinition
from control_plane.stream_operations.named import check_provisioned, counts, on_stream, stream_named
from control_plane.stream_operations.shard_room import ShardRoom
from control_plane.streams import StreamRegistry
from data_plane.core.errors import LIMIT_EXCEEDED, RefusedError
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import UPDATE_SHARD_COUNT_INPUT, UPDATE_SHARD_COUNT_OUTPUT


def update_shard_count(registry: StreamRegistry, room: ShardRoom) -> Operation:
    """The operation on this registry, as far as there is room for shards."""

    async def perform(call: Call) -> Params:
        target = call.params["TargetShardCount"]
        stream = await stream_named(registry, call)
        before = len(stream.open_shards)
        if target <= 2 * before:
            await room.check(stream.account, stream.region, target, target - before)

        def plan(definition: StreamDefinition) -> Resharding | None:
            nonlocal before
            check_provisioned(definition)
            opened = [shard for shard in definition.shards if shard.is_open]
            before = len(opened)
            _check(before, target)
            return shard_map.evened_out(opened, target, definition.next_shard)

        await registry.reshard(stream, plan)
        return {
            "StreamName": stream.name,
            "StreamARN": stream.arn,
            "CurrentShardCount": before,
            "TargetShardCount": target,
        }

    return on_stream(
        "UpdateShardCount",
        UPDATE_SHARD_COUNT_INPUT,
        UPDATE_SHARD_COUNT_OUTPUT,
        perform,
        counts("TargetShardCount"),
    )


def _check(opened: int, target: int) -> None:
    """Raise RefusedError (LimitExceeded) for more than twice as many shards, or less than half."""
    if target > 2 * opened:
        way = "up over double"
    elif 2 * target < opened:
        way = "down below half"
    else:
        return
    raise RefusedError(
        LIMIT_EXCEEDED,
        f"UpdateShardCount cannot scale {way} your current open shard count. Current open shard"
        f" count: {opened}, Target shard count: {target}",
    )

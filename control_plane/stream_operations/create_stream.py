"""CreateStream: a new stream, which is there at once."""

from collections.abc import Sequence
from typing import Final

from control_plane.core.stream_definition import ON_DEMAND, PROVISIONED
from control_plane.core.stream_tags import check_tags
from control_plane.stream_operations.named import kind_of
from control_plane.stream_operations.shard_room import ShardRoom
from control_plane.streams import StreamRegistry, stream_exists
from data_plane.core.errors import (
    INVALID_ARGUMENT,
    LIMIT_EXCEEDED,
    OVER_LIMIT,
    VALIDATION,
    RefusedError,
)
from data_plane.operations.stream_address import StreamName, on_stream
from data_plane.protocol.operation import Call, Operation, Params, Permission, Work
from data_plane.protocol.stream_shapes import CREATE_STREAM_INPUT, NOTHING

ON_DEMAND_SHARDS: Final = 4
"""As many as AWS gives a stream on demand."""


def create_stream(registry: StreamRegistry, room: ShardRoom) -> Operation:
    """The operation on this registry, as far as there is room for shards."""

    async def perform(call: Call) -> Params:
        params = call.params
        count = params.get("ShardCount")
        mode = (params.get("StreamModeDetails") or {}).get("StreamMode")
        if mode == ON_DEMAND and count is not None:
            raise RefusedError(VALIDATION, "ShardCount is not expected when StreamMode=ON_DEMAND")
        if mode == PROVISIONED and count is None:
            raise RefusedError(VALIDATION, "ShardCount is required when StreamMode=PROVISIONED")
        mode = mode or (ON_DEMAND if count is None else PROVISIONED)
        spreads = params.get("RecordDistributionStrategy") == "AUTO"
        if spreads and mode == PROVISIONED:
            raise RefusedError(
                INVALID_ARGUMENT, "RecordDistributionStrategy AUTO needs a stream on demand."
            )
        shards = count or ON_DEMAND_SHARDS
        tags = params.get("Tags") or {}
        check_tags(tags, params["StreamName"], call.account)
        try:
            await room.check(call.account, call.region, shards, shards)
            await registry.create(
                registry.define(
                    account=call.account,
                    region=call.region,
                    name=params["StreamName"],
                    shards=shards,
                    mode=mode,
                    kept_hours=params.get("TidegateRetentionHoursMax", 0),
                    record_kib_max=params.get("MaxRecordSizeInKiB", 1024),
                    spreads=spreads,
                    tags=tags,
                )
            )
        except RefusedError as refusal:
            # A name that is taken is told first, whether there is room or not.
            is_of_room = refusal.fault in {LIMIT_EXCEEDED, OVER_LIMIT}
            if is_of_room and await registry.read(call.account, call.region, params["StreamName"]):
                raise stream_exists(params["StreamName"], call.account) from None
            raise
        call.stored.kind = kind_of(mode)
        return {}

    return Operation(
        "CreateStream",
        CREATE_STREAM_INPUT,
        NOTHING,
        perform,
        on_queue=False,
        measure=lambda params, _output: Work(messages=params.get("ShardCount") or ON_DEMAND_SHARDS),
        permissions=_permissions,
    )


async def _permissions(account: str, region: str, params: Params) -> Sequence[Permission]:
    """To create the stream, and to give it tags where some are given."""
    name = StreamName(account, region, params.get("StreamName") or "")
    actions = ("CreateStream", "AddTagsToStream") if params.get("Tags") else ("CreateStream",)
    return [on_stream(action, name) for action in actions]

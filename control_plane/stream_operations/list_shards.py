"""ListShards: a stream's shards in order, by a filter, a page at a time."""

import json
from collections.abc import Sequence
from typing import Any, Final

from control_plane.core import shard_map
from control_plane.core.stream_definition import StreamDefinition
from control_plane.stream_operations import paging
from control_plane.stream_operations.named import definition_of
from control_plane.stream_operations.rendering import listed, shard_description
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError, stream_not_found
from data_plane.core.sealing import TokenSeal
from data_plane.core.stream import Shard
from data_plane.operations.stream_address import StreamName, named, on_stream, shard_number
from data_plane.protocol.operation import Call, Operation, Params, Permission
from data_plane.protocol.stream_shapes import LIST_SHARDS_INPUT, LIST_SHARDS_OUTPUT

SHARDS_MAX: Final = 1_000
_SCOPE: Final = "shards "
_NOT_WITH_TOKEN: Final = ("StreamName", "ExclusiveStartShardId", "StreamCreationTimestamp")


def list_shards(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""
    seal = registry.token_seal(paging.PURPOSE)

    async def perform(call: Call) -> Params:
        first, wanted, definition = await _asked_for(registry, seal, call)
        horizon_us = registry.readable_above_us(definition)
        shards = [
            shard for shard in _filtered(definition, wanted, horizon_us) if shard.number >= first
        ]
        limit = min(call.params.get("MaxResults", SHARDS_MAX), SHARDS_MAX)
        output: dict[str, object] = {"Shards": [shard_description(one) for one in shards[:limit]]}
        if len(shards) > limit:
            listed_of = [definition.account, definition.name, definition.uid, wanted]
            scope = _SCOPE + json.dumps(listed_of)
            last = str(shards[limit - 1].number)
            output["NextToken"] = paging.to_text(seal, call, scope, last)
        return output

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        token = params.get("NextToken")
        if not token or params.get("StreamName"):
            return [on_stream("ListShards", named(account, region, params))]
        owner, stream, *_ = paging.list_of(seal, account, region, token, _SCOPE)
        return [on_stream("ListShards", StreamName(owner, region, stream))]

    return Operation(
        "ListShards",
        LIST_SHARDS_INPUT,
        LIST_SHARDS_OUTPUT,
        perform,
        on_queue=False,
        permissions=needed,
    )


async def _asked_for(
    registry: StreamRegistry, seal: TokenSeal, call: Call
) -> tuple[int, dict[str, Any], StreamDefinition]:
    """The first shard, the filter, and the stream. Raises RefusedError."""
    params = call.params
    token = params.get("NextToken")
    given = [name for name in _NOT_WITH_TOKEN if params.get(name) is not None]
    if token is None:
        if not given and params.get("StreamARN") is None:
            raise RefusedError(
                INVALID_ARGUMENT, "Either NextToken or StreamName should be provided."
            )
        name = named(call.account, call.region, params)
        after = params.get("ExclusiveStartShardId")
        first = shard_number(after, name) + 1 if after is not None else 0
        definition = await definition_of(registry, call)
        made_ms = params.get("StreamCreationTimestamp")
        if made_ms is not None and made_ms // 1_000 != definition.created_ms // 1_000:
            raise stream_not_found(name.name, name.account)
        wanted = params.get("ShardFilter") or {}
        _check_filter(wanted, name)
        return first, wanted, definition
    if given:
        raise RefusedError(
            INVALID_ARGUMENT, f"NextToken and {given[0]} cannot be provided together."
        )
    (owner, stream, uid, wanted), last = paging.read_list(seal, call, token, _SCOPE)
    name = StreamName(owner, call.region, stream)
    if params.get("StreamARN") is not None and named(call.account, call.region, params) != name:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"NextToken and StreamARN {params['StreamARN']} name different streams.",
        )
    found = await registry.read(*name)
    if found is None or found.uid != uid:
        raise stream_not_found(stream, owner)
    return int(last) + 1, wanted, found


def _check_filter(wanted: dict[str, Any], name: StreamName) -> None:
    kind = wanted.get("Type")
    if kind == "AFTER_SHARD_ID":
        if wanted.get("ShardId") is None:
            raise RefusedError(
                INVALID_ARGUMENT, "ShardId must be specified when Type is AFTER_SHARD_ID."
            )
        shard_number(wanted["ShardId"], name)
    elif kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP") and wanted.get("Timestamp") is None:
        raise RefusedError(INVALID_ARGUMENT, f"Timestamp must be specified when Type is {kind}.")


def _filtered(definition: StreamDefinition, wanted: dict[str, Any], horizon_us: int) -> list[Shard]:
    shards = listed(definition, horizon_us)
    time_us = max(wanted.get("Timestamp") or 0, 0) * 1_000
    match wanted.get("Type"):
        case "AFTER_SHARD_ID":
            name = StreamName(definition.account, definition.region, definition.name)
            after = shard_number(wanted["ShardId"], name)
            return [shard for shard in shards if shard.number > after]
        case "AT_TRIM_HORIZON":
            return _open_at(definition, shards, max(horizon_us, definition.shards_since_us))
        case "AT_LATEST":
            return [shard for shard in shards if shard.is_open]
        case "AT_TIMESTAMP":
            return _open_at(definition, shards, time_us)
        case "FROM_TIMESTAMP":
            return [one for one in shards if one.is_open or one.closed_us >= time_us]
        case _:
            return shards


def _open_at(definition: StreamDefinition, shards: Sequence[Shard], time_us: int) -> list[Shard]:
    found = shard_map.open_at(definition.shards, time_us)
    return [shard for shard in shards if shard.number in found]

"""TidegateGetOffsets and TidegateResetOffsets."""

import json
from collections.abc import Sequence
from typing import Any, Final

from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.consumer_groups.positions import ResetShard, StartingPosition
from control_plane.core.consumer_group import ConsumerGroup, ShardKey
from control_plane.core.group_offset import GroupOffset
from control_plane.stream_operations import paging
from control_plane.stream_operations.grouped import (
    GroupShard,
    key_of,
    offset_of,
    operation,
    shard_named,
    shards_read,
    told_offset,
    told_position,
    told_shard,
)
from control_plane.stream_operations.starting import time_of
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.sealing import TokenSeal
from data_plane.core.stream import Shard, Stream
from data_plane.protocol.group_shapes import (
    GET_OFFSETS_INPUT,
    GET_OFFSETS_OUTPUT,
    RESET_OFFSETS_INPUT,
    RESET_OFFSETS_OUTPUT,
)
from data_plane.protocol.operation import Call, Operation, Params

SHARDS_MAX: Final = 100
"""Shards on a page."""

_ONE_SHARD: Final = "A SequenceNumber is one of a single shard."
_BY_NUMBER: Final = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


def get_offsets(groups: ConsumerGroups, seal: TokenSeal) -> Operation:
    """The operation on these groups."""

    async def perform(call: Call) -> Params:
        group = await groups.registry.read(call.account, call.region, call.params["GroupName"])
        group = await groups.registry.as_served(group)
        entries = call.params.get("Shards")
        if entries is None:
            page, token = page_of(seal, call, group, await shards_read(groups, group))
        else:
            found = [await shard_named(groups, call, entry) for entry in entries]
            page = [GroupShard(key_of(group, *one), *one) for one in found]
            token = {}
        offsets = await groups.offsets.read(group, {one.key for one in page})
        return {"Offsets": [_told(one, offsets[one.key]) for one in page], **token}

    return operation("TidegateGetOffsets", GET_OFFSETS_INPUT, GET_OFFSETS_OUTPUT, perform)


def page_of(
    seal: TokenSeal, call: Call, group: ConsumerGroup, shards: Sequence[GroupShard]
) -> tuple[list[GroupShard], dict[str, str]]:
    """The page of these shards that a call asks for, and the NextToken behind it, if there is one.

    Raises RefusedError for a token that is none.
    """
    scope = f"shards of group {group.uid}"
    token = call.params.get("NextToken")
    limit = call.params.get("MaxResults", SHARDS_MAX)
    if token is not None:
        after = ShardKey(*json.loads(paging.read(seal, call, scope, token)))
        shards = [one for one in shards if one.key > after]
    page = list(shards[:limit])
    if len(shards) <= limit:
        return page, {}
    return page, {"NextToken": paging.to_text(seal, call, scope, json.dumps(page[-1].key))}


def _told(one: GroupShard, known: GroupOffset) -> dict[str, Any]:
    told: dict[str, Any] = {**told_shard(one.stream, one.shard), **told_offset(one.shard, known)}
    if known.epoch:
        told["AssignmentEpoch"] = known.epoch
    if known.committed_ms:
        told |= {"Metadata": known.metadata, "CommitTimestamp": known.committed_ms}
    return told


def reset_offsets(groups: ConsumerGroups) -> Operation:
    """The operation on these groups: one without members begins elsewhere, or it is told how."""

    async def perform(call: Call) -> Params:
        group = await groups.registry.read(call.account, call.region, call.params["GroupName"])
        given = call.params["StartingPosition"]
        entries = call.params.get("Shards")
        is_dry = call.params.get("DryRun", False)
        kind, time_us = given["Type"], time_of(given, call.now_us)
        if (kind in _BY_NUMBER) != ("SequenceNumber" in given):
            raise RefusedError(
                INVALID_ARGUMENT,
                "A StartingPosition has a SequenceNumber if its Type names one.",
            )
        if entries is None:
            position = StartingPosition(kind, time_us)
            streams = await _streams_of(groups, group, position)
            if is_dry:
                return _previewed(await groups.positions.preview(group, streams, position))
            await groups.positions.reset(group, streams, position)
            return {}
        shards = [await shard_named(groups, call, entry) for entry in entries]
        for stream, shard in shards:
            key_of(group, stream, shard)
        position = StartingPosition(kind, time_us, _offset(shards, given))
        named = [(stream, shard.number) for stream, shard in shards]
        if is_dry:
            return _previewed(await groups.positions.preview_shards(group, named, position))
        await groups.positions.reset_shards(group, named, position)
        return {}

    return operation("TidegateResetOffsets", RESET_OFFSETS_INPUT, RESET_OFFSETS_OUTPUT, perform)


async def _streams_of(
    groups: ConsumerGroups, group: ConsumerGroup, position: StartingPosition
) -> list[Stream]:
    """The streams of a group that there are, which are to be read from there."""
    if position.kind in _BY_NUMBER:
        raise RefusedError(INVALID_ARGUMENT, _ONE_SHARD)
    found = [
        await groups.streams.find(group.account, group.region, one.name) for one in group.streams
    ]
    return [await groups.streams.renewed(stream) for stream in found if stream is not None]


def _previewed(shards: Sequence[ResetShard]) -> Params:
    return {
        "Shards": [
            {
                **told_shard(one.stream, one.shard),
                **told_offset(one.shard, one.known),
                **(
                    {"Position": told_position(one.shard, one.then)} if one.then is not None else {}
                ),
                "LagRecords": one.lag.records,
                "LagRecordsAfter": one.lag_then.records,
                "MillisBehindLatestAfter": one.lag_then.behind_ms,
            }
            for one in shards
        ]
    }


def _offset(shards: Sequence[tuple[Stream, Shard]], given: Params) -> int:
    """Up to which offset all is done, by the sequence number of a position; 0 where it has none."""
    text = given.get("SequenceNumber")
    if text is None:
        return 0
    if len(shards) != 1:
        raise RefusedError(INVALID_ARGUMENT, _ONE_SHARD)
    offset = offset_of(*shards[0], text)
    return offset if given["Type"] == "AFTER_SEQUENCE_NUMBER" else max(0, offset - 1)

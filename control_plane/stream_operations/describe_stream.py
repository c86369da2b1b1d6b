"""DescribeStream and DescribeStreamSummary."""

from typing import Final

from control_plane.core.stream_definition import CREATING
from control_plane.kinesis_queues import KinesisQueues, readers_of
from control_plane.stream_operations.named import definition_of, on_stream
from control_plane.stream_operations.rendering import description, listed, summary
from control_plane.streams import StreamRegistry
from data_plane.operations.stream_address import named, shard_number
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import (
    DESCRIBE_STREAM_INPUT,
    DESCRIBE_STREAM_OUTPUT,
    DESCRIBE_STREAM_SUMMARY_INPUT,
    DESCRIBE_STREAM_SUMMARY_OUTPUT,
)

SHARDS_MAX: Final = 100
"""Shards on a page."""


def describe_stream(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        name = named(call.account, call.region, call.params)
        after = call.params.get("ExclusiveStartShardId")
        first = shard_number(after, name) + 1 if after is not None else 0
        definition = await definition_of(registry, call)
        shards = [
            shard
            for shard in listed(definition, registry.readable_above_us(definition))
            if shard.number >= first
        ]
        limit = min(call.params.get("Limit", SHARDS_MAX), SHARDS_MAX)
        if definition.status_at(call.now_us) == CREATING:
            shards = []
        page, has_more = shards[:limit], len(shards) > limit
        told = description(definition, page, call.now_us, has_more=has_more)
        return {"StreamDescription": told}

    return on_stream("DescribeStream", DESCRIBE_STREAM_INPUT, DESCRIBE_STREAM_OUTPUT, perform)


def describe_stream_summary(
    registry: StreamRegistry, queues: KinesisQueues | None = None
) -> Operation:
    """The operation on this registry, which knows these queues."""

    async def perform(call: Call) -> Params:
        found = await definition_of(registry, call)
        count = len(await readers_of(queues, found))
        return {"StreamDescriptionSummary": summary(found, call.now_us, count)}

    return on_stream(
        "DescribeStreamSummary",
        DESCRIBE_STREAM_SUMMARY_INPUT,
        DESCRIBE_STREAM_SUMMARY_OUTPUT,
        perform,
    )

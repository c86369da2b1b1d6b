"""Tags of streams, by the older three actions and by the newer three."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from control_plane.core import stream_tags
from control_plane.core.stream_definition import StreamDefinition
from control_plane.kinesis_queues import KinesisQueues
from control_plane.stream_operations.named import (
    definition_by_arn,
    definition_of,
    on_resource,
    on_stream,
    stream_named,
)
from control_plane.stream_operations.queue_resource import definition_of as definition_of_queue
from control_plane.stream_operations.queue_resource import queue_by_arn, tag, untag
from control_plane.streams import StreamRegistry
from data_plane.core.limits import TAGS_MAX
from data_plane.core.stream import Stream
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import (
    ADD_TAGS_TO_STREAM_INPUT,
    LIST_TAGS_FOR_RESOURCE_INPUT,
    LIST_TAGS_FOR_RESOURCE_OUTPUT,
    LIST_TAGS_FOR_STREAM_INPUT,
    LIST_TAGS_FOR_STREAM_OUTPUT,
    NOTHING,
    REMOVE_TAGS_FROM_STREAM_INPUT,
    TAG_RESOURCE_INPUT,
    UNTAG_RESOURCE_INPUT,
)

_Tags = Mapping[str, str]
_Known = Stream | StreamDefinition


def add_tags_to_stream(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        await _add(registry, await stream_named(registry, call), call.params["Tags"])
        return {}

    return on_stream("AddTagsToStream", ADD_TAGS_TO_STREAM_INPUT, NOTHING, perform)


def remove_tags_from_stream(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        await _remove(registry, await stream_named(registry, call), call.params["TagKeys"])
        return {}

    return on_stream("RemoveTagsFromStream", REMOVE_TAGS_FROM_STREAM_INPUT, NOTHING, perform)


def list_tags_for_stream(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        tags = (await definition_of(registry, call)).tags
        after = call.params.get("ExclusiveStartTagKey") or ""
        limit = call.params.get("Limit", TAGS_MAX)
        behind = [(key, value) for key, value in sorted(tags.items()) if key > after]
        return {"Tags": _pairs(behind[:limit]), "HasMoreTags": len(behind) > limit}

    return on_stream(
        "ListTagsForStream", LIST_TAGS_FOR_STREAM_INPUT, LIST_TAGS_FOR_STREAM_OUTPUT, perform
    )


def tag_resource(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            await tag(queues, queue, call.params["Tags"])
            return {}
        await _add(registry, await definition_by_arn(registry, call), call.params["Tags"])
        return {}

    return on_resource("TagResource", TAG_RESOURCE_INPUT, NOTHING, perform)


def untag_resource(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            await untag(queues, queue, call.params["TagKeys"])
            return {}
        await _remove(registry, await definition_by_arn(registry, call), call.params["TagKeys"])
        return {}

    return on_resource("UntagResource", UNTAG_RESOURCE_INPUT, NOTHING, perform)


def list_tags_for_resource(
    registry: StreamRegistry, queues: KinesisQueues | None = None
) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            return {"Tags": _pairs(sorted((await definition_of_queue(queues, queue)).tags.items()))}
        return {"Tags": _pairs(sorted((await definition_by_arn(registry, call)).tags.items()))}

    return on_resource(
        "ListTagsForResource", LIST_TAGS_FOR_RESOURCE_INPUT, LIST_TAGS_FOR_RESOURCE_OUTPUT, perform
    )


async def _add(registry: StreamRegistry, stream: _Known, tags: _Tags) -> None:
    stream_tags.check_tags(tags, stream.name, stream.account)

    def tagged(definition: StreamDefinition) -> StreamDefinition:
        merged = {**definition.tags, **tags}
        stream_tags.check_count(merged, stream.name, stream.account)
        return replace(definition, tags=merged)

    await registry.change(stream, tagged)


async def _remove(registry: StreamRegistry, stream: _Known, keys: Sequence[str]) -> None:
    await registry.change(
        stream, lambda known: replace(known, tags=stream_tags.without(known.tags, keys))
    )


def _pairs(tags: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags]

"""TagQueue, UntagQueue, ListQueueTags."""

from dataclasses import replace

from control_plane.core import queue_tags
from control_plane.core.definition import Definition
from control_plane.operations.addressing import queue_of
from control_plane.queue_shapes import (
    LIST_QUEUE_TAGS_OUTPUT,
    NOTHING,
    ONLY_QUEUE_URL,
    TAG_QUEUE_INPUT,
    UNTAG_QUEUE_INPUT,
)
from control_plane.registry import Registry
from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    RefusedError,
    missing_parameter,
    queue_does_not_exist,
)
from data_plane.protocol.operation import Call, Operation, Params


def tag_queue(registry: Registry) -> Operation:
    """TagQueue on this registry: a key that exists gets the new value."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        added = call.params.get("Tags") or {}
        if not added:
            raise missing_parameter("Tags")
        queue_tags.check_tags(added)

        def edit(definition: Definition) -> Definition:
            return replace(
                definition, tags=queue_tags.merged(definition.tags, added, definition.name)
            )

        await registry.change(queue, edit)
        return {}

    return Operation("TagQueue", TAG_QUEUE_INPUT, NOTHING, perform)


def untag_queue(registry: Registry) -> Operation:
    """UntagQueue on this registry: keys that are not there do not matter."""

    async def perform(call: Call) -> Params:
        removed = set(call.params.get("TagKeys") or ())
        if not removed:
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "Tag keys must be between 1 and 128 characters in length.",
            )

        def edit(definition: Definition) -> Definition:
            kept = {key: value for key, value in definition.tags.items() if key not in removed}
            return replace(definition, tags=kept)

        await registry.change(queue_of(call), edit)
        return {}

    return Operation("UntagQueue", UNTAG_QUEUE_INPUT, NOTHING, perform)


def list_queue_tags(registry: Registry) -> Operation:
    """ListQueueTags on this registry; a queue without tags answers without the member."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        definition = await registry.read(queue.account, queue.region, queue.name)
        if definition is None or definition.uid != queue.uid:
            raise queue_does_not_exist()
        return {"Tags": dict(definition.tags)} if definition.tags else {}

    return Operation("ListQueueTags", ONLY_QUEUE_URL, LIST_QUEUE_TAGS_OUTPUT, perform)

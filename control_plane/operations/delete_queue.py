"""DeleteQueue: the definition becomes a tombstone; a sweep removes the messages later."""

from control_plane.operations.addressing import queue_of
from control_plane.operations.queue_messages import QueueMessages
from control_plane.queue_shapes import NOTHING, ONLY_QUEUE_URL
from control_plane.registry import Registry
from data_plane.protocol.operation import Call, Operation, Params


def delete_queue(registry: Registry, messages: QueueMessages) -> Operation:
    """The operation on this registry and these messages."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        await registry.delete(queue, call.now_us)
        messages.dropped(queue)
        return {}

    return Operation("DeleteQueue", ONLY_QUEUE_URL, NOTHING, perform)

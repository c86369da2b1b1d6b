"""PurgeQueue: every message sent so far counts as gone, from the moment the stamp is stored.

A sweep drops them later.
"""

from control_plane.operations.addressing import queue_of
from control_plane.operations.queue_messages import QueueMessages
from control_plane.queue_shapes import NOTHING, ONLY_QUEUE_URL
from control_plane.registry import Registry
from data_plane.protocol.operation import Call, Operation, Params


def purge_queue(registry: Registry, messages: QueueMessages) -> Operation:
    """The operation on this registry and these messages."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        await registry.check_purge(queue, call.now_us)
        await registry.purge(queue, await messages.purge(queue))
        return {}

    return Operation("PurgeQueue", ONLY_QUEUE_URL, NOTHING, perform)

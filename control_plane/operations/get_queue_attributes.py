"""GetQueueAttributes: what was set, what holds by default, and the approximate counts."""

from control_plane.core.queue_attributes import ALL, COUNT_ATTRIBUTES, render
from control_plane.operations.addressing import queue_of
from control_plane.operations.queue_messages import QueueMessages
from control_plane.queue_shapes import GET_QUEUE_ATTRIBUTES_INPUT, GET_QUEUE_ATTRIBUTES_OUTPUT
from data_plane.core.queue import Queue
from data_plane.protocol.operation import Call, Operation, Params


def get_queue_attributes(messages: QueueMessages) -> Operation:
    """The operation on these messages; the definition comes with the call."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        names = call.params.get("AttributeNames") or []
        read_only = _facts(queue)
        attributes = queue.attributes
        render(attributes, read_only, names, fifo=queue.fifo)
        if ALL in names or not COUNT_ATTRIBUTES.isdisjoint(names):
            counts = await messages.counts(queue)
            read_only |= {
                "ApproximateNumberOfMessages": str(counts.visible),
                "ApproximateNumberOfMessagesNotVisible": str(counts.in_flight),
                "ApproximateNumberOfMessagesDelayed": str(counts.delayed),
            }
        if queue.reads_stream:
            retention_s = await messages.retention_s(queue)
            attributes = {**attributes, "MessageRetentionPeriod": str(retention_s)}
        shown = render(attributes, read_only, names, fifo=queue.fifo)
        return {"Attributes": shown} if shown else {}

    return Operation(
        "GetQueueAttributes", GET_QUEUE_ATTRIBUTES_INPUT, GET_QUEUE_ATTRIBUTES_OUTPUT, perform
    )


def _facts(queue: Queue) -> dict[str, str]:
    return {
        "QueueArn": queue.arn,
        "CreatedTimestamp": str(queue.created_s),
        "LastModifiedTimestamp": str(queue.modified_s),
    }

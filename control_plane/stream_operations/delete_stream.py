"""DeleteStream: the definition goes; a sweep removes the records later."""

from control_plane.kinesis_queues import KinesisQueues, readers_of
from control_plane.stream_operations.named import on_stream, stream_named
from control_plane.streams import StreamRegistry
from data_plane.core.errors import RESOURCE_IN_USE, RefusedError
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import DELETE_STREAM_INPUT, NOTHING


def delete_stream(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry. Queues that read the stream have to go before."""

    async def perform(call: Call) -> Params:
        stream = await stream_named(registry, call)
        if await readers_of(queues, stream):
            raise RefusedError(
                RESOURCE_IN_USE,
                f"Stream {stream.name} under account {stream.account} has queues. Delete them"
                " first.",
            )
        await registry.delete(stream)
        return {}

    return on_stream("DeleteStream", DELETE_STREAM_INPUT, NOTHING, perform)

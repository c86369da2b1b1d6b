"""DeleteStream: the definition goes; a sweep removes the records later."""

from control_plane.stream_operations.named import on_stream, stream_named
from control_plane.streams import StreamRegistry
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import DELETE_STREAM_INPUT, NOTHING


def delete_stream(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        await registry.delete(await stream_named(registry, call))
        return {}

    return on_stream("DeleteStream", DELETE_STREAM_INPUT, NOTHING, perform)

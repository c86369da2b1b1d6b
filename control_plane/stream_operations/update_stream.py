"""UpdateStreamMode, UpdateStreamRecordDistributionStrategy and UpdateMaxRecordSize."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from control_plane.core.stream_definition import ON_DEMAND, StreamDefinition
from control_plane.kinesis_queues import KinesisQueues, readers_of
from control_plane.stream_operations.named import begun_update, kind_of, on_stream, stream_named
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, RESOURCE_IN_USE, RefusedError
from data_plane.core.stream import Stream
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.shapes import Structure
from data_plane.protocol.stream_shapes import (
    NOTHING,
    UPDATE_DISTRIBUTION_INPUT,
    UPDATE_MAX_RECORD_SIZE_INPUT,
    UPDATE_STREAM_MODE_INPUT,
)

_MODE: Final = "UpdateStreamMode"
_Edit = Callable[[StreamDefinition, Params], StreamDefinition]
_Check = Callable[[Stream, Params], Awaitable[None]]


def update_stream_mode(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry. The shards stay as they are.

    Queues read streams on demand alone: they have to go before.
    """

    def edit(definition: StreamDefinition, params: Params) -> StreamDefinition:
        mode = params["StreamModeDetails"]["StreamMode"]
        spreads = definition.spreads and mode == ON_DEMAND
        return replace(definition, mode=mode, spreads=spreads)

    async def check(stream: Stream, params: Params) -> None:
        mode = params["StreamModeDetails"]["StreamMode"]
        if mode != ON_DEMAND and await readers_of(queues, stream):
            raise RefusedError(
                RESOURCE_IN_USE,
                f"Stream {stream.name} under account {stream.account} has queues, which need"
                " On-Demand mode.",
            )

    return _changing(registry, _MODE, UPDATE_STREAM_MODE_INPUT, edit, check)


def update_stream_record_distribution_strategy(registry: StreamRegistry) -> Operation:
    """The operation on this registry. What is stored stays where it is."""

    def edit(definition: StreamDefinition, params: Params) -> StreamDefinition:
        spreads = params["RecordDistributionStrategy"] == "AUTO"
        if spreads and definition.mode != ON_DEMAND:
            raise RefusedError(
                INVALID_ARGUMENT, "RecordDistributionStrategy AUTO needs a stream on demand."
            )
        return replace(definition, spreads=spreads)

    return _changing(
        registry,
        "UpdateStreamRecordDistributionStrategy",
        UPDATE_DISTRIBUTION_INPUT,
        edit,
    )


def update_max_record_size(registry: StreamRegistry) -> Operation:
    """The operation on this registry. Records that are stored stay readable."""

    def edit(definition: StreamDefinition, params: Params) -> StreamDefinition:
        return replace(definition, record_kib_max=params["MaxRecordSizeInKiB"])

    return _changing(registry, "UpdateMaxRecordSize", UPDATE_MAX_RECORD_SIZE_INPUT, edit)


async def _check_nothing(_stream: Stream, _params: Params) -> None:
    return


def _changing(
    registry: StreamRegistry,
    name: str,
    input_: Structure,
    edit: _Edit,
    check: _Check = _check_nothing,
) -> Operation:
    async def perform(call: Call) -> Params:
        def edited(definition: StreamDefinition) -> StreamDefinition:
            definition = begun_update(registry, definition, call.now_us)
            return edit(definition, call.params)

        stream = await stream_named(registry, call)
        await check(stream, call.params)
        changed = await registry.change(stream, edited)
        if name == _MODE:
            call.stored.kind = kind_of(changed.mode)
        return {}

    return on_stream(name, input_, NOTHING, perform)

"""StartStreamEncryption and StopStreamEncryption: which KMS key records are sealed under."""

from dataclasses import replace

from control_plane.core.stream_definition import StreamDefinition
from control_plane.stream_operations.named import begun_update, on_stream, stream_named
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import NOTHING, STREAM_ENCRYPTION_INPUT


def start_stream_encryption(registry: StreamRegistry) -> Operation:
    """The operation on this registry. What is stored stays sealed as it is."""

    async def perform(call: Call) -> Params:
        await _seal_under(registry, call, call.params["KeyId"])
        return {}

    return on_stream("StartStreamEncryption", STREAM_ENCRYPTION_INPUT, NOTHING, perform)


def stop_stream_encryption(registry: StreamRegistry) -> Operation:
    """The operation on this registry: records are sealed under the service's own key again."""

    async def perform(call: Call) -> Params:
        await _seal_under(registry, call, "")
        return {}

    return on_stream("StopStreamEncryption", STREAM_ENCRYPTION_INPUT, NOTHING, perform)


async def _seal_under(registry: StreamRegistry, call: Call, key_id: str) -> None:
    def sealed(definition: StreamDefinition) -> StreamDefinition:
        definition = begun_update(registry, definition, call.now_us)
        if call.params["EncryptionType"] != "KMS":
            raise RefusedError(INVALID_ARGUMENT, "EncryptionType must be KMS.")
        return replace(definition, master_key_id=key_id)

    await registry.change(await stream_named(registry, call), sealed)

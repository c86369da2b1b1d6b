"""What operations on one stream have in common: which it is, and who may ask."""

from collections.abc import Awaitable, Callable, Sequence

from control_plane.core.stream_definition import ON_DEMAND, StreamDefinition
from control_plane.stream_operations.queue_resource import RESOURCE_ARN
from control_plane.streams import StreamRegistry, check_active
from data_plane.core import message as kinds
from data_plane.core.errors import VALIDATION, RefusedError, stream_not_found
from data_plane.core.stream import Stream
from data_plane.operations.kinesis_queue import named as named_queue
from data_plane.operations.kinesis_queue import on_queue, read_queue_arn
from data_plane.operations.stream_address import StreamName, named, permission
from data_plane.operations.stream_address import on_stream as permission_on
from data_plane.protocol.operation import Call, Operation, Params, Permission, Work, no_work
from data_plane.protocol.shapes import Structure


async def definition_of(registry: StreamRegistry, call: Call) -> StreamDefinition:
    """The definition of the stream that a call names. Raises RefusedError (ResourceNotFound)."""
    return await _stored(registry, named(call.account, call.region, call.params))


async def stream_named(registry: StreamRegistry, call: Call) -> Stream:
    """The stream that a call names, as it is stored now. Raises RefusedError (ResourceNotFound)."""
    return registry.stream(await definition_of(registry, call))


async def _stored(registry: StreamRegistry, name: StreamName) -> StreamDefinition:
    definition = await registry.read(*name)
    if definition is None:
        raise stream_not_found(name.name, name.account)
    return definition


def begun_update(
    registry: StreamRegistry, definition: StreamDefinition, now_us: int
) -> StreamDefinition:
    """The definition, from which a change begins.

    Raises RefusedError (ResourceInUse) while the stream is made, or changed.
    """
    check_active(definition, now_us)
    return registry.updating(definition)


def check_provisioned(definition: StreamDefinition) -> None:
    """Raise RefusedError (Validation) where the shards are the service's to choose."""
    if definition.mode == ON_DEMAND:
        raise RefusedError(
            VALIDATION,
            f"Request is invalid. Stream {definition.name} under account {definition.account} is"
            " in On-Demand mode.",
        )


def on_stream(
    name: str,
    input_: Structure,
    output: Structure,
    perform: Callable[[Call], Awaitable[Params]],
    measure: Callable[[Params, Params], Work] = no_work,
) -> Operation:
    """An operation on the stream that its parameters name."""
    return Operation(
        name,
        input_,
        output,
        perform,
        on_queue=False,
        measure=measure,
        permissions=permission(name),
    )


def counts(member: str) -> Callable[[Params, Params], Work]:
    """Measures a change by this member of its input, from which bills know how it was then."""
    return lambda params, _output: Work(messages=params[member])


def kind_of(mode: str) -> str:
    """Of which kind a change is after which a stream has this mode: they have several prices."""
    return kinds.ON_DEMAND if mode == ON_DEMAND else ""


async def definition_by_arn(registry: StreamRegistry, call: Call) -> StreamDefinition:
    """The definition of the stream that a call names as a resource.

    Raises RefusedError (ResourceNotFound).
    """
    return await _stored(registry, _resource(call.account, call.region, call.params))


def _resource(account: str, region: str, params: Params) -> StreamName:
    return named(account, region, {"StreamARN": params.get(RESOURCE_ARN)})


def on_resource(
    name: str,
    input_: Structure,
    output: Structure,
    perform: Callable[[Call], Awaitable[Params]],
) -> Operation:
    """An operation on the stream, or the queue, whose ARN is given as that of a resource."""

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        queue = read_queue_arn(params.get(RESOURCE_ARN) or "")
        if queue is not None:
            return [on_queue(name, named_queue(account, region, params[RESOURCE_ARN]))]
        return [permission_on(name, _resource(account, region, params))]

    return Operation(name, input_, output, perform, on_queue=False, permissions=needed)

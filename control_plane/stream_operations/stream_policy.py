"""PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy."""

from dataclasses import replace
from typing import Final

from control_plane.stream_operations.named import on_resource, stream_by_arn
from control_plane.streams import StreamRegistry
from data_plane.core.errors import INVALID_ARGUMENT, STREAM_NOT_FOUND, RefusedError
from data_plane.core.limits import STREAM_POLICY_BYTES_MAX
from data_plane.policy.language import Kind, compile_policy
from data_plane.policy.patterns import NO_ARN
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import (
    DELETE_RESOURCE_POLICY_INPUT,
    GET_RESOURCE_POLICY_INPUT,
    GET_RESOURCE_POLICY_OUTPUT,
    NOTHING,
    PUT_RESOURCE_POLICY_INPUT,
)

_NO_POLICY: Final = "{}"


def check_policy(text: str) -> None:
    """Raise RefusedError (InvalidArgument) for a document that is no resource policy."""
    doubts = compile_policy(text, Kind.RESOURCE).doubts
    if len(text) > STREAM_POLICY_BYTES_MAX or any(doubt != NO_ARN for doubt in doubts):
        raise RefusedError(INVALID_ARGUMENT, "The resource policy is not valid.")


def put_resource_policy(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        policy = call.params["Policy"]
        check_policy(policy)
        stream = await stream_by_arn(registry, call)
        await registry.change(stream, lambda known: replace(known, policy=policy))
        return {}

    return on_resource("PutResourcePolicy", PUT_RESOURCE_POLICY_INPUT, NOTHING, perform)


def get_resource_policy(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        stream = await stream_by_arn(registry, call)
        definition = await registry.read(stream.account, stream.region, stream.name)
        return {"Policy": (definition.policy if definition else "") or _NO_POLICY}

    return on_resource(
        "GetResourcePolicy", GET_RESOURCE_POLICY_INPUT, GET_RESOURCE_POLICY_OUTPUT, perform
    )


def delete_resource_policy(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        stream = await stream_by_arn(registry, call)
        if not stream.policy:
            raise RefusedError(STREAM_NOT_FOUND, f"No resource policy found for {stream.arn}.")
        await registry.change(stream, lambda known: replace(known, policy=""))
        return {}

    return on_resource("DeleteResourcePolicy", DELETE_RESOURCE_POLICY_INPUT, NOTHING, perform)

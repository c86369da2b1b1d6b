"""PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy."""

from dataclasses import replace
from typing import Final

from control_plane.kinesis_queues import KinesisQueues
from control_plane.stream_operations.named import definition_by_arn, on_resource
from control_plane.stream_operations.queue_resource import (
    definition_of,
    policy_of,
    queue_by_arn,
    set_policy,
)
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


def put_resource_policy(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        policy = call.params["Policy"]
        check_policy(policy)
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            await set_policy(queues, queue, policy)
            return {}
        stream = await definition_by_arn(registry, call)
        await registry.change(stream, lambda known: replace(known, policy=policy))
        return {}

    return on_resource("PutResourcePolicy", PUT_RESOURCE_POLICY_INPUT, NOTHING, perform)


def get_resource_policy(registry: StreamRegistry, queues: KinesisQueues | None = None) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            return {"Policy": policy_of(await definition_of(queues, queue)) or _NO_POLICY}
        return {"Policy": (await definition_by_arn(registry, call)).policy or _NO_POLICY}

    return on_resource(
        "GetResourcePolicy", GET_RESOURCE_POLICY_INPUT, GET_RESOURCE_POLICY_OUTPUT, perform
    )


def delete_resource_policy(
    registry: StreamRegistry, queues: KinesisQueues | None = None
) -> Operation:
    """The operation on this registry, and on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_by_arn(queues, call)
        if queues is not None and queue is not None:
            if not policy_of(await definition_of(queues, queue)):
                raise _no_policy(queue.arn)
            await set_policy(queues, queue, "")
            return {}
        stream = await definition_by_arn(registry, call)
        if not stream.policy:
            raise _no_policy(stream.arn)
        await registry.change(stream, lambda known: replace(known, policy=""))
        return {}

    return on_resource("DeleteResourcePolicy", DELETE_RESOURCE_POLICY_INPUT, NOTHING, perform)


def _no_policy(arn: str) -> RefusedError:
    return RefusedError(STREAM_NOT_FOUND, f"No resource policy found for {arn}.")

"""RemovePermission: the statements of a label leave the queue's policy."""

from dataclasses import replace

from control_plane.core import access_policy
from control_plane.core.definition import Definition
from control_plane.operations.addressing import queue_of
from control_plane.queue_shapes import NOTHING, REMOVE_PERMISSION_INPUT
from control_plane.registry import Registry
from data_plane.protocol.operation import Call, Operation, Params


def remove_permission(registry: Registry) -> Operation:
    """The operation on this registry; with its last statement the policy goes."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)

        def edit(definition: Definition) -> Definition:
            attributes = dict(definition.attributes)
            held = attributes.pop("Policy", "")
            policy = access_policy.without_permission(held, call.params["Label"])
            if policy:
                attributes["Policy"] = policy
            return replace(definition, attributes=attributes, modified_s=call.now_us // 1_000_000)

        await registry.change(queue, edit)
        return {}

    return Operation("RemovePermission", REMOVE_PERMISSION_INPUT, NOTHING, perform)

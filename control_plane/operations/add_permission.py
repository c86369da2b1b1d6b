"""AddPermission: one more statement in the queue's policy."""

from dataclasses import replace

from control_plane.core import access_policy
from control_plane.core.definition import Definition
from control_plane.operations.addressing import queue_of
from control_plane.queue_shapes import ADD_PERMISSION_INPUT, NOTHING
from control_plane.registry import Registry
from data_plane.protocol.operation import Call, Operation, Params


def add_permission(registry: Registry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        label = call.params["Label"]
        accounts = call.params["AWSAccountIds"]
        actions = call.params["Actions"]
        access_policy.check_permission(label, accounts, actions)

        def edit(definition: Definition) -> Definition:
            held = definition.attributes.get("Policy", "")
            policy = access_policy.with_permission(held, queue.arn, label, accounts, actions)
            if policy == held:
                return definition
            attributes = {**definition.attributes, "Policy": policy}
            return replace(definition, attributes=attributes, modified_s=call.now_us // 1_000_000)

        await registry.change(queue, edit)
        return {}

    return Operation("AddPermission", ADD_PERMISSION_INPUT, NOTHING, perform)

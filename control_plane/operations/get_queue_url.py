"""GetQueueUrl: the URL of a queue by its name."""

from collections.abc import Sequence

from control_plane.operations.addressing import named, queue_url
from control_plane.queue_shapes import GET_QUEUE_URL_INPUT, GET_QUEUE_URL_OUTPUT
from control_plane.registry import Registry
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.identifiers import is_queue_name
from data_plane.protocol.operation import Call, Operation, Params, Permission


def get_queue_url(registry: Registry) -> Operation:
    """The operation on this registry.

    Queues of other accounts are out of sight, but for those whose policies let the caller see them.
    """

    async def perform(call: Call) -> Params:
        name = call.params["QueueName"]
        owner = call.params.get("QueueOwnerAWSAccountId") or call.account
        # A cell takes no key as long as a caller's text may be.
        if not is_queue_name(name) or (owner != call.account and not call.authorised):
            raise queue_does_not_exist()
        if not await registry.find(owner, call.region, name):
            raise queue_does_not_exist()
        return {"QueueUrl": queue_url(call, owner, name)}

    return Operation(
        "GetQueueUrl",
        GET_QUEUE_URL_INPUT,
        GET_QUEUE_URL_OUTPUT,
        perform,
        on_queue=False,
        permissions=_permissions,
        hides=True,
    )


async def _permissions(account: str, region: str, params: Params) -> Sequence[Permission]:
    owner = params.get("QueueOwnerAWSAccountId") or account
    return [Permission("GetQueueUrl", owner, region, named(params))]

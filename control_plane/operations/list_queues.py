"""ListQueues: names in order, a page at a time when the caller says how long a page is."""

from control_plane.operations.addressing import queue_url
from control_plane.operations.paging import PURPOSE, last_listed, next_token, page_size
from control_plane.queue_shapes import LIST_QUEUES_INPUT, LIST_QUEUES_OUTPUT
from control_plane.registry import Registry
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import LIST_RESULTS_MAX
from data_plane.protocol.operation import Call, Operation, Params


def list_queues(registry: Registry) -> Operation:
    """The operation on this registry."""
    seal = registry.token_seal(PURPOSE)

    async def perform(call: Call) -> Params:
        prefix = call.params.get("QueueNamePrefix") or ""
        size = page_size(call)
        if size is None and call.params.get("NextToken"):
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "MaxResults is a mandatory parameter when you provide a value for NextToken.",
            )
        scope = f"queues {prefix}"
        after = last_listed(seal, call, scope, malformed="Invalid NextToken value.")
        limit = size or LIST_RESULTS_MAX
        names = await registry.names(
            call.account, call.region, prefix=prefix, after=after, limit=limit + 1
        )
        output: dict[str, object] = {}
        if names:
            output["QueueUrls"] = [queue_url(call, call.account, name) for name in names[:limit]]
        if size is not None and len(names) > limit:
            output["NextToken"] = next_token(seal, call, scope, names[limit - 1])
        return output

    return Operation(
        "ListQueues",
        LIST_QUEUES_INPUT,
        LIST_QUEUES_OUTPUT,
        perform,
        on_queue=False,
        at_root=True,
    )

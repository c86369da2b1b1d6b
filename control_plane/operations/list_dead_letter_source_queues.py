"""ListDeadLetterSourceQueues: the queues whose redrive policy names this one."""

from control_plane.operations.addressing import queue_of, queue_url
from control_plane.operations.paging import PURPOSE, last_listed, next_token, page_size
from control_plane.queue_shapes import (
    LIST_DEAD_LETTER_SOURCE_QUEUES_INPUT,
    LIST_DEAD_LETTER_SOURCE_QUEUES_OUTPUT,
)
from control_plane.registry import Registry
from data_plane.core.limits import LIST_RESULTS_MAX
from data_plane.protocol.operation import Call, Operation, Params


def list_dead_letter_source_queues(registry: Registry) -> Operation:
    """The operation on this registry; a queue that is nobody's answers an empty list."""
    seal = registry.token_seal(PURPOSE)

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        size = page_size(call)
        scope = f"sources {queue.uid}"
        after = last_listed(seal, call, scope, malformed="Invalid or expired next token.")
        limit = size or LIST_RESULTS_MAX
        names = await registry.dead_letter_sources(
            queue.account, queue.region, queue.name, after=after, limit=limit + 1
        )
        output: dict[str, object] = {
            "queueUrls": [queue_url(call, queue.account, name) for name in names[:limit]]
        }
        if size is not None and len(names) > limit:
            output["NextToken"] = next_token(seal, call, scope, names[limit - 1])
        return output

    return Operation(
        "ListDeadLetterSourceQueues",
        LIST_DEAD_LETTER_SOURCE_QUEUES_INPUT,
        LIST_DEAD_LETTER_SOURCE_QUEUES_OUTPUT,
        perform,
    )

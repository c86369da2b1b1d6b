"""ListQueues: names in order, a page at a time when the caller says how long a page is."""

import base64
import binascii
import json

from control_plane.operations.addressing import queue_url
from control_plane.queue_shapes import LIST_QUEUES_INPUT, LIST_QUEUES_OUTPUT
from control_plane.registry import Registry
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import LIST_RESULTS_MAX
from data_plane.protocol.operation import Call, Operation, Params


def list_queues(registry: Registry) -> Operation:
    """The operation on this registry."""

    async def perform(call: Call) -> Params:
        prefix = call.params.get("QueueNamePrefix") or ""
        page = call.params.get("MaxResults")
        if page is not None and not 1 <= page <= LIST_RESULTS_MAX:
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "Value for parameter MaxResults is invalid. "
                "Reason: MaxResults must be an integer between 1 and 1000.",
            )
        token = call.params.get("NextToken")
        after = _after(call, prefix, token) if token else ""
        limit = page or LIST_RESULTS_MAX
        names = await registry.names(
            call.account, call.region, prefix=prefix, after=after, limit=limit + 1
        )
        output: dict[str, object] = {}
        if names:
            output["QueueUrls"] = [queue_url(call, call.account, name) for name in names[:limit]]
        if page is not None and len(names) > limit:
            output["NextToken"] = _token(call, prefix, names[limit - 1])
        return output

    return Operation("ListQueues", LIST_QUEUES_INPUT, LIST_QUEUES_OUTPUT, perform, on_queue=False)


def _token(call: Call, prefix: str, last: str) -> str:
    """An opaque text that continues this very listing after the queue `last`."""
    text = json.dumps([call.account, call.region, prefix, last], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def _after(call: Call, prefix: str, token: str) -> str:
    try:
        parts = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError, RecursionError):
        parts = None
    match parts:
        case [str(account), str(region), str(bound), str(last)]:
            if (account, region, bound) == (call.account, call.region, prefix):
                return last
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "Invalid NextToken value. If you are passing in NextToken, "
                "you must not change the other request parameters.",
            )
    raise RefusedError(INVALID_PARAMETER_VALUE, "Invalid or expired next token.")

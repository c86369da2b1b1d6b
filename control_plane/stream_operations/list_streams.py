"""ListStreams: names in order, a page at a time."""

from typing import Final

from control_plane.stream_operations import paging
from control_plane.streams import StreamRegistry
from data_plane.protocol.operation import Call, Operation, Params
from data_plane.protocol.stream_shapes import LIST_STREAMS_INPUT, LIST_STREAMS_OUTPUT

STREAMS_MAX: Final = 100
"""Streams on a page, also where more are asked for."""

_SCOPE: Final = "streams"


def list_streams(registry: StreamRegistry) -> Operation:
    """The operation on this registry."""
    seal = registry.token_seal(paging.PURPOSE)

    async def perform(call: Call) -> Params:
        token = call.params.get("NextToken")
        after = call.params.get("ExclusiveStartStreamName") or ""
        if token is not None:
            after = paging.read(seal, call, _SCOPE, token)
        limit = min(call.params.get("Limit", STREAMS_MAX), STREAMS_MAX)
        names = await registry.names(call.account, call.region, after=after, limit=limit + 1)
        page = names[:limit]
        summaries = []
        for name in page:
            definition = await registry.read(call.account, call.region, name)
            if definition is not None:
                summaries.append(
                    {
                        "StreamName": name,
                        "StreamARN": definition.arn,
                        "StreamStatus": definition.status_at(call.now_us),
                        "StreamModeDetails": {"StreamMode": definition.mode},
                        "StreamCreationTimestamp": definition.created_ms,
                    }
                )
        output: dict[str, object] = {
            "StreamNames": page,
            "HasMoreStreams": len(names) > limit,
            "StreamSummaries": summaries,
        }
        if len(names) > limit:
            output["NextToken"] = paging.to_text(seal, call, _SCOPE, page[-1])
        return output

    return Operation(
        "ListStreams", LIST_STREAMS_INPUT, LIST_STREAMS_OUTPUT, perform, on_queue=False
    )

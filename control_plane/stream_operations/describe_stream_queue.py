"""DescribeQueue, DeleteQueue and ListQueues of the Kinesis API."""

import json
from collections.abc import Sequence
from typing import Any, Final

from control_plane.core import kinesis_queue
from control_plane.core.definition import Definition
from control_plane.core.kinesis_queue import STREAM_MADE
from control_plane.core.stream_queue import STREAM_ARN
from control_plane.kinesis_queues import KinesisQueues, RecordReaders
from control_plane.stream_operations import paging
from control_plane.stream_operations.queue_resource import definition_of, gone
from data_plane.core.errors import QUEUE_DOES_NOT_EXIST, RefusedError
from data_plane.core.sealing import TokenSeal
from data_plane.operations.kinesis_queue import QueueId, on_queue, operation, queue_of
from data_plane.protocol.operation import Call, Operation, Params, Permission
from data_plane.protocol.queue_shapes import (
    DELETE_QUEUE_INPUT,
    DESCRIBE_QUEUE_INPUT,
    DESCRIBE_QUEUE_OUTPUT,
    LIST_QUEUES_INPUT,
    LIST_QUEUES_OUTPUT,
)
from data_plane.protocol.stream_shapes import NOTHING

QUEUES_MAX: Final = 100
"""Queues on a page, where nobody says how many."""

_ACTIVE: Final = "ACTIVE"
_SCOPE: Final = "queues "


def describe_stream_queue(queues: KinesisQueues) -> Operation:
    """The operation on these queues."""

    async def perform(call: Call) -> Params:
        queue = await queue_of(queues, call, call.params["QueueARN"])
        definition = await definition_of(queues, queue)
        return {"QueueDescription": kinesis_queue.described(definition, queue.arn, _ACTIVE)}

    return operation("DescribeQueue", DESCRIBE_QUEUE_INPUT, DESCRIBE_QUEUE_OUTPUT, perform)


def delete_stream_queue(queues: KinesisQueues, readers: RecordReaders) -> Operation:
    """The operation on these queues: one goes, and its stream stays as it is."""

    async def perform(call: Call) -> Params:
        queue = await queue_of(queues, call, call.params["QueueARN"])
        try:
            await queues.delete(queue, call.now_us)
        except RefusedError as refusal:
            if refusal.fault is not QUEUE_DOES_NOT_EXIST:
                raise
            raise gone(queue) from None
        readers.dropped(queue)
        return {}

    return operation("DeleteQueue", DELETE_QUEUE_INPUT, NOTHING, perform)


def list_stream_queues(queues: KinesisQueues, seal: TokenSeal) -> Operation:
    """The operation on these queues, in order of their names."""

    async def perform(call: Call) -> Params:
        params = call.params
        wanted = [
            (one["StreamARN"], one.get("StreamCreationTimestamp"))
            for one in params.get("StreamFilter") or ()
        ]
        after = ""
        token = params.get("NextToken")
        if token is not None:
            listed, after = paging.read_list(seal, call, token, _SCOPE)
            wanted = [(arn, made_ms) for arn, made_ms in listed]
        limit = params.get("MaxResults", QUEUES_MAX)
        found = await _page(queues, call, wanted, after, limit + 1)
        output: dict[str, Any] = {
            "QueueSummaries": [
                kinesis_queue.summarised(one, queues.registry.queue(one).arn, _ACTIVE)
                for one in found[:limit]
            ]
        }
        if len(found) > limit:
            scope = _SCOPE + json.dumps(wanted)
            output["NextToken"] = paging.to_text(seal, call, scope, found[limit - 1].name)
        return output

    async def needed(account: str, region: str, _params: Params) -> Sequence[Permission]:
        return [on_queue("ListQueues", QueueId(account, region, "*"))]

    return Operation(
        "ListQueues",
        LIST_QUEUES_INPUT,
        LIST_QUEUES_OUTPUT,
        perform,
        on_queue=False,
        permissions=needed,
    )


async def _page(
    queues: KinesisQueues,
    call: Call,
    wanted: Sequence[tuple[str, float | None]],
    after: str,
    limit: int,
) -> list[Definition]:
    """Up to so many queues behind a name that read one of the streams; any, without streams."""
    found: list[Definition] = []
    while len(found) < limit:
        page = await queues.page(call.account, call.region, after=after, limit=limit)
        if not page:
            break
        after = page[-1].name
        found += [one for one in page if not wanted or _reads_one(one, wanted)]
    return found[:limit]


def _reads_one(queue: Definition, wanted: Sequence[tuple[str, float | None]]) -> bool:
    made_s = int(queue.attributes[STREAM_MADE]) // 1_000
    return any(
        arn == queue.attributes[STREAM_ARN] and (made_ms is None or int(made_ms) // 1_000 == made_s)
        for arn, made_ms in wanted
    )

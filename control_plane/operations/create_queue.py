"""CreateQueue: a new queue, or the URL of the one that is there already."""

from collections.abc import Sequence

from control_plane.core import queue_attributes, queue_tags
from control_plane.core.queue_lifecycle import check_name
from control_plane.core.stream_queue import with_start
from control_plane.operations.addressing import named, queue_url
from control_plane.operations.dead_letter_target import check_dead_letter_target
from control_plane.operations.queue_messages import QueueMessages
from control_plane.operations.queue_over_stream import over_stream, permissions_on_stream
from control_plane.queue_shapes import CREATE_QUEUE_INPUT, CREATE_QUEUE_OUTPUT
from control_plane.registry import Registry
from data_plane.operations.stream_address import KnownStreams
from data_plane.protocol.operation import Call, Operation, Params, Permission


def create_queue(
    registry: Registry, messages: QueueMessages, streams: KnownStreams | None
) -> Operation:
    """The operation on this registry, and on the streams that queues may read."""

    async def perform(call: Call) -> Params:
        name = call.params["QueueName"]
        given = call.params.get("Attributes") or {}
        tags = call.params.get("tags") or {}
        fifo = queue_attributes.asks_for_fifo(given)
        parsed = queue_attributes.parse(given, fifo=fifo)
        check_name(name, fifo=fifo)
        attributes = with_start(queue_attributes.apply({}, parsed))
        queue_tags.check_tags(tags)
        tags = queue_tags.merged({}, tags, name)
        wanted = registry.define(
            account=call.account,
            region=call.region,
            name=name,
            attributes=attributes,
            tags=tags,
            now_us=call.now_us,
        )
        wanted = await over_stream(wanted, streams, messages, call.now_us)
        await check_dead_letter_target(registry, registry.queue(wanted), given, parsed)
        await registry.create(wanted, parsed, call.now_us)
        return {"QueueUrl": queue_url(call, call.account, name)}

    return Operation(
        "CreateQueue",
        CREATE_QUEUE_INPUT,
        CREATE_QUEUE_OUTPUT,
        perform,
        on_queue=False,
        permissions=_permissions,
        at_root=True,
    )


async def _permissions(account: str, region: str, params: Params) -> Sequence[Permission]:
    """To create the queue, and to give it tags where some are given (API reference).

    And to read the stream that it is to read.
    """
    name = named(params)
    actions = ("CreateQueue", "TagQueue") if params.get("tags") else ("CreateQueue",)
    given = params.get("Attributes")
    return [
        *(Permission(action, account, region, name) for action in actions),
        *permissions_on_stream(given if isinstance(given, dict) else {}),
    ]

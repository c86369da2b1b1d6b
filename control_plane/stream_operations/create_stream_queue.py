"""CreateQueue and UpdateQueue of the Kinesis API: what they do is done at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from control_plane.core import kinesis_queue
from control_plane.core.definition import Definition
from control_plane.core.kinesis_queue import BEGINS, MADE, STREAM_MADE
from control_plane.core.stream_definition import ON_DEMAND, StreamDefinition
from control_plane.core.stream_queue import POSITION, STREAM_ARN, TIMESTAMP
from control_plane.kinesis_queues import KinesisQueues, RecordReaders
from control_plane.stream_operations.queue_resource import change, check_tags
from control_plane.streams import StreamRegistry, check_active
from data_plane.core.errors import (
    INVALID_ARGUMENT,
    LIMIT_EXCEEDED,
    VALIDATION,
    RefusedError,
    stream_not_found,
)
from data_plane.core.limits import STREAM_QUEUES_MAX
from data_plane.core.queue import AT_TIMESTAMP, KINESIS_ID, KINESIS_MARK, TRIM_HORIZON
from data_plane.operations.kinesis_queue import QueueId, on_queue, operation, queue_of
from data_plane.operations.stream_address import StreamName, named, on_stream
from data_plane.protocol.operation import Call, Operation, Params, Permission
from data_plane.protocol.queue_shapes import (
    CREATE_QUEUE_INPUT,
    CREATE_QUEUE_OUTPUT,
    UPDATE_QUEUE_INPUT,
    UPDATE_QUEUE_OUTPUT,
)

_ASSOCIATE: Final = "AssociateStreamsWithQueue"
"""What a caller has to be allowed to do with a stream who makes a queue of its records."""

_CREATE: Final = "CreateQueue"
_HOUR_MS: Final = 3_600_000


def create_stream_queue(
    queues: KinesisQueues, streams: StreamRegistry, readers: RecordReaders
) -> Operation:
    """The operation on these queues, over these streams."""

    async def perform(call: Call) -> Params:
        params = call.params
        given = kinesis_queue.only_stream(params)
        position, time_ms = kinesis_queue.position_of(given, call.now_us)
        attributes = kinesis_queue.with_defaults(
            kinesis_queue.parse(params.get("QueueAttributes") or {})
        )
        tags = params.get("Tags") or {}
        check_tags(tags)
        stream = await _stream(streams, call, given["StreamARN"])
        at_timestamp = {TIMESTAMP: str(time_ms)} if position == AT_TIMESTAMP else {}
        wanted = queues.registry.define(
            account=call.account,
            region=call.region,
            name=KINESIS_MARK + params["QueueName"],
            attributes={
                **attributes,
                **at_timestamp,
                KINESIS_ID: queues.new_id(),
                STREAM_ARN: given["StreamARN"],
                POSITION: position,
                STREAM_MADE: str(stream.created_ms),
                MADE: str(call.now_us // 1_000),
                BEGINS: str(_begins_ms(stream, position, time_ms, call.now_us // 1_000)),
            },
            tags=tags,
            now_us=call.now_us,
        )
        placed = streams.stream(stream)
        wanted = replace(
            wanted,
            cell=stream.cell,
            stream_uid=stream.uid,
            purged_us=readers.starting_us(placed, position, time_ms * 1_000),
        )
        await _check_room(queues, wanted, stream)
        stored = await queues.create(wanted, call.now_us)
        return {"QueueDescription": _described(queues, stored, "CREATING")}

    return Operation(
        _CREATE,
        CREATE_QUEUE_INPUT,
        CREATE_QUEUE_OUTPUT,
        perform,
        on_queue=False,
        permissions=_permissions,
    )


def update_stream_queue(queues: KinesisQueues) -> Operation:
    """The operation on these queues: what is not given stays as it is."""

    async def perform(call: Call) -> Params:
        queue = await queue_of(queues, call, call.params["QueueARN"])
        parsed = kinesis_queue.parse(call.params["QueueAttributes"])
        stored = await change(
            queues,
            queue,
            lambda known: replace(known, attributes={**known.attributes, **parsed}),
        )
        return {"QueueDescription": _described(queues, stored, "UPDATING")}

    return operation("UpdateQueue", UPDATE_QUEUE_INPUT, UPDATE_QUEUE_OUTPUT, perform)


def _described(queues: KinesisQueues, queue: Definition, status: str) -> Params:
    return kinesis_queue.described(queue, queues.registry.queue(queue).arn, status)


async def _stream(streams: StreamRegistry, call: Call, arn: str) -> StreamDefinition:
    """The stream that is to be read, on demand and of the queue's own. Raises RefusedError."""
    name = named(call.account, call.region, {"StreamARN": arn})
    if name.account != call.account:
        raise RefusedError(
            INVALID_ARGUMENT, f"StreamARN {arn} is not of the queue's account and region."
        )
    definition = await streams.read(*name)
    if definition is None:
        raise stream_not_found(name.name, name.account)
    check_active(definition, call.now_us)
    if definition.mode != ON_DEMAND:
        raise RefusedError(
            VALIDATION,
            f"Request is invalid. Stream {name.name} under account {name.account} is not in"
            " On-Demand mode.",
        )
    return definition


def _begins_ms(stream: StreamDefinition, position: str, time_ms: int, now_ms: int) -> int:
    """As of when a new queue has records: not before the oldest that the stream has."""
    horizon_ms = max(stream.created_ms, now_ms - stream.retention_hours * _HOUR_MS)
    if position == TRIM_HORIZON:
        return horizon_ms
    return max(horizon_ms, time_ms) if position == AT_TIMESTAMP else now_ms


async def _check_room(queues: KinesisQueues, wanted: Definition, stream: StreamDefinition) -> None:
    """Raise RefusedError (LimitExceeded) where too many queues read the stream.

    A name that is taken is told first. Those that are made at the same moment may exceed it.
    """
    others = await queues.of_stream(wanted.account, wanted.region, stream.uid)
    if len(others) >= STREAM_QUEUES_MAX and not any(one.name == wanted.name for one in others):
        raise RefusedError(
            LIMIT_EXCEEDED,
            f"Stream {stream.name} under account {stream.account} is read by"
            f" {STREAM_QUEUES_MAX} queues, and no more may.",
        )


async def _permissions(account: str, region: str, params: Params) -> Sequence[Permission]:
    """To create a queue, to give it tags where some are given, and to let it read its streams."""
    every = QueueId(account, region, "*")
    actions = (_CREATE, "TagResource") if params.get("Tags") else (_CREATE,)
    return [
        *(on_queue(action, every) for action in actions),
        *(on_stream(_ASSOCIATE, name) for name in _streams_named(account, region, params)),
    ]


def _streams_named(account: str, region: str, params: Params) -> list[StreamName]:
    """Those of a request that nobody has validated: what has no ARN is refused later."""
    given = params.get("StreamConfigurationList") or ()
    arns = [one["StreamARN"] for one in given[:1] if one.get("StreamARN")]
    return [named(account, region, {"StreamARN": arn}) for arn in arns]

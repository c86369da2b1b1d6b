"""CreateQueue of a queue that reads a stream: which stream, and from where on."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from control_plane.core.definition import Definition
from control_plane.core.stream_queue import POSITION, STREAM_ARN, TIMESTAMP
from control_plane.operations.queue_messages import QueueMessages
from data_plane.core.errors import RefusedError, invalid_parameter
from data_plane.core.stream import Stream, read_stream_arn
from data_plane.operations.stream_address import (
    KnownStreams,
    StreamName,
    on_stream,
    present_stream_of,
)
from data_plane.protocol.operation import Permission

_ACTION = "GetRecords"
"""What a caller has to be allowed to do with a stream who makes a queue of its records."""


async def over_stream(
    wanted: Definition, streams: KnownStreams | None, messages: QueueMessages, now_us: int
) -> Definition:
    """The definition of a new queue, which names its stream if it is to read one.

    Raises RefusedError (InvalidParameterValue) where that cannot be, CellUnavailableError.
    """
    arn = wanted.attributes.get(STREAM_ARN)
    if not arn:
        return wanted
    stream = await _stream(wanted, streams, arn)
    time_us = int(wanted.attributes.get(TIMESTAMP, "0")) * 1_000_000
    if time_us > now_us:
        raise invalid_parameter(TIMESTAMP, time_us // 1_000_000, "It is in the future.")
    return replace(
        wanted,
        cell=stream.cell,
        stream_uid=stream.uid,
        purged_us=messages.starting_us(stream, wanted.attributes[POSITION], time_us),
    )


async def _stream(wanted: Definition, streams: KnownStreams | None, arn: str) -> Stream:
    name = read_stream_arn(arn)
    if name is None:
        raise invalid_parameter(STREAM_ARN, arn, "It is not the ARN of a stream.")
    if name[:2] != (wanted.account, wanted.region):
        reason = "The stream must be of the same account and region as the queue."
        raise invalid_parameter(STREAM_ARN, arn, reason)
    stream = None
    if streams is not None:
        with suppress(RefusedError):
            # As it is now: nothing would ever come out of a queue over a former one.
            stream = await present_stream_of(streams, StreamName(*name))
    if stream is None:
        raise invalid_parameter(STREAM_ARN, arn, "The stream does not exist.")
    return stream


def permissions_on_stream(given: Mapping[str, str | None]) -> list[Permission]:
    """What it takes to make a queue with these attributes, which nobody has validated."""
    name = read_stream_arn(given.get(STREAM_ARN) or "")
    return [] if name is None else [on_stream(_ACTION, StreamName(*name))]

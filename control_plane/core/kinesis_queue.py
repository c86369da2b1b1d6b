"""Attributes of queues of the Kinesis API: as clients give them, as they are stored, as shown."""

from collections.abc import Mapping
from typing import Any, Final

from control_plane.core.definition import DIES_AFTER, Definition
from control_plane.core.stream_queue import POSITION, STREAM_ARN, TIMESTAMP
from data_plane.core.errors import VALIDATION, RefusedError
from data_plane.core.limits import KINESIS_MAX_RECEIVE_COUNT_DEFAULT, VISIBILITY_TIMEOUT_S_DEFAULT
from data_plane.core.queue import AT_TIMESTAMP, KINESIS_MARK, LATEST

VISIBILITY: Final = "VisibilityTimeout"
STREAM_MADE: Final = "StreamCreationTimestamp"
"""When the stream was made, in milliseconds."""
MADE: Final = "QueueCreationTimestamp"
"""When the queue was made, in milliseconds."""
BEGINS: Final = "StartingTimestamp"
"""As of when it has records, in milliseconds."""

_BUILT_IN: Final = "BUILT_IN"
_NONE: Final = "NONE"

Given = Mapping[str, Any]


def parse(given: Given) -> dict[str, str]:
    """QueueAttributes as they are stored: those that are given.

    Raises RefusedError (Validation).
    """
    parsed: dict[str, str] = {}
    visibility_s = given.get("VisibilityTimeoutSeconds")
    if visibility_s is not None:
        parsed[VISIBILITY] = str(visibility_s)
    dead_letters = given.get("DeadLetterConfiguration")
    if dead_letters is not None:
        parsed[DIES_AFTER] = str(_dies_after(dead_letters))
    return parsed


def _dies_after(dead_letters: Given) -> int:
    if dead_letters["TargetType"] == _NONE:
        return 0
    count: int | None = dead_letters.get("MaxReceiveCount")
    if count is None:
        raise RefusedError(VALIDATION, "MaxReceiveCount is required when TargetType is BUILT_IN.")
    return count


def with_defaults(parsed: Mapping[str, str]) -> dict[str, str]:
    """What a new queue has."""
    return {
        VISIBILITY: str(VISIBILITY_TIMEOUT_S_DEFAULT),
        DIES_AFTER: str(KINESIS_MAX_RECEIVE_COUNT_DEFAULT),
        **parsed,
    }


def only_stream(given: Given) -> Given:
    """The one stream of a StreamConfigurationList. Raises RefusedError (Validation) for more."""
    streams = given["StreamConfigurationList"]
    if len(streams) != 1:
        raise RefusedError(VALIDATION, "StreamConfigurationList must have exactly one entry.")
    stream: Given = streams[0]
    return stream


def position_of(stream: Given, now_us: int) -> tuple[str, int]:
    """Where a queue is to begin: the type, and the time of AT_TIMESTAMP in milliseconds.

    There is nothing before 1970: what is earlier is that.

    Raises RefusedError (Validation).
    """
    position = stream.get("StartingPosition") or {"Type": LATEST}
    time_ms = position.get("Timestamp")
    if (position["Type"] == AT_TIMESTAMP) != (time_ms is not None):
        raise RefusedError(
            VALIDATION, "StartingPosition has a Timestamp if, and only if, Type is AT_TIMESTAMP."
        )
    if time_ms is not None and time_ms * 1_000 > now_us:
        raise RefusedError(VALIDATION, "The Timestamp of StartingPosition is in the future.")
    return position["Type"], max(0, time_ms or 0)


def shown_name(queue: Definition) -> str:
    """Its name, as clients know it."""
    return queue.name.removeprefix(KINESIS_MARK)


def described(queue: Definition, arn: str, status: str) -> dict[str, Any]:
    """A QueueDescription."""
    attributes = queue.attributes
    return {
        **_shown(queue, arn, status),
        "StreamConfigurationList": [
            {"StreamARN": attributes[STREAM_ARN], "StartingPosition": _position(queue, status)}
        ],
        "QueueAttributes": {
            "VisibilityTimeoutSeconds": int(attributes[VISIBILITY]),
            "DeadLetterConfiguration": _dead_letters(int(attributes[DIES_AFTER])),
        },
    }


def summarised(queue: Definition, arn: str, status: str) -> dict[str, Any]:
    """A QueueSummary."""
    stream = {
        "StreamARN": queue.attributes[STREAM_ARN],
        "StreamCreationTimestamp": int(queue.attributes[STREAM_MADE]),
    }
    return {**_shown(queue, arn, status), "Streams": [stream]}


def _shown(queue: Definition, arn: str, status: str) -> dict[str, Any]:
    return {
        "QueueName": shown_name(queue),
        "QueueARN": arn,
        "QueueStatus": status,
        "QueueCreationTimestamp": int(queue.attributes[MADE]),
    }


def _position(queue: Definition, status: str) -> dict[str, Any]:
    """As it was given while the queue is made; then what it comes to, too."""
    kind = queue.attributes[POSITION]
    if status != "CREATING":
        return {"Type": kind, "Timestamp": int(queue.attributes[BEGINS])}
    if kind != AT_TIMESTAMP:
        return {"Type": kind}
    return {"Type": kind, "Timestamp": int(queue.attributes[TIMESTAMP])}


def _dead_letters(dies_after: int) -> dict[str, Any]:
    if not dies_after:
        return {"TargetType": _NONE}
    return {"TargetType": _BUILT_IN, "MaxReceiveCount": dies_after}

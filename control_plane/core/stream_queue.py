"""Which attributes a queue that reads a stream has, and may not have (docs/streams.md)."""

from collections.abc import Mapping
from typing import Final

from data_plane.core.errors import INVALID_ATTRIBUTE_NAME, RefusedError
from data_plane.core.queue import AT_TIMESTAMP, LATEST

STREAM_ARN: Final = "TidegateStreamArn"
POSITION: Final = "TidegateStartingPosition"
TIMESTAMP: Final = "TidegateStartingTimestamp"

_OF_THE_STREAM: Final = (
    "MessageRetentionPeriod",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "TidegateReplicationFactor",
    "TidegateReplicationAcknowledgement",
)
"""What its stream says in its stead."""


def with_start(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a new queue, with the position at which it starts if it reads a stream.

    Raises RefusedError (InvalidAttributeName) where they do not fit together.
    """
    if not attributes.get(STREAM_ARN):
        for name in (POSITION, TIMESTAMP):
            if name in attributes:
                raise RefusedError(
                    INVALID_ATTRIBUTE_NAME, f"You can specify the {name} only with {STREAM_ARN}."
                )
        return dict(attributes)
    check_own(attributes)
    position = attributes.get(POSITION, LATEST)
    if (position == AT_TIMESTAMP) != (TIMESTAMP in attributes):
        raise RefusedError(
            INVALID_ATTRIBUTE_NAME,
            f"A queue has a {TIMESTAMP} if its {POSITION} is {AT_TIMESTAMP}.",
        )
    return {**attributes, POSITION: position}


def check_own(attributes: Mapping[str, str]) -> None:
    """Raise RefusedError (InvalidAttributeName) for what a queue over a stream cannot have."""
    for name in _OF_THE_STREAM:
        if attributes.get(name):
            raise RefusedError(
                INVALID_ATTRIBUTE_NAME,
                f"You can't specify the {name} of a queue that reads a stream.",
            )

"""When a queue may come into being, be created again, be purged.

Source: SQS API reference (CreateQueue, DeleteQueue, PurgeQueue) and answers recorded from AWS.
"""

from collections.abc import Mapping
from typing import Final

from control_plane.core.definition import Definition, Tombstone
from control_plane.core.queue_attributes import first_difference
from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    PURGE_QUEUE_IN_PROGRESS,
    QUEUE_DELETED_RECENTLY,
    QUEUE_NAME_EXISTS,
    RefusedError,
)
from data_plane.core.identifiers import is_queue_name
from data_plane.core.limits import PURGE_INTERVAL_S, RECREATE_AFTER_DELETE_S

FIFO_SUFFIX: Final = ".fifo"


def check_name(name: str, *, fifo: bool) -> None:
    """Raise RefusedError (InvalidParameterValue) for a name that such a queue cannot have."""
    if fifo:
        if not name.endswith(FIFO_SUFFIX) or not is_queue_name(name):
            raise RefusedError(
                INVALID_PARAMETER_VALUE,
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
                "underscores, must end with .fifo suffix and be 1 to 80 in length.",
            )
    elif not name:
        raise RefusedError(INVALID_PARAMETER_VALUE, "Queue name cannot be empty")
    elif name.endswith(FIFO_SUFFIX) or not is_queue_name(name):
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )


def check_same_queue(existing: Definition, given: Mapping[str, str]) -> None:
    """Raise RefusedError (QueueNameExists) if a given attribute differs from the existing queue's.

    Only attributes that the request gives are compared; tags never are.
    """
    different = first_difference(existing.attributes, given)
    if different is not None:
        raise RefusedError(
            QUEUE_NAME_EXISTS,
            "A queue already exists with the same name and a different value for attribute "
            f"{different}",
        )


def check_name_is_free(tombstone: Tombstone, now_us: int) -> None:
    """Raise RefusedError (QueueDeletedRecently) while the name's last queue is not gone long."""
    if now_us - tombstone.deleted_us < RECREATE_AFTER_DELETE_S * 1_000_000:
        raise RefusedError(
            QUEUE_DELETED_RECENTLY,
            f"You must wait {RECREATE_AFTER_DELETE_S} seconds after deleting a queue before you "
            "can create another with the same name.",
        )


def check_purge(definition: Definition, now_us: int) -> None:
    """Raise RefusedError (PurgeQueueInProgress) if the last purge is too recent."""
    made_us = (definition.created_s + 1) * 1_000_000
    if definition.stream_uid and definition.purged_us < made_us:
        return  # That is where it began to read.
    if definition.purged_us and now_us - definition.purged_us < PURGE_INTERVAL_S * 1_000_000:
        raise RefusedError(
            PURGE_QUEUE_IN_PROGRESS,
            f"Only one PurgeQueue operation on {definition.name} is allowed every "
            f"{PURGE_INTERVAL_S} seconds.",
        )

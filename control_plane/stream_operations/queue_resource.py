"""Queues of the Kinesis API as resources: which one an ARN names, its tags, its policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from control_plane.core.definition import Definition
from control_plane.core.stream_tags import check_texts, without
from control_plane.kinesis_queues import KinesisQueues
from data_plane.core.errors import (
    INVALID_ARGUMENT,
    QUEUE_DOES_NOT_EXIST,
    RefusedError,
    kinesis_queue_not_found,
)
from data_plane.core.limits import TAGS_MAX
from data_plane.core.queue import Queue
from data_plane.operations.kinesis_queue import queue_of, read_queue_arn
from data_plane.protocol.operation import Call

RESOURCE_ARN: Final = "ResourceARN"
_POLICY: Final = "Policy"
Edit = Callable[[Definition], Definition]


async def queue_by_arn(queues: KinesisQueues | None, call: Call) -> Queue | None:
    """The queue that a call names as a resource; None where it names something else.

    Raises RefusedError (ResourceNotFound).
    """
    arn = call.params[RESOURCE_ARN]
    name = read_queue_arn(arn)
    if name is None:
        return None
    if queues is None:
        raise kinesis_queue_not_found(name.id, name.account)
    return await queue_of(queues, call, arn)


async def definition_of(queues: KinesisQueues, queue: Queue) -> Definition:
    """The definition as it is stored now. Raises RefusedError (ResourceNotFound)."""
    definition = await queues.read(queue)
    if definition is None:
        raise gone(queue)
    return definition


def gone(queue: Queue) -> RefusedError:
    """It was deleted meanwhile."""
    return kinesis_queue_not_found(queue.arn.rpartition("/")[2], queue.account)


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise RefusedError (InvalidArgument) for tags that a queue may not have."""
    check_texts(tags)
    _check_count(tags)


def _check_count(tags: Mapping[str, str]) -> None:
    if len(tags) > TAGS_MAX:
        raise RefusedError(INVALID_ARGUMENT, f"A queue cannot have more than {TAGS_MAX} tags.")


async def tag(queues: KinesisQueues, queue: Queue, tags: Mapping[str, str]) -> None:
    """Add tags. Raises RefusedError."""
    check_tags(tags)

    def tagged(known: Definition) -> Definition:
        merged = {**known.tags, **tags}
        _check_count(merged)
        return replace(known, tags=merged)

    await change(queues, queue, tagged)


async def untag(queues: KinesisQueues, queue: Queue, keys: Sequence[str]) -> None:
    """Take tags away. Raises RefusedError (ResourceNotFound)."""
    await change(queues, queue, lambda known: replace(known, tags=without(known.tags, keys)))


async def set_policy(queues: KinesisQueues, queue: Queue, policy: str) -> None:
    """Make this its policy ("": none). Raises RefusedError (ResourceNotFound)."""

    def changed(known: Definition) -> Definition:
        others = {name: value for name, value in known.attributes.items() if name != _POLICY}
        return replace(known, attributes={**others, _POLICY: policy} if policy else others)

    await change(queues, queue, changed)


def policy_of(queue: Definition | Queue) -> str:
    """Its resource policy; "" for none."""
    return queue.attributes.get(_POLICY, "")


async def change(queues: KinesisQueues, queue: Queue, edit: Edit) -> Definition:
    """Replace its definition by what `edit` makes of it. Raises RefusedError (ResourceNotFound)."""
    try:
        return await queues.registry.change(queue, edit)
    except RefusedError as refusal:
        if refusal.fault is not QUEUE_DOES_NOT_EXIST:
            raise
        raise gone(queue) from None

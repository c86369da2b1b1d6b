"""Which queue of the Kinesis API a request means."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from data_plane.core.errors import QUEUE_DOES_NOT_EXIST, RefusedError, kinesis_queue_not_found
from data_plane.core.queue import Queue
from data_plane.operations.stream_address import SERVICE
from data_plane.protocol.operation import (
    Call,
    Operation,
    Params,
    Permission,
    Work,
    no_work,
)
from data_plane.protocol.shapes import Structure

T = TypeVar("T")

_read_arn: Final = re.compile(
    r"arn:aws[^:]*:kinesis:([a-z0-9-]{1,32}):([0-9]{12}):queue/([a-z0-9]{1,64})"
).fullmatch


class QueueId(NamedTuple):
    """Whose queue it is, where, and its id."""

    account: str
    region: str
    id: str


class KnownKinesisQueues(Protocol):
    """Where the data plane learns what a queue is; the control plane answers, from a cache."""

    async def find(self, account: str, region: str, queue_id: str) -> Queue | None:
        """The queue, or None where there is none."""
        ...


def read_queue_arn(arn: str) -> QueueId | None:
    """The queue with this ARN; None for what is no queue's."""
    parts = _read_arn(arn)
    return None if parts is None else QueueId(parts[2], parts[1], parts[3])


def named(account: str, region: str, arn: str) -> QueueId:
    """The queue of a request.

    Raises RefusedError (ResourceNotFound), also for one of another region than the request's, which
    policies go by.
    """
    found = read_queue_arn(arn)
    if found is None:
        raise kinesis_queue_not_found(arn.rpartition("/")[2], account)
    if found.region != region:
        raise kinesis_queue_not_found(found.id, found.account)
    return found


async def queue_of(queues: KnownKinesisQueues, call: Call, arn: str) -> Queue:
    """The queue with this ARN. Raises RefusedError (ResourceNotFound)."""
    name = named(call.account, call.region, arn)
    queue = await queues.find(*name)
    if queue is None:
        raise kinesis_queue_not_found(name.id, name.account)
    return queue


def on_queue(action: str, queue: QueueId) -> Permission:
    """An action on a queue."""
    return Permission(action, queue.account, queue.region, f"queue/{queue.id}", SERVICE)


def permission(action: str) -> Callable[[str, str, Params], Awaitable[Sequence[Permission]]]:
    """What a call on the queue that its parameters name needs."""

    async def needed(account: str, region: str, params: Params) -> Sequence[Permission]:
        arn = params.get("QueueARN")
        if not arn:
            # It is refused for that, once somebody is known who may call at all.
            return [on_queue(action, QueueId(account, region, "*"))]
        return [on_queue(action, named(account, region, arn))]

    return needed


def operation(
    name: str,
    input_: Structure,
    output: Structure,
    perform: Callable[[Call], Awaitable[Params]],
    measure: Callable[[Params, Params], Work] = no_work,
) -> Operation:
    """An operation on the queue that its parameters name."""
    return Operation(
        name,
        input_,
        output,
        perform,
        on_queue=False,
        measure=measure,
        permissions=permission(name),
    )


async def while_there(queue: Queue, work: Awaitable[T]) -> T:
    """What a call to the engine answers, of a queue that may be deleted meanwhile.

    Raises RefusedError (ResourceNotFound).
    """
    try:
        return await work
    except RefusedError as refusal:
        if refusal.fault is not QUEUE_DOES_NOT_EXIST:
            raise
        raise kinesis_queue_not_found(queue.arn.rpartition("/")[2], queue.account) from None

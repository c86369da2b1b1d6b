"""From an operation's call to the queue it is about, and from a queue to its URL."""

from data_plane.core.identifiers import is_queue_name
from data_plane.core.queue import Queue
from data_plane.protocol.operation import Call, Params


def queue_of(call: Call) -> Queue:
    """The queue that the front end resolved for an operation on a queue."""
    if call.queue is None:
        raise TypeError("an operation on a queue was called without one")
    return call.queue


def named(params: Params) -> str:
    """The QueueName of parameters that nobody has validated; "" where it can be no queue's."""
    name = params.get("QueueName") or ""
    return name if is_queue_name(name) else ""


def queue_url(call: Call, account: str, name: str) -> str:
    """The URL under which this caller reaches the queue."""
    return f"{call.base_url}/{account}/{name}"

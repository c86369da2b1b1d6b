"""Receiving from queues that deliver a message at most once: it is deleted before it is shown."""

from typing import Final

from data_plane.core import receipt_handle
from data_plane.core.message import Delivery
from data_plane.core.queue import AT_MOST_ONCE, Queue
from data_plane.operations.message_engine import MessageEngine

_HAND_OVER_S: Final = 30
"""After a crash between lease and delete the message is back in so many seconds."""


async def receive(  # noqa: PLR0913 - as MessageEngine.receive
    engine: MessageEngine,
    queue: Queue,
    *,
    count: int,
    visibility_s: int,
    until_us: int,
    attempt: str = "",
) -> list[Delivery]:
    """As `MessageEngine.receive`, by the queue's delivery guarantee.

    At most once: only what this call itself has deleted, durably, is delivered. What it has leased
    and could not delete is either another receiver's by now, or lost; it is never delivered twice.
    So a repeated `attempt` gets nothing again: it would hold the handles of the first, and whoever
    holds them may delete.
    """
    at_most_once = queue.delivery_guarantee == AT_MOST_ONCE
    deliveries = await engine.receive(
        queue,
        count=count,
        visibility_s=_HAND_OVER_S if at_most_once else visibility_s,
        until_us=until_us,
        attempt="" if at_most_once else attempt,
    )
    if not at_most_once or not deliveries:
        return deliveries
    handles = [receipt_handle.decode(delivery.receipt_handle, queue) for delivery in deliveries]
    outcomes = await engine.delete(queue, handles)
    return [
        delivery for delivery, refusal in zip(deliveries, outcomes, strict=True) if refusal is None
    ]

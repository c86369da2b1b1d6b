"""The stage that holds accounts and queues to what they may store: OverLimit beyond it.

What is stored is known as of about a second ago (tables: ten), so an account may exceed its quota
by what it sends in that time.
"""

from typing import Protocol

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.quotas import SEND
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.ports import AccountQuotas


class StorageUse(Protocol):
    """What lies in the cells of a service, in bytes."""

    capacity_bytes: int
    """What they can hold in all; 0: nobody knows."""

    def met(self, queue: Queue) -> None:
        """The queue is sent to."""
        ...

    async def of_queue(self, queue: Queue) -> int:
        """What the queue's messages take."""
        ...

    async def of_account(self, queue: Queue) -> int:
        """What the messages of all queues of the queue's account take."""
        ...

    async def measure(self) -> None:
        """Look anew; due every second where something runs beside requests.

        Raises CellUnavailableError.
        """
        ...


def hold_to_storage(quotas: AccountQuotas, stored: StorageUse) -> Stage:
    """Refuse sends beyond what the queue, or its account, may store. The whole call is refused."""

    async def check(exchange: Exchange) -> None:
        queue = exchange.queue
        if queue is None or exchange.quota_class != SEND:
            return
        stored.met(queue)
        allowed = (await quotas.find_quotas(queue.account)).stored
        more_bytes = len(exchange.request.body)
        if allowed.queue_bytes:
            of_queue = await stored.of_queue(queue)
            if allowed.queue_bytes < of_queue + more_bytes:
                raise RefusedError(
                    OVER_LIMIT,
                    f"Queue {queue.name} has {of_queue} bytes of messages stored, and its quota is "
                    f"{allowed.queue_bytes}.",
                )
        share_bytes = stored.capacity_bytes * allowed.account_percent // 100
        for quota_bytes in filter(None, (allowed.account_bytes, share_bytes)):
            of_account = await stored.of_account(queue)
            if quota_bytes < of_account + more_bytes:
                raise RefusedError(
                    OVER_LIMIT,
                    f"Account {queue.account} has {of_account} bytes of messages stored, and its "
                    f"quota is {quota_bytes}.",
                )

    return check

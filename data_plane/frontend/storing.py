"""What holds accounts, queues and streams to what they may store: OverLimit beyond it.

What is stored is known as of about a second ago (tables: ten), so an account may exceed its quota
by what it sends in that time.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from data_plane.core.errors import OVER_LIMIT, RefusedError
from data_plane.core.owned import Owned
from data_plane.core.queue import Queue
from data_plane.core.quotas import SEND
from data_plane.core.stream import Stream
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.ports import AccountQuotas


class StorageUse(Protocol):
    """What lies in the cells of a service, in bytes."""

    capacity_bytes: int
    """What they can hold in all; 0: nobody knows."""

    def met(self, owned: Owned) -> None:
        """The queue, or stream, is sent to."""
        ...

    async def of_one(self, owned: Queue | Stream) -> int:
        """What the queue's messages, or the stream's records, take."""
        ...

    async def of_account(self, owned: Queue | Stream) -> int:
        """What all that its account has in queues and streams takes."""
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
        if queue is not None and exchange.quota_class == SEND:
            await _check(quotas, stored, queue, len(exchange.request.body))

    return check


def hold_streams_to_storage(
    quotas: AccountQuotas, stored: StorageUse
) -> Callable[[Stream, int], Awaitable[None]]:
    """What refuses (RefusedError) to put so many bytes into a stream, beyond what may lie there."""

    async def check(stream: Stream, size_bytes: int) -> None:
        await _check(quotas, stored, stream, size_bytes)

    return check


async def _check(
    quotas: AccountQuotas, stored: StorageUse, owned: Queue | Stream, more_bytes: int
) -> None:
    stored.met(owned)
    allowed = (await quotas.find_quotas(owned.account)).stored
    if allowed.queue_bytes:
        of_one = await stored.of_one(owned)
        if allowed.queue_bytes < of_one + more_bytes:
            raise _over(owned, of_one, allowed.queue_bytes)
    share_bytes = stored.capacity_bytes * allowed.account_percent // 100
    for quota_bytes in filter(None, (allowed.account_bytes, share_bytes)):
        of_account = await stored.of_account(owned)
        if quota_bytes < of_account + more_bytes:
            raise RefusedError(
                OVER_LIMIT,
                f"Account {owned.account} has {of_account} bytes stored, and its quota is"
                f" {quota_bytes}.",
            )


def _over(owned: Queue | Stream, of_one: int, quota_bytes: int) -> RefusedError:
    if isinstance(owned, Stream):
        return RefusedError(
            OVER_LIMIT,
            f"Stream {owned.name} has {of_one} bytes of records stored, and its quota is"
            f" {quota_bytes}.",
        )
    return RefusedError(
        OVER_LIMIT,
        f"Queue {owned.name} has {of_one} bytes of messages stored, and its quota is"
        f" {quota_bytes}.",
    )

"""What the message operations need of a store of messages; data_plane.engine.Engine is one."""

from collections.abc import Sequence
from typing import Protocol

from data_plane.core.browsing import Page
from data_plane.core.errors import RefusedError
from data_plane.core.message import Delivery, SendCall, Sent, Stored
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle


class MessageEngine(Protocol):
    """Messages of queues of both types. Every method may raise CellUnavailableError."""

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[Sent]:
        """Store the messages durably; what became of each, in order.

        FIFO queues deduplicate: a duplicate is answered with the id and sequence number of the
        first. What was not there before is added to `stored`.
        """
        ...

    async def receive(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int, attempt: str = ""
    ) -> list[Delivery]:
        """Up to `count` messages, hidden for `visibility_s`; wait for one until `until_us`.

        `attempt` is the ReceiveRequestAttemptId ("": none), on FIFO queues alone: the same one
        gets the same messages again.
        """
        ...

    async def browse(self, queue: Queue, *, count: int, position: bytes = b"") -> Page:
        """Up to `count` messages as they lie in the queue; nothing is changed by it.

        `position` is where a page before said that this one begins (b"": the first page). Raises
        RefusedError for what no page has said.
        """
        ...

    async def delete(
        self, queue: Queue, handles: Sequence[ReceiptHandle]
    ) -> list[RefusedError | None]:
        """One outcome per handle."""
        ...

    async def change_visibility(
        self,
        queue: Queue,
        changes: Sequence[tuple[ReceiptHandle, int]],
        *,
        extended: bool = False,
        repeated: bool = False,
    ) -> list[RefusedError | None]:
        """One outcome per handle and new timeout in seconds, counted from now.

        SQS's bound on the total time since the receive does not hold for `extended` changes. An
        earlier attempt of a `repeated` call may have done the same.
        """
        ...

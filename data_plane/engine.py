"""The engine of all queues: the log for FIFO ones and those over streams, else the bag."""

from collections.abc import Awaitable, Callable, Sequence

from data_plane.bag.engine import Bag
from data_plane.core.begun import note_begun
from data_plane.core.browsing import Page
from data_plane.core.errors import RefusedError
from data_plane.core.message import Counts, Delivery, Redriven, SendCall, Sent, Stored
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.core.settling import Wish
from data_plane.log.engine import Log
from data_plane.log.settling import Outcome
from data_plane.stored.cell_of_queue import Placed
from data_plane.stored.moves import Target


class Engine:
    """Queues of both types, each on the engine of its type.

    All coroutines raise CellUnavailableError where a cell fails them, and
    RefusedError(QueueDoesNotExist) for a queue that was dropped.
    """

    def __init__(self, bag: Bag, log: Log) -> None:
        self.bag = bag
        self.log = log
        self.before_sends: Callable[[Queue], Awaitable[None]] | None = None
        """Awaited before each send to a queue."""

    def _of(self, queue: Queue) -> Bag | Log:
        return self.log if queue.is_log else self.bag

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[Sent]:
        """Store the messages; durable when it returns. What became of each, in order.

        A duplicate in a FIFO queue is answered with the id and sequence number of the first. What
        was not there before is added to `stored`.
        """
        if self.before_sends is not None:
            await self.before_sends(queue)
        if queue.fifo:
            return await self.log.send(queue, call, stored=stored)
        ids = await self.bag.send(queue, call, stored=stored)
        return [Sent(message_id) for message_id in ids]

    async def receive(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int, attempt: str = ""
    ) -> list[Delivery]:
        """Lease up to `count` messages for `visibility_s`; the leases are durable when it returns.

        Waits for a first message until `until_us`. `attempt` is the ReceiveRequestAttemptId of a
        receive from a FIFO queue ("": none).
        """
        if queue.is_log:
            return await self.log.receive(
                queue, count=count, visibility_s=visibility_s, until_us=until_us, attempt=attempt
            )
        return await self.bag.receive(
            queue, count=count, visibility_s=visibility_s, until_us=until_us
        )

    async def receive_records(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int
    ) -> list[Delivery]:
        """As `receive`, from a queue of the Kinesis API: dead letters where it is seen so."""
        return await self.log.receive_records(
            queue, count=count, visibility_s=visibility_s, until_us=until_us
        )

    async def settle(self, queue: Queue, wishes: Sequence[Wish]) -> list[Outcome]:
        """Acknowledge, hide or restore records of a queue of the Kinesis API. See `Log.settle`."""
        note_begun()  # likewise
        return await self.log.settle(queue, wishes)

    async def redrive(self, queue: Queue, *, count: int, target: Target) -> Redriven:
        """Move up to `count` messages that are visible now to the queues that `target` says.

        What it refuses (RefusedError) stays. A redriven message has a new id and is sent anew.
        """
        return await self._of(queue).redrive(queue, count=count, target=target)

    async def delete(
        self, queue: Queue, handles: Sequence[ReceiptHandle]
    ) -> list[RefusedError | None]:
        """Delete messages for good. One outcome for each handle."""
        note_begun()  # it ends what a receive has begun
        return await self._of(queue).delete(queue, handles)

    async def change_visibility(
        self,
        queue: Queue,
        changes: Sequence[tuple[ReceiptHandle, int]],
        *,
        extended: bool = False,
        repeated: bool = False,
    ) -> list[RefusedError | None]:
        """Make leased messages visible again so many seconds from now (0: at once).

        SQS's bound on the total time since the receive does not hold for `extended` changes. An
        earlier attempt of a `repeated` call may have done the same.
        """
        note_begun()  # likewise: who waits for it has work in hand
        return await self._of(queue).change_visibility(
            queue, changes, extended=extended, repeated=repeated
        )

    async def browse(self, queue: Queue, *, count: int, position: bytes = b"") -> Page:
        """A page of messages as they lie there, in the order of the queue's engine.

        See `Bag.browse` and `Log.browse`.
        """
        return await self._of(queue).browse(queue, count=count, position=position)

    async def counts(self, queue: Queue) -> Counts:
        """The queue's approximate numbers of messages."""
        return await self._of(queue).counts(queue)

    def starting_us(self, stream: Placed, position: str, time_us: int) -> int:
        """The first `purged_us` of a queue that is to read this stream from a position on."""
        return self.log.starting_us(stream, position, time_us)

    async def retention_s(self, queue: Queue) -> int:
        """For how long the queue's messages are kept: those of a stream, as it says."""
        return await self.log.retention_s(queue) if queue.reads_stream else queue.retention_s

    async def purge(self, queue: Queue) -> int:
        """A stamp above those of all messages sent before, and below those of all sent later.

        The caller makes it the definition's `purged_us`; nothing is purged before.
        """
        return await self._of(queue).purge(queue)

    async def restamp(self, queue: Queue) -> None:
        """Let what is stored live by this retention, before a raised one comes into force."""
        await self._of(queue).restamp(queue)

    def changed(self, queue: Queue) -> None:
        """The queue's definition was changed to this: calls under way decide by it what is over."""
        self._of(queue).changed(queue)

    def dropped(self, queue: Queue) -> None:
        """The queue was deleted: its waiting receives end, and what is remembered of it goes."""
        self._of(queue).dropped(queue)

    @property
    def damaged_segments(self) -> int:
        """How many segments could not be read; their messages stay stored, undelivered."""
        return self.bag.damaged_segments + self.log.damaged_segments

    @property
    def upkeep_is_due(self) -> bool:
        """Whether `sweep` should not wait for its time; a log's receives see to that."""
        return self.bag.upkeep_is_due

    async def sweep(self) -> None:
        """One bounded step of background upkeep; to be called every second or so."""
        try:
            await self.bag.sweep()
        except Exception:  # not where the task is dropped, which awaits nothing any more
            await self.log.sweep()
            raise
        await self.log.sweep()

    async def sweep_bodies(self) -> None:
        """As `sweep`, for bodies apart: by itself, because it waits for the blob store."""
        await self.bag.sweep_bodies()  # Both engines have their bodies in the same stores.

    async def drop_past_counters(self, queue: Queue) -> None:
        """Let go of counters that no count needs any more; now and then for each queue in use."""
        await self._of(queue).drop_past_counters(queue)

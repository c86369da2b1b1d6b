"""The log engine as its callers see it. Each method is a module of this package."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from types import MappingProxyType

from data_plane.core.browsing import Page
from data_plane.core.errors import RefusedError
from data_plane.core.message import Counts, Delivery, Redriven, SendCall, Sent, Stored
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.core.settling import ACKNOWLEDGE, Wish
from data_plane.log import (
    appending,
    attempts,
    browsing,
    deleting,
    receiving,
    sending,
    settling,
    streamed,
    upkeep,
    visibility,
)
from data_plane.log.desk import Desk, channel, open_generations
from data_plane.log.layers import read_by
from data_plane.log.sources import Sources
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy, Queues, Waits
from data_plane.stored import counting
from data_plane.stored.bodies import BodyStore
from data_plane.stored.cell_of_queue import Placed, cell_of
from data_plane.stored.data_keys import DataKeys
from data_plane.stored.moves import StandardCopies, Target
from data_plane.stored.sent_minutes import SentMinutes
from data_plane.stored.world_time import in_world_time, page_in_world_time

EVERYONE = 1 << 30


class Log:
    """FIFO queues on cells; `bodies` has, by cell, where those too big for its items go.

    `queues` knows those that messages move to; without it none do. Without `data_keys` no queue can
    have a KMS key. A receive delivers `answer_bytes_max` of messages, or one message. `sources` are
    the streams that queues read; `copies` stores the dead letters of their standard ones.

    All methods raise CellUnavailableError where a cell fails them, and
    RefusedError(QueueDoesNotExist) for a queue that was dropped.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a front end is these ports
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
        bodies: Mapping[str, BodyStore] = MappingProxyType({}),
        queues: Queues | None = None,
        data_keys: DataKeys | None = None,
        answer_bytes_max: int | None = None,
        sources: Sources | None = None,
        copies: StandardCopies | None = None,
    ) -> None:
        self._desk = Desk(
            cells,
            clock,
            entropy,
            waits,
            bodies,
            queues,
            data_keys,
            answer_bytes_max,
            sources,
            copies,
        )

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[Sent]:
        """Store the messages in their order, each once; durable when it returns.

        Every message has a group and a deduplication id. A duplicate of a message of the last
        five minutes is answered with what that one got; others are added to `stored`.
        """
        return await sending.send(
            self._desk, queue, call.sender, call.messages, batch=call.batch, stored=stored
        )

    async def receive(
        self,
        queue: Queue,
        *,
        count: int,
        visibility_s: int,
        until_us: int,
        attempt: str = "",
    ) -> list[Delivery]:
        """Lease up to `count` messages for `visibility_s`, in order within each group.

        Waits for a first message until `until_us`. The leases are durable when it returns. With
        the `attempt` of an earlier receive it gets what that one took, if it is still held;
        InvalidParameterValue where some of that was deleted, or had its visibility changed.
        """
        if attempt:
            queue = await read_by(self._desk, queue)
            again = await attempts.repeat(self._desk, queue, attempt, visibility_s)
            if again:
                return in_world_time(again, cell_of(self._desk.cells, queue).eras)
        deliveries = await receiving.receive(
            self._desk, queue, count=count, visibility_s=visibility_s, until_us=until_us
        )
        if attempt and deliveries:
            with suppress(CellUnavailableError):  # What was taken is handed out all the same.
                await attempts.remember(self._desk, queue, attempt, deliveries, visibility_s)
        return in_world_time(deliveries, cell_of(self._desk.cells, queue).eras)

    async def receive_records(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int
    ) -> list[Delivery]:
        """As `receive`, from a queue of the Kinesis API: dead letters where it is seen so.

        Nothing where as many are in flight as may be.
        """
        flying, now_us = self._desk.in_flight_of(queue), self._desk.clock.now_us()
        if flying.must_look(now_us):
            cell = cell_of(self._desk.cells, queue)
            flying.looked(await counting.in_flight(cell, queue, now_us), now_us)
        if flying.is_full:
            return []
        found = await self.receive(queue, count=count, visibility_s=visibility_s, until_us=until_us)
        flying.granted(len(found))
        return found

    async def settle(self, queue: Queue, wishes: Sequence[Wish]) -> list[settling.Outcome]:
        """Acknowledge, hide or restore records of a queue of the Kinesis API, by their handles.

        Of each: why that cannot be, or CellUnavailableError. Where the queue is seen as one of dead
        letters, their handles are good, and no others.
        """
        outcomes = await settling.settle(self._desk, await read_by(self._desk, queue), wishes)
        acknowledged = [wish.act == ACKNOWLEDGE for wish in wishes]
        self._desk.in_flight_of(queue).deleted(outcomes.count(None) if all(acknowledged) else 0)
        return outcomes

    async def redrive(self, queue: Queue, *, count: int, target: Target) -> Redriven:
        """Move up to `count` messages that are visible now to the queues that `target` says.

        In order within each group. What it refuses (RefusedError) stays, and what is behind it in
        its group. A redriven message has a new id and is sent anew.
        """
        return await receiving.redrive(self._desk, queue, count=count, target=target)

    async def delete(
        self, queue: Queue, handles: Sequence[ReceiptHandle]
    ) -> list[RefusedError | None]:
        """Delete messages whose leases last; InvalidParameterValue for the others."""
        return await deleting.delete(self._desk, await read_by(self._desk, queue), handles)

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
        queue = await read_by(self._desk, queue)
        return await visibility.change_visibility(
            self._desk, queue, changes, extended=extended, repeated=repeated
        )

    async def browse(self, queue: Queue, *, count: int, position: bytes = b"") -> Page:
        """A page of up to `count` messages as they lie there, of 1 MiB at most if of several.

        They are in the order of the log, which is that of each group. Else as `Bag.browse`.
        """
        page = await browsing.browse(self._desk, queue, count=count, position=position)
        return page_in_world_time(page, cell_of(self._desk.cells, queue).eras)

    def starting_us(self, stream: Placed, position: str, time_us: int) -> int:
        """Of a queue that is to read this stream from there: its first `purged_us`."""
        return streamed.starting_us(self._desk, stream, position, time_us)

    async def retention_s(self, queue: Queue) -> int:
        """For how long the queue's messages are kept: those of a stream, as it says."""
        return (await read_by(self._desk, queue)).retention_s

    async def counts(self, queue: Queue) -> Counts:
        """The queue's approximate numbers of messages."""
        records = None
        if queue.reads_stream:
            queue = await read_by(self._desk, queue)
            records = await streamed.records(self._desk, queue)
        return await counting.counts(
            cell_of(self._desk.cells, queue), queue, self._desk.clock.now_us(), records
        )

    async def purge(self, queue: Queue) -> int:
        """A stamp above those of all messages sent before; duplicates of those are none any more.

        The caller makes it the definition's `purged_us`; nothing is purged before.
        """
        if queue.reads_stream:
            return await streamed.purge(self._desk, queue)
        while True:
            generations = open_generations(self._desk, queue)
            purged_us = await appending.purge(list(chain.from_iterable(generations)))
            if len(open_generations(self._desk, queue)) == len(generations):
                return purged_us

    async def restamp(self, queue: Queue) -> None:
        """Let what is stored live by this retention, before a raised one comes into force.

        Reads the whole queue and writes it anew in part: takes time with the backlog.
        """
        if not queue.reads_stream:  # whose records are the stream's to keep
            await upkeep.restamp(self._desk, queue)

    def changed(self, queue: Queue) -> None:
        """The queue's definition was changed to this: calls under way decide by it what is over."""
        for partition in self._desk.partitions.values():
            if partition.queue.uid == queue.uid:
                partition.queue = partition.newest(queue)

    def dropped(self, queue: Queue) -> None:
        """The queue was deleted: its waiting receives end, and what is remembered of it goes."""
        self._desk.drop(queue)
        self._desk.waits.signal(channel(queue), EVERYONE)

    @property
    def sent(self) -> SentMinutes:
        """What this front end has sent to cells without a ledger."""
        return self._desk.sent

    @property
    def damaged_segments(self) -> int:
        """How many slots could not be read; their messages stay stored, undelivered."""
        return self._desk.damaged_segments

    async def sweep(self) -> None:
        """One bounded step of background upkeep; to be called every second or so."""
        await upkeep.sweep(self._desk)

    async def drop_past_counters(self, queue: Queue) -> None:
        """Let go of counters that no count needs any more; now and then for each queue in use."""
        cell, now_us = cell_of(self._desk.cells, queue), self._desk.clock.now_us()
        await counting.drop_past(cell, await read_by(self._desk, queue), now_us)
        if not self._desk.damaged_segments and not queue.reads_stream:
            await counting.settle(cell, queue, now_us, partial(self._page_at, queue))

    async def _page_at(self, queue: Queue, position: bytes) -> Page:
        return await self.browse(queue, count=1, position=position)

"""The bag engine as its callers see it. Each method is a module of this package."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from data_plane.bag import (
    browsing,
    deleting,
    fair,
    moving,
    receiving,
    sending,
    upkeep,
    visibility,
)
from data_plane.bag.desk import Desk, channel, open_lane
from data_plane.core.browsing import Page
from data_plane.core.errors import RefusedError
from data_plane.core.message import Counts, Delivery, Message, Redriven, SendCall, Stored
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Cell, Clock, Entropy, Queues, Waits
from data_plane.stored import counting
from data_plane.stored.bodies import BodyStore
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.data_keys import DataKeys
from data_plane.stored.moves import Move, Target
from data_plane.stored.sent_minutes import SentMinutes
from data_plane.stored.world_time import in_world_time, page_in_world_time

EVERYONE = 1 << 30


class Bag:
    """Standard queues on cells; `bodies` has, by cell, where those too big for its items go.

    `queues` knows those that messages move to; without it none do. Without `data_keys` no queue can
    have a KMS key. A receive delivers `answer_bytes_max` of messages, or one message.

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
    ) -> None:
        for name in bodies:
            if cells[name].chooses_stamps:
                raise ValueError(f"cell {name}: bodies lie apart only where stamps are proposed")
        self._desk = Desk(cells, clock, entropy, waits, bodies, queues, data_keys, answer_bytes_max)

    async def send(
        self, queue: Queue, call: SendCall, *, stored: Stored | None = None
    ) -> list[bytes]:
        """Store the messages; durable when it returns. Their 16-byte ids, in order.

        What is stored, and was not there before, is added to `stored`.
        """
        return await sending.send(self._desk, queue, call, stored or Stored())

    async def receive(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int
    ) -> list[Delivery]:
        """Lease up to `count` messages for `visibility_s`; the leases are durable when it returns.

        Waits for a first message until `until_us`.
        """
        deliveries = await receiving.receive(
            self._desk, queue, count=count, visibility_s=visibility_s, until_us=until_us
        )
        return in_world_time(deliveries, cell_of(self._desk.cells, queue).eras)

    async def redrive(self, queue: Queue, *, count: int, target: Target) -> Redriven:
        """Move up to `count` messages that are visible now to the queues that `target` says.

        What it refuses (RefusedError) stays. A redriven message has a new id and is sent anew.
        """
        return await receiving.redrive(self._desk, queue, count=count, target=target)

    async def store_copy(self, move: Move, copy: Message, block: bytes, index: int) -> None:
        """Store a copy that moves here from another engine's queue. See `StandardCopies`."""
        await moving.store_copy(self._desk, move, copy, block, index)

    async def delete(
        self, queue: Queue, handles: Sequence[ReceiptHandle]
    ) -> list[RefusedError | None]:
        """Delete messages for good; old handles work too. One outcome for each handle."""
        return await deleting.delete(self._desk, queue, handles)

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
        return await visibility.change_visibility(
            self._desk, queue, changes, extended=extended, repeated=repeated
        )

    async def browse(self, queue: Queue, *, count: int, position: bytes = b"") -> Page:
        """A page of up to `count` messages as they lie there, of 1 MiB at most if of several.

        They are in order of the lanes, and in each of when they became, or become, visible; what
        is in flight may stand where it becomes visible again. A page may be short, or empty,
        before the last one. Nothing is written, and what changes between two pages shows or does
        not. Raises RefusedError for a position that no page has had.
        """
        page = await browsing.browse(self._desk, queue, count=count, position=position)
        return page_in_world_time(page, cell_of(self._desk.cells, queue).eras)

    async def counts(self, queue: Queue) -> Counts:
        """The queue's approximate numbers of messages."""
        return await counting.counts(
            cell_of(self._desk.cells, queue), queue, self._desk.clock.now_us()
        )

    async def purge(self, queue: Queue) -> int:
        """A stamp above those of all messages sent before, and below those of all sent later.

        The caller makes it the definition's `purged_us`; nothing is purged before.
        """
        return await upkeep.mark_purge(open_lane(self._desk, queue))

    async def restamp(self, queue: Queue) -> None:
        """Let what is stored live by this retention, before a raised one comes into force.

        Reads the whole queue and writes it anew in part: takes time with the backlog.
        """
        at = open_lane(self._desk, queue)
        await fair.learn(at)
        for number in range(at.lanes.deepest + 1):
            await upkeep.restamp(at.in_lane(number))

    def changed(self, queue: Queue) -> None:
        """The queue's definition was changed to this: calls under way decide by it what is over."""
        lanes = self._desk.lanes.get(queue.uid)
        if lanes is not None:
            lanes.queue = lanes.newest(queue)

    def dropped(self, queue: Queue) -> None:
        """The queue was deleted: its waiting receives end, and what is remembered of it goes."""
        lanes = self._desk.lanes.get(queue.uid)
        if lanes is not None and not lanes.dropped:
            lanes.dropped = True
            lanes.leave_shelf()
            self._desk.waits.signal(channel(lanes), EVERYONE)

    @property
    def sent(self) -> SentMinutes:
        """What this front end has sent to cells without a ledger."""
        return self._desk.sent

    @property
    def damaged_segments(self) -> int:
        """How many segments could not be read; their messages stay stored, undelivered."""
        return self._desk.damaged_segments

    @property
    def upkeep_is_due(self) -> bool:
        """Whether `sweep` should not wait for its time."""
        return upkeep.is_due(self._desk)

    async def sweep(self) -> None:
        """One bounded step of background upkeep; to be called every second or so."""
        await upkeep.sweep(self._desk)

    async def sweep_bodies(self) -> None:
        """As `sweep`, for bodies apart: by itself, because it waits for the blob store."""
        await upkeep.sweep_bodies(self._desk)

    async def drop_past_counters(self, queue: Queue) -> None:
        """Let go of counters that no count needs any more; now and then for each queue in use."""
        cell, now_us = cell_of(self._desk.cells, queue), self._desk.clock.now_us()
        await counting.drop_past(cell, queue, now_us)
        if not self._desk.damaged_segments:
            await counting.settle(cell, queue, now_us, partial(self._page_at, queue))

    async def _page_at(self, queue: Queue, position: bytes) -> Page:
        return await self.browse(queue, count=1, position=position)

"""What the operations of the log share in one front end: ports, identity, partitions."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from data_plane.core.eras import ONE_TIME
from data_plane.core.errors import queue_does_not_exist
from data_plane.core.limits import RETENTION_S_MAX, STREAM_RETENTION_HOURS_MAX
from data_plane.core.queue import Generation, Queue
from data_plane.core.stream import Stream
from data_plane.log.bounds import PARTITIONS_MAX, SLOT_TTL_SLACK_S
from data_plane.log.partition import Partition
from data_plane.log.reader import Reader
from data_plane.log.sources import Sources
from data_plane.ports import Cell, Clock, Entropy, Queues, Waits
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import STATE_TTL_SLACK_S
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.data_keys import DataKeys, QueueKeys
from data_plane.stored.in_flight import InFlight
from data_plane.stored.lease import TOKEN_BYTES, WRITER_BYTES
from data_plane.stored.ledger import Ledgers
from data_plane.stored.moves import StandardCopies
from data_plane.stored.sent_minutes import SentMinutes
from data_plane.stored.shelf import Shelf

GROUP_SCOPE = "messageGroup"


class Desk:
    """One front end's side of the log. `writer` names it in nonces and leases.

    `queues` knows those that messages move to; without it none do. Without `data_keys` there are
    managed ones alone. A receive delivers `answer_bytes_max` of messages, or one message. Without
    `sources` there are no queues over streams; their dead letters go to standard queues by
    `copies`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a front end is these ports
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
        bodies: Mapping[str, BodyStore],
        queues: Queues | None,
        data_keys: DataKeys | None,
        answer_bytes_max: int | None = None,
        sources: Sources | None = None,
        copies: StandardCopies | None = None,
    ) -> None:
        self.answer_bytes_max = answer_bytes_max
        self.sources = sources
        self.copies = copies
        self.cells = cells
        self.ledgers = Ledgers(cells)
        self.data_keys = data_keys or DataKeys(clock, entropy, waits)
        self.queues = queues
        self.bodies = bodies
        self.clock = clock
        self.entropy = entropy
        self.waits = waits
        self.writer = entropy.random_bytes(WRITER_BYTES)
        self.sent = SentMinutes(self.writer, cells)
        self._shelf = Shelf()
        self.partitions: OrderedDict[tuple[str, int, int], Partition] = OrderedDict()
        self.dropped: OrderedDict[str, None] = OrderedDict()
        self.learnt: OrderedDict[str, tuple[Generation, ...]] = OrderedDict()
        self.in_flight: OrderedDict[str, InFlight] = OrderedDict()
        self.streams_met: OrderedDict[str, Stream] = OrderedDict()
        self.as_read: OrderedDict[str, tuple[Queue, Stream, Queue]] = OrderedDict()
        self.damaged_segments = 0
        self._tokens_given = 0

    def new_token(self) -> bytes:
        """A nonce for one write of a slot or of leases."""
        self._tokens_given += 1
        return self.writer + self._tokens_given.to_bytes(TOKEN_BYTES - WRITER_BYTES, "big")

    def partition(self, queue: Queue, number: int, generation: int) -> Partition:
        """What this front end remembers of a partition."""
        key = (queue.uid, number, generation)
        found = self.partitions.get(key)
        queue = queue if found is None else found.newest(queue)
        cell = self.cells.get(queue.cell)
        eras = cell.eras if cell is not None else ONE_TIME
        if found is None or found.eras is not eras:
            # What was passed over as expired, by a clock that was ahead, may not have expired.
            if found is not None:
                found.reader.held.leave_shelf()
            reader = Reader(self.writer, eras, keeps=queue.reads_stream, shelf=self._shelf)
            found = Partition(queue, number, generation, reader)
            self.partitions[key] = found
            if len(self.partitions) > PARTITIONS_MAX:
                self.forget(next(iter(self.partitions)))
        else:
            self.partitions.move_to_end(key)
            found.queue = queue
        found.used_us = self.clock.now_us()
        return found

    def generations(self, queue: Queue) -> tuple[Generation, ...]:
        """By the queue's definition, or by the ends of its logs where those say more."""
        learnt = self.learnt.get(queue.uid)
        if learnt is None:
            return queue.generations
        if learnt[-1].number <= queue.generations[-1].number:
            # Calls that began with an older definition must not know less than before.
            learnt = self.learnt[queue.uid] = queue.generations
        return learnt

    def learn(self, queue: Queue, following: Generation) -> None:
        """An end was met that a newer definition has put there."""
        known = self.generations(queue)
        if following.number > known[-1].number:
            self.learnt[queue.uid] = (*known, following)
            if len(self.learnt) > PARTITIONS_MAX:
                self.learnt.popitem(last=False)

    def meet(self, stream: Stream) -> None:
        """A stream was looked up; the newest definition of each is remembered."""
        met = self.streams_met.get(stream.uid)
        if met is None or met.version <= stream.version:
            self.streams_met[stream.uid] = stream
        self.streams_met.move_to_end(stream.uid)
        if len(self.streams_met) > PARTITIONS_MAX:
            self.streams_met.popitem(last=False)

    def in_flight_of(self, queue: Queue) -> InFlight:
        """What this front end knows of how many messages of a queue are in flight."""
        found = self.in_flight.setdefault(queue.uid, InFlight())
        self.in_flight.move_to_end(queue.uid)
        if len(self.in_flight) > PARTITIONS_MAX:
            self.in_flight.popitem(last=False)
        return found

    def is_dropped(self, queue: Queue) -> bool:
        """Whether this front end knows that the queue was deleted."""
        return queue.uid in self.dropped

    def drop(self, queue: Queue) -> None:
        """The queue is no more; nothing that is remembered of it is of use."""
        self.dropped[queue.uid] = None
        if len(self.dropped) > PARTITIONS_MAX:
            self.dropped.popitem(last=False)
        for key in [key for key in self.partitions if key[0] == queue.uid]:
            self.forget(key)

    def forget(self, key: tuple[str, int, int]) -> None:
        """Let go of what is remembered of a partition: of its queue's uid, number, generation."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.reader.held.leave_shelf()


@dataclass(frozen=True, slots=True)
class Access:
    """One operation's access to a partition, through the front end's desk."""

    desk: Desk
    queue: Queue
    partition: Partition
    behind: Sequence[Reader] = ()
    """Those that are to be read to their ends before this one."""

    @property
    def may_be_read(self) -> bool:
        """Whether all before it was read."""
        return all(reader.end is not None for reader in self.behind)

    @property
    def newest(self) -> Queue:
        """What decides which messages are over: what is passed over so is gone for good.

        One call may go by an older definition than others have met. A stream's retention is asked
        for anew by each look, and when a page was read.
        """
        if not self.queue.reads_stream:
            return self.partition.queue
        met = self.desk.streams_met.get(self.queue.stream_uid)
        if met is None:
            return self.queue
        kept = (met.retention_s, met.expired_us)
        if kept == (self.queue.retention_s, self.queue.expired_us):
            return self.queue
        return replace(self.queue, retention_s=met.retention_s, expired_us=met.expired_us)

    @property
    def over_us(self) -> int:
        """All records up to this stamp are expired, or purged."""
        queue = self.newest
        expired_us = self.partition.eras.before_us(
            self.cell.now_us(), queue.retention_s * 1_000_000
        )
        return max(queue.purged_us, queue.expired_us, expired_us)

    @property
    def cell(self) -> Cell:
        """The cell that holds the partition."""
        return cell_of(self.desk.cells, self.queue)

    @property
    def bodies(self) -> BodyStore | None:
        """Where the cell has bodies that are too big for it, if it has such a place."""
        return self.desk.bodies.get(self.queue.cell)

    @property
    def data_keys(self) -> QueueKeys:
        """What the queue's messages are sealed with."""
        return self.desk.data_keys.of(self.queue)

    def now_us(self) -> int:
        """This front end's clock, in microseconds."""
        return self.desk.clock.now_us()

    def now_ms(self) -> int:
        """This front end's clock, in milliseconds."""
        return self.desk.clock.now_us() // 1000

    def slot_ttl_s(self, stamp_us: int) -> int:
        """When a slot with this stamp may be removed, unless the slot below says later."""
        own_s = stamp_us // 1_000_000 + self.queue.retention_s + SLOT_TTL_SLACK_S
        return max(own_s, self.partition.expires_s_min)

    def state_ttl_s(self) -> int:
        """When a block state written now may be removed: after all of its messages.

        Whatever the retention: others may know already that it was raised.
        """
        longest_s = RETENTION_S_MAX
        if self.queue.reads_stream and self.queue.retention_s > RETENTION_S_MAX:
            longest_s = STREAM_RETENTION_HOURS_MAX * 3_600
        return self.now_us() // 1_000_000 + longest_s + STATE_TTL_SLACK_S


def open_generations(desk: Desk, queue: Queue) -> list[list[Access]]:
    """Access to the partitions of each generation, the earliest first.

    Raises RefusedError where the queue was deleted meanwhile.
    """
    if queue.uid in desk.dropped:
        raise queue_does_not_exist()
    return [
        [
            Access(desk, queue, desk.partition(queue, number, generation.number))
            for number in range(generation.partitions)
        ]
        for generation in desk.generations(queue)
    ]


def access_of(desk: Desk, queue: Queue, number: int, generation: int) -> Access:
    """Access to the partition that a receipt handle names. Raises as `open_generations`."""
    if queue.uid in desk.dropped:
        raise queue_does_not_exist()
    return Access(desk, queue, desk.partition(queue, number, generation))


def has_group_scope(queue: Queue) -> bool:
    """Whether messages of different groups are never duplicates of each other."""
    return queue.attributes.get("DeduplicationScope") == GROUP_SCOPE


def channel(queue: Queue) -> tuple[str, str]:
    """The channel on which receives of a queue wait: with those of all queues over a stream."""
    return ("log", queue.stream_uid or queue.uid)

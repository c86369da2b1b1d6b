"""What the operations of the bag share in one front end: ports, identity, lanes, recent calls."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from data_plane.bag.bounds import CALLS_REMEMBERED_MAX, LANES_MAX, UNSURE_CALLS_MAX
from data_plane.bag.calls import CallPart, merge_ids
from data_plane.bag.lane import Lane
from data_plane.bag.lanes import QueueLanes
from data_plane.core.eras import ONE_TIME
from data_plane.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    RECEIPT_HANDLE_IS_INVALID,
    RefusedError,
)
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.ports import Append, Cell, Clock, Entropy, Queues, Waits, is_replicated
from data_plane.stored import keys
from data_plane.stored.bodies import BodyStore
from data_plane.stored.bounds import FAIR_LANES, STATE_TTL_SLACK_S
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.data_keys import DataKeys, QueueKeys
from data_plane.stored.lease import TOKEN_BYTES, WRITER_BYTES
from data_plane.stored.ledger import Ledgers
from data_plane.stored.sent_minutes import SentMinutes
from data_plane.stored.shelf import Shelf


class Attempt(NamedTuple):
    """A segment to append to a lane, and what it holds of SDK calls that have a name."""

    record: Append
    parts: Sequence[CallPart] = ()
    lane: int = 0


class Desk:
    """One front end's side of the bag. `writer` names it in blocks and leases.

    `queues` knows those that messages move to; without it none do. Without `data_keys` there are
    managed ones alone. A receive delivers `answer_bytes_max` of messages, or one message.
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
    ) -> None:
        self.answer_bytes_max = answer_bytes_max
        self.cells = cells
        self.ledgers = Ledgers(cells)
        self.data_keys = data_keys or DataKeys(clock, entropy, waits)
        self.bodies = bodies
        self.queues = queues
        self.clock = clock
        self.entropy = entropy
        self.waits = waits
        self.writer = entropy.random_bytes(WRITER_BYTES)
        self.sent = SentMinutes(self.writer, cells)
        self.lanes: OrderedDict[str, QueueLanes] = OrderedDict()
        self._shelf = Shelf()
        self._calls: dict[bytes, bytes] = {}
        self._earlier_calls: dict[bytes, bytes] = {}
        self._unsure: dict[bytes, list[Attempt]] = {}
        self.calls_under_way: dict[bytes, int] = {}
        """SDK calls of which something may still be stored: how many parts, and a caller."""
        self.calls_awaited: dict[bytes, int] = {}
        self.damaged_segments = 0
        self._blocks_opened = 0
        self._tokens_given = 0

    def lanes_of(self, queue: Queue) -> QueueLanes:
        """The queue's lanes. Raises RefusedError where the queue was deleted meanwhile."""
        lanes = self.lanes.get(queue.uid)
        queue = queue if lanes is None else lanes.newest(queue)
        cell = cell_of(self.cells, queue) if queue.cell in self.cells else None
        eras = cell.eras if cell is not None else ONE_TIME
        decider = cell.decider() if is_replicated(cell) else ""
        if lanes is None or (
            (lanes.decider != decider or lanes.eras is not eras) and not lanes.dropped
        ):
            # What another member has granted, the one that decides now may not have heard of; and
            # what was passed over as expired, by a clock that was ahead, may not have expired.
            if lanes is not None:
                lanes.leave_shelf()
            lanes = self.lanes[queue.uid] = QueueLanes(
                queue, self.writer, decider, eras, self._shelf
            )
            if len(self.lanes) > LANES_MAX:
                self.lanes.popitem(last=False)[1].leave_shelf()
        else:
            self.lanes.move_to_end(queue.uid)
            lanes.queue = queue
        if lanes.dropped:
            raise RefusedError(QUEUE_DOES_NOT_EXIST, "The specified queue does not exist.")
        return lanes

    def is_dropped(self, queue: Queue) -> bool:
        """Whether this front end knows that the queue was deleted."""
        lanes = self.lanes.get(queue.uid)
        return lanes is not None and lanes.dropped

    def new_block(self) -> bytes:
        """An id that no other block has."""
        self._blocks_opened += 1
        return self.writer + self._blocks_opened.to_bytes(4, "big")

    def new_token(self) -> bytes:
        """A nonce for one write of leases."""
        self._tokens_given += 1
        return self.writer + self._tokens_given.to_bytes(TOKEN_BYTES - WRITER_BYTES, "big")

    def begin_call(self, call: bytes) -> None:
        """Something of an SDK call may be stored until `end_call`, whoever waits for it."""
        self.calls_under_way[call] = self.calls_under_way.get(call, 0) + 1

    def end_call(self, call: bytes) -> None:
        """What `begin_call` said is over."""
        left = self.calls_under_way.pop(call) - 1
        if left:
            self.calls_under_way[call] = left
        elif call in self.calls_awaited:
            self.waits.signal(("call", call), self.calls_awaited.pop(call))

    def remember_call(self, part: CallPart, stamp_us: int, purged_us: int) -> None:
        """Keep the message ids that an SDK call was given, one after the other, for its retries.

        Before them the lowest stamp of its parts, unless that was purged.
        """
        known = self._known_call(part.call, purged_us)
        if known is not None:
            stamp_us = min(stamp_us, keys.slice_of(known))
        ids = merge_ids(known and known[keys.SLICE_BYTES :], part)
        self._calls[part.call] = keys.be64(stamp_us) + ids
        if len(self._calls) * 2 > CALLS_REMEMBERED_MAX:
            # Two dicts of plain bytes: the garbage collector does not walk over those.
            self._calls, self._earlier_calls = {}, self._calls

    def ids_of_call(self, call: bytes, purged_us: int) -> bytes:
        """The ids that an SDK call was given, if it is remembered; zeros for unknown ones.

        None of a call of which anything was purged.
        """
        return (self._known_call(call, purged_us) or b"")[keys.SLICE_BYTES :]

    def _known_call(self, call: bytes, purged_us: int) -> bytes | None:
        known = self._calls.get(call) or self._earlier_calls.get(call)
        return known if known and keys.slice_of(known) > purged_us else None

    def keep_unsure(self, attempt: Attempt) -> None:
        """Keep an attempt for its calls' retries: it may be stored, or be stored at any time."""
        for part in attempt.parts:
            kept = self._unsure.setdefault(part.call, [])
            if all(other is not attempt for other in kept):
                kept.append(attempt)
        while len(self._unsure) > UNSURE_CALLS_MAX:
            del self._unsure[next(iter(self._unsure))]

    def forget_unsure(self, attempt: Attempt) -> None:
        """It is stored now."""
        for part in attempt.parts:
            left = [other for other in self._unsure.pop(part.call, ()) if other is not attempt]
            if left:
                self._unsure[part.call] = left

    def unsure_attempts(self, call: bytes) -> list[Attempt]:
        """The attempts of an SDK call of which nobody knows whether they were stored."""
        return list(self._unsure.get(call, ()))


class Access(msgspec.Struct, frozen=True):
    """One operation's access to a lane of a queue, through the front end's desk."""

    desk: Desk
    queue: Queue
    lanes: QueueLanes
    lane: Lane

    def in_lane(self, number: int) -> "Access":
        """The same operation in another lane of the queue."""
        if number == self.lane.number:
            return self
        return Access(self.desk, self.queue, self.lanes, self.lanes.lane(number))

    @property
    def cell(self) -> Cell:
        """The cell that holds the lane."""
        return cell_of(self.desk.cells, self.queue)

    def proposed_us(self) -> int:
        """A stamp for what is appended now, above the purge; cells that choose stamps ignore it."""
        if self.cell.chooses_stamps:
            return self.now_us()
        return max(self.cell.now_us(), self.purged_us + 1)

    @property
    def purged_us(self) -> int:
        """The highest purge stamp that was met: sends of several definitions share an append."""
        return self.lanes.queue.purged_us

    @property
    def bodies(self) -> BodyStore | None:
        """Where the lane's cell has bodies that are too big for it, if it has such a place."""
        return self.desk.bodies.get(self.lane.cell)

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

    def block_ttl_s(self, block: bytes) -> int:
        """When a state of this block written now may be removed.

        Where messages move to, after all copies of a move that others may still go on with.
        """
        return self.state_ttl_s() + (RETENTION_S_MAX if keys.is_moved_block(block) else 0)

    def state_ttl_s(self) -> int:
        """When what is written now may be removed: after all messages of its time.

        Whatever the retention: others may know already that it was raised.
        """
        return self.now_us() // 1_000_000 + RETENTION_S_MAX + STATE_TTL_SLACK_S


def open_lane(desk: Desk, queue: Queue, number: int = 0) -> Access:
    """Access to a lane of the queue, by its newest definition that is known here.

    Raises RefusedError where it was deleted meanwhile.
    """
    lanes = desk.lanes_of(queue)
    return Access(desk, lanes.queue, lanes, lanes.lane(number))


def open_lanes_of(desk: Desk, queue: Queue, handles: Iterable[ReceiptHandle]) -> dict[int, Access]:
    """Access to the lanes of messages, by number.

    Raises RefusedError as `open_lane`, and for a handle of no lane.
    """
    lanes: dict[int, Access] = {}
    for handle in handles:
        if handle.lane >= FAIR_LANES:
            raise RefusedError(
                RECEIPT_HANDLE_IS_INVALID,
                f'The input receipt handle "{handle.text}" is not a valid receipt handle.',
            )
        if handle.lane not in lanes:
            lanes[handle.lane] = open_lane(desk, queue, handle.lane)
    return lanes


def channel(lane: Lane | QueueLanes) -> tuple[str, str]:
    """The channel on which receives of a queue wait."""
    return ("bag", lane.uid)

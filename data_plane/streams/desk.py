"""What the operations on streams share in one front end: ports, identity, and the ends of logs."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.stream import Shard, Stream
from data_plane.ports import Cell, Clock, Entropy, Item, Key, Waits
from data_plane.stored import keys
from data_plane.stored.bodies import BodyStore
from data_plane.stored.cell_of_queue import cell_of
from data_plane.stored.data_keys import DataKeys, QueueKeys
from data_plane.stored.lease import TOKEN_BYTES, WRITER_BYTES
from data_plane.stored.shelf import Shelf
from data_plane.streams.bounds import (
    EVERYONE,
    PARTS_HELD_TOGETHER_BYTES_MAX,
    READ_BYTES_MAX,
    SHARDS_MAX,
    TTL_SLACK_S,
)
from data_plane.streams.held_calls import HeldCalls
from data_plane.streams.slots import END, RECORDS, Produced, RecordSlot, read_slot


@dataclass(slots=True)
class Tail:
    """The end of a shard's log as a writer knows it. See `data_plane.log.ends.Tail`.

    `following` is the next offset, `stamp_us` and `expires_s` are those of the last slot, which is
    the `end` of a closed shard. What slots have of SDK calls goes to the `calls` of the log.
    `producers` are those that number their records (None: nobody has asked), and `produced_at` is
    the last slot that has such records (0: there is none). See producers.py. `total_bytes` are
    those of all records so far, as far as they were counted.
    """

    number: int
    following: int
    stamp_us: int
    expires_s: int
    seen_us: int
    calls: HeldCalls
    end: RecordSlot | None = None
    unsure: bool = False
    producers: dict[bytes, Produced] | None = None
    produced_at: int = 0
    slots_since_all: int = 0
    total_bytes: int = 0

    def take_over(self, item: Item) -> None:
        """The next slot was written, by whomever."""
        slot = read_slot(item)
        if slot.number < self.following:
            return
        self.number, self.following = slot.number, slot.following
        self.stamp_us, self.expires_s = slot.stamp_us, slot.expires_s
        own_bytes = slot.size_bytes if slot.kind == RECORDS else 0
        total_bytes = slot.total_bytes
        self.total_bytes = self.total_bytes + own_bytes if total_bytes is None else total_bytes
        self.end = slot if slot.kind == END else None
        self.produced_at = max(self.produced_at, slot.produced_before)
        if slot.has_produced:
            self.produced_at, self.slots_since_all = slot.number, slot.slots_since_all
            if self.producers is not None:
                self.producers.update((one.producer, one) for one in slot.produced)
        self.calls.take(slot)


class ShardLog:
    """The names of a shard's log, and its tail (None: unknown); `anchored_us` is its anchor's.

    Slots that were read last had about `slot_records` each. `calls` lie in those up to the tail.
    """

    def __init__(self, uid: str, shard: int, eras: Eras, shelf: Shelf) -> None:
        self.eras = eras
        self.calls = HeldCalls(shelf)
        self.slots = keys.records(uid, shard)
        self.anchor_key = keys.anchor(uid, shard)
        self.tail: Tail | None = None
        self.anchored_us = 0
        self.slot_records = 1

    def slot_key(self, offset: int) -> Key:
        """The key of the slot that begins at an offset."""
        return Key(self.slots, keys.be64(offset))


class Desk:
    """One front end's side of streams. `writer` names it in the nonces of what it writes."""

    def __init__(  # noqa: PLR0913, PLR0917 - a front end is these ports
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
        bodies: Mapping[str, BodyStore],
        data_keys: DataKeys | None = None,
        read_bytes_max: int = READ_BYTES_MAX,
    ) -> None:
        self.cells = cells
        self.clock = clock
        self.entropy = entropy
        self.waits = waits
        self.bodies = bodies
        self.data_keys = data_keys or DataKeys(clock, entropy, waits)
        self.writer = entropy.random_bytes(WRITER_BYTES)
        self.logs: OrderedDict[tuple[str, int], ShardLog] = OrderedDict()
        self.with_producers: OrderedDict[str, ShardLog] = OrderedDict()
        self._calls = Shelf(PARTS_HELD_TOGETHER_BYTES_MAX)
        self.damaged_slots = 0
        self._tokens_given = 0
        self.read_bytes_max = read_bytes_max

    def new_token(self) -> bytes:
        """A nonce for one write of a slot."""
        self._tokens_given += 1
        return self.writer + self._tokens_given.to_bytes(TOKEN_BYTES - WRITER_BYTES, "big")

    def log(self, stream: Stream, shard: int) -> ShardLog:
        """What this front end remembers of a shard's log."""
        key = (stream.uid, shard)
        cell = self.cells.get(stream.cell)
        eras = cell.eras if cell is not None else ONE_TIME
        log = self.logs.get(key)
        if log is None or log.eras is not eras:
            if log is not None:
                log.calls.leave_shelf()
            log = self.logs[key] = ShardLog(stream.uid, shard, eras, self._calls)
        self.logs.move_to_end(key)
        if len(self.logs) > SHARDS_MAX:
            _, idlest = self.logs.popitem(last=False)
            idlest.calls.leave_shelf()
        return log


@dataclass(frozen=True, slots=True)
class Access:
    """One operation's access to a shard, through the front end's desk."""

    desk: Desk
    stream: Stream
    shard: Shard
    log: ShardLog

    @property
    def cell(self) -> Cell:
        """The cell that holds the log."""
        return cell_of(self.desk.cells, self.stream)

    @property
    def bodies(self) -> BodyStore | None:
        """Where the cell has bodies that are too big for it, if it has such a place."""
        return self.desk.bodies.get(self.stream.cell)

    @property
    def data_keys(self) -> QueueKeys:
        """What the stream's records are sealed with."""
        return self.desk.data_keys.of(self.stream)

    def now_us(self) -> int:
        """This front end's clock, in microseconds."""
        return self.desk.clock.now_us()

    def slot_ttl_s(self, stamp_us: int) -> int:
        """When a slot with this stamp may be removed, unless the slot below says later."""
        return stamp_us // 1_000_000 + self.stream.kept_s + TTL_SLACK_S

    def signal(self) -> None:
        """Something was appended: wake who waits for it, queues over the stream, too."""
        self.desk.waits.signal(self.channel, EVERYONE)
        self.desk.waits.signal(("log", self.stream.uid), EVERYONE)

    @property
    def channel(self) -> tuple[str, str]:
        """The channel on which readers of the shard wait."""
        return ("stream", self.log.slots)


def access_of(desk: Desk, stream: Stream, shard: Shard) -> Access:
    """Access to a shard of a stream."""
    return Access(desk, stream, shard, desk.log(stream, shard.number))

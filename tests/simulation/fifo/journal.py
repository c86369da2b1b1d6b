"""What cells took of FIFO queues, seen at the cells: the truth against which answers are held."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from data_plane.log.slots import Slot, read_slot
from data_plane.log.window import sequence_number
from data_plane.ports import Attributes, Item, Key
from data_plane.stored import lease
from data_plane.stored.segment import octets, open_segment
from tests.simulation.faulty_cell import Store, Stored
from tests.simulation.scheduler import Scheduler
from tests.simulation.sealed import unseal

SLOTS, STATES = "G|", "F|"
SECOND_US = 1_000_000


class Log(NamedTuple):
    """A partition of a queue, in one generation."""

    uid: str
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message lies: its index in the block that begins with this slot."""

    log: Log
    block: int
    index: int


@dataclass(frozen=True, slots=True)
class WrittenSlot:
    """A slot as it was stored. `again`: another value had been stored under its key before.

    `late`: the slot below was past its time, so that it does not count (docs/storage.md).
    """

    time_us: int
    log: Log
    slot: Slot
    again: bool
    late: bool


@dataclass(frozen=True, slots=True)
class StoredFifo:
    """A message as it was stored. `body` is empty as long as it has not been stored apart."""

    written: WrittenSlot
    position: int
    group: bytes
    dedup: bytes
    id: bytes

    @property
    def place(self) -> Place:
        """What receipt handles say of it."""
        slot = self.written.slot
        return Place(self.written.log, slot.block, slot.first + self.position)

    @property
    def stamp_us(self) -> int:
        """When it was sent, in the log's time."""
        return self.written.slot.stamp_us

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return sequence_number(self.stamp_us, self.written.log.partition, self.position)


class Lease(NamedTuple):
    """A lease as it was written; `taken`: by a receive, not by a change of the visibility."""

    time_us: int
    visible_ms: int
    receive_count: int
    token: bytes
    taken: bool


@dataclass(slots=True)
class Consumption:
    """What happened to a message: its leases in order, and when it was done for the first time."""

    leases: list[Lease] = field(default_factory=list)
    done_us: int | None = None


class Journal:
    """Witness of the writes of all cells of a universe."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.slots: list[WrittenSlot] = []
        self.messages: list[StoredFifo] = []
        self.consumed: dict[Place, Consumption] = defaultdict(Consumption)
        self._expires_s: dict[tuple[Log, int], int] = {}
        self._scheduler = scheduler

    def at(self, store: Store) -> "Desk":
        """The witness of one cell."""
        return Desk(self, store)

    def slot_put(self, key: Key, attributes: Attributes, store_us: int) -> WrittenSlot:
        """A slot was stored, at this time by the cell's clock."""
        log, slot = _log_of(key), read_slot(Item(key, attributes))
        again = (log, slot.number) in self._expires_s
        self._expires_s[log, slot.number] = slot.expires_s
        below_s = self._expires_s.get((log, slot.number - 1))
        late = below_s is not None and below_s <= store_us // SECOND_US
        written = WrittenSlot(self._scheduler.now_us, log, slot, again, late)
        self.slots.append(written)
        self.messages += [
            StoredFifo(written, position, hashes.group, hashes.dedup, hashes.id)
            for position, hashes in enumerate(slot.messages)
        ]
        return written

    def slot_updated(self, key: Key, after: Attributes) -> None:
        """A slot's time to live was raised."""
        slot = read_slot(Item(key, after))
        self._expires_s[_log_of(key), slot.number] = slot.expires_s

    def state_updated(self, key: Key, before: Attributes, after: Attributes) -> None:
        """A block's state was changed: leases, or what is done."""
        log, block = _log_of(key), int.from_bytes(key.sort, "big")
        for name, value in after.items():
            if name == "d" and isinstance(value, frozenset):
                for index in value:
                    consumed = self.consumed[Place(log, block, index)]
                    if consumed.done_us is None:
                        consumed.done_us = self._scheduler.now_us
            elif name[0] == "m" and isinstance(value, bytes) and before.get(name) != value:
                self._leased(Place(log, block, int(name[1:])), before.get(name), value)

    def _leased(self, place: Place, before: object, stored: bytes) -> None:
        new = lease.from_bytes(stored)
        known = lease.from_bytes(before).receive_count if isinstance(before, bytes) else 0
        self.consumed[place].leases.append(
            Lease(
                self._scheduler.now_us,
                new.visible_ms,
                new.receive_count,
                new.token,
                taken=new.receive_count > known,
            )
        )


class Desk:
    """Implements Witness for one cell: notes in the journal, and what the cell stored."""

    def __init__(self, journal: Journal, store: Store) -> None:
        self._journal = journal
        self._store = store

    def put(self, front_end: str, key: Key, after: Attributes) -> None:
        """See Witness."""
        if not key.partition.startswith(SLOTS):
            return
        written = self._journal.slot_put(key, after, self._store.now_us())
        if not written.slot.messages:
            return
        note = partial(self._note, front_end, written)
        if "o" not in after:
            note(None)
        else:
            tell_body: Callable[[str, Callable[[bytes], None]], None] | None = self._store.tell_body
            assert tell_body is not None
            tell_body(str(after["o"]), note)

    def _note(self, front_end: str, written: WrittenSlot, body: bytes | None) -> None:
        item = written.slot.item
        for message in open_segment(written.slot.key, item, body, unseal):
            self._store.stored.append(
                Stored(
                    written.time_us,
                    written.slot.stamp_us,
                    front_end,
                    message.id,
                    message.body,
                    again=False,
                    dead=message.dead_letter_source != "",
                    key_id=octets(item, "q") if "q" in item else b"",
                )
            )

    def updated(self, key: Key, before: Attributes | None, after: Attributes) -> None:
        """See Witness."""
        if key.partition.startswith(STATES):
            self._journal.state_updated(key, before or {}, after)
        elif key.partition.startswith(SLOTS):
            self._journal.slot_updated(key, after)


def _log_of(key: Key) -> Log:
    _, uid, partition, generation = key.partition.split("|")
    return Log(uid, int(partition, 16), int(generation))

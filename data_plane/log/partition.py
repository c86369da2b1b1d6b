"""What one front end remembers of a partition: its end for writers, its front for readers."""

from dataclasses import dataclass

from data_plane.core.queue import Queue
from data_plane.log.bounds import PAGE_BYTES, PAGE_ENTRIES, PAGE_SLOTS
from data_plane.log.reader import Reader
from data_plane.log.slots import MESSAGES, PURGE, Slot, purged_by, read_slot
from data_plane.log.sources import Source
from data_plane.log.window import Window
from data_plane.ports import Item, Key
from data_plane.stored import keys
from data_plane.stored.segment import number


@dataclass(slots=True)
class Tail:
    """The end of a log as a writer knows it: the last slot, and what lies in the window below.

    `seen_us` is when the cell last said, or let follow, that nothing lies above. `unsure`: a write
    to the next slot may have taken effect. `covered` is the last slot of the last page; `slots`,
    `entries` and `size_bytes` lie above it.
    """

    last: Slot
    window: Window
    seen_us: int
    covered: int
    covered_us: int
    unsure: bool = False
    slots: int = 0
    entries: int = 0
    size_bytes: int = 0

    @property
    def number(self) -> int:
        """Of the last slot."""
        return self.last.number

    @property
    def following(self) -> int:
        """Of the next one."""
        return self.last.number + 1

    @property
    def expires_s(self) -> int:
        """Until when the last slot is there."""
        return self.last.expires_s

    def take_over(self, item: Item) -> None:
        """The next slot was written, by whomever."""
        slot = read_slot(item)
        if slot.number <= self.last.number:
            return
        self.last = slot.without_bodies()
        self.slots += 1
        self.add_to_window(slot)

    def add_to_window(self, slot: Slot) -> None:
        """What a slot says about duplicates."""
        if slot.kind == PURGE:
            self.window.purge(purged_by(slot))
        elif slot.kind == MESSAGES:
            self.window.add(slot.stamp_us, slot.messages)
            self.entries += len(slot.messages)
            self.size_bytes += number(slot.item, "y")

    @property
    def page_due(self) -> bool:
        """Whether a cold start would have much to read above the last page."""
        return (
            self.slots >= PAGE_SLOTS
            or self.entries >= PAGE_ENTRIES
            or self.size_bytes >= PAGE_BYTES
        )

    def page_written(self, last: Slot) -> None:
        """A page up to this slot is stored."""
        if last.number > self.covered:
            self.covered, self.covered_us = last.number, last.stamp_us
            self.slots = self.entries = self.size_bytes = 0


class Partition:
    """A partition's names, the tail (None: unknown) and the reader.

    `has_earlier`: duplicates may be of messages in an earlier generation, all of whose stamps are
    below `stamp_us_min`. No slot's time to live ends before `expires_s_min`, which is that of the
    ends of earlier generations. That of a queue over a stream is a shard, and has a `source`.
    """

    def __init__(self, queue: Queue, number_: int, generation: int, reader: Reader) -> None:
        self.eras = reader.eras
        self.queue = queue
        self.number = number_
        self.generation = generation
        # What a queue has done to a log stands under its own uid, whoever's log it is.
        if queue.reads_stream:
            self.slots = keys.records(queue.stream_uid, number_)
            self.states = keys.reader_states(queue.uid, number_)
            self.low_water_key = keys.reader_low_water(queue.uid, number_)
        else:
            self.slots = keys.slots(queue.uid, number_, generation)
            self.states = keys.slot_states(queue.uid, number_, generation)
            self.low_water_key = keys.low_water(queue.uid, number_, generation)
        self.pages = keys.pages(queue.uid, number_, generation)
        self.tail: Tail | None = None
        self.used_us = 0
        self.has_earlier = generation > 0
        self.stamp_us_min = 0
        self.expires_s_min = 0
        self.reader = reader
        self.source: Source | None = None

    def newest(self, queue: Queue) -> Queue:
        """This definition of the queue, or the one that is known here if that is newer.

        One of a queue over a stream has the retention of the stream, which has versions of its own.
        """
        is_older = queue.version < self.queue.version and not queue.reads_stream
        return self.queue if is_older else queue

    def slot_key(self, slot: int) -> Key:
        """The key of a slot."""
        return Key(self.slots, keys.be64(slot))

    def state_key(self, block: int) -> Key:
        """The key of a block's state."""
        return Key(self.states, keys.be64(block))

"""Logs that a queue reads and does not write: the shards of a stream (docs/storage.md).

The stream engine, which knows how records are stored, answers; what is here is what the log engine
asks of it. A slot of a shard counts as so many *pieces* as it has blocks: each is a slot to the
reader, under the offset of its first record.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.stream import Shard, Stream
from data_plane.log.bounds import BLOCK_FULL_MESSAGES, OPENED_RECORD_BYTES
from data_plane.log.slots import Slot
from data_plane.ports import Attributes, Key
from data_plane.stored import keys
from data_plane.stored.segment import number


class Source(Protocol):
    """One shard, as one queue reads it. Methods raise CellUnavailableError."""

    async def read(self, after: int, limit: int, over_us: int) -> list[Slot]:
        """Pieces behind this offset, of `limit` slots at most; none where there are no more.

        What is not above the stamp `over_us` may be left out. Raises RefusedError with a fault of
        KMS.
        """
        ...

    async def open(self, pieces: Mapping[int, "Piece"]) -> dict[int, Sequence[Message] | None]:
        """The messages of each piece that can be had; None where they are damaged.

        Raises RefusedError with a fault of KMS where none can be had.
        """
        ...


class Sources(Protocol):
    """The streams that queues read. Methods raise CellUnavailableError."""

    async def stream_of(self, queue: Queue) -> Stream | None:
        """The stream that the queue reads; None where it was deleted."""
        ...

    async def renewed(self, stream: Stream) -> Stream | None:
        """The stream as it is now; None where it was deleted."""
        ...

    def source(
        self, queue: Queue, stream: Stream, shard: Shard, known: Source | None = None
    ) -> Source:
        """A shard as the queue reads it: the `known` source, by this definition from now on."""
        ...

    async def records_above(self, stream: Stream, stamp_us: int) -> int:
        """How many records the stream has above this stamp."""
        ...

    async def last_stamp_us(self, stream: Stream) -> int:
        """The highest stamp of a record in an open shard; 0 where there is none."""
        ...


class Piece:
    """The records of a slot that lie in one block, in memory; `first` is the offset of the first.

    `positions` says which of the slot's records they are. They are in `item`, as stored, until they
    are `opened`. `size_bytes` is about what they take then.
    """

    __slots__ = ("first", "item", "key", "opened", "positions", "size_bytes")

    def __init__(
        self, first: int, key: Key, item: Attributes, opened: Sequence[Message] | None = None
    ) -> None:
        records = number(item, "n")
        self.first = first
        self.key = key
        self.item = item if opened is None else {}
        self.opened = opened
        self.positions = positions_in_block(first, keys.slot_of(key.sort), records)
        count = len(self.positions)
        stored_bytes = number(item, "y") * count // max(1, records)
        self.size_bytes = stored_bytes + OPENED_RECORD_BYTES * count

    def open(self, of_slot: Sequence[Message]) -> Sequence[Message]:
        """Keep its own of all messages of the slot, which is not needed any more."""
        self.opened = of_slot[self.positions.start : self.positions.stop]
        self.item = {}
        return self.opened


class BlockPlace(NamedTuple):
    """The block that has a record, by the offset of its first one, and the record's index in it."""

    block: int
    position: int


def place_of(offset: int) -> BlockPlace:
    """Where the record at an offset has its lease."""
    position = (offset - 1) % BLOCK_FULL_MESSAGES
    return BlockPlace(offset - position, position)


def positions_in_block(first: int, slot: int, records: int) -> range:
    """Which of a slot's records lie in one block, from the one at the offset `first` on."""
    start = first - slot
    return range(start, min(start + BLOCK_FULL_MESSAGES - place_of(first).position, records))

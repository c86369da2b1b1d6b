"""Logs that a queue reads and does not write: the shards of a stream (docs/storage.md).

The stream engine, which knows how records are stored, answers; what is here is what the log engine
asks of it. A slot of a shard counts as so many *pieces* as it has blocks: each is a slot to the
reader, under the offset of its first record.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.stream import Shard, Stream
from data_plane.log.bounds import BLOCK_FULL_MESSAGES
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

    async def open(self, pieces: Mapping[int, "Piece"]) -> dict[int, list[Message] | None]:
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

    `messages` are those that were opened, None before.
    """

    __slots__ = ("first", "item", "key", "messages")

    def __init__(self, first: int, key: Key, item: Attributes) -> None:
        self.first = first
        self.key = key
        self.item = item
        self.messages: list[Message] | None = None

    @property
    def positions(self) -> range:
        """Which of the slot's records they are."""
        start = self.first - keys.slot_of(self.key.sort)
        in_block = BLOCK_FULL_MESSAGES - place_of(self.first).position
        return range(start, min(start + in_block, number(self.item, "n")))

    @property
    def size_bytes(self) -> int:
        """About how much it is of what its slot has."""
        return number(self.item, "y") * len(self.positions) // max(1, number(self.item, "n"))


class BlockPlace(NamedTuple):
    """The block that has a record, by the offset of its first one, and the record's index in it."""

    block: int
    position: int


def place_of(offset: int) -> BlockPlace:
    """Where the record at an offset has its lease."""
    position = (offset - 1) % BLOCK_FULL_MESSAGES
    return BlockPlace(offset - position, position)

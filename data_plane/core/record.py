"""Records of streams as values: what a producer hands in, what a reader gets."""

from collections.abc import Sequence
from typing import Final, NamedTuple


class OutgoingRecord(NamedTuple):
    """A validated record on its way into a shard.

    `partition_key` is None where the stream spreads its records by itself and none was sent.
    """

    partition_key: str | None
    data: bytes

    @property
    def size_bytes(self) -> int:
        """What limits and bills count: data and key (Kinesis)."""
        return len(self.data) + len((self.partition_key or "").encode())


class Record(NamedTuple):
    """A stored record: `offset` is its place in its shard.

    It arrived at `arrived_us`, which is `stamp_us` where the time of its cell is the world's.
    """

    offset: int
    stamp_us: int
    arrived_us: int
    partition_key: str | None
    data: bytes


class Put(NamedTuple):
    """Where a record was stored: its offset in the shard, and its stamp."""

    offset: int
    stamp_us: int


STORED_BEFORE: Final = Put(0, 0)
"""In place of where a record is that its producer has put before: nobody remembers that."""


class Numbered(NamedTuple):
    """Records that their producer numbers: of each the number, above that of the one before it.

    `sequences` has those of a whole call, by position. `name` (16 bytes) names the producer. Who
    has a lower `epoch` than the last one is overtaken.
    """

    name: bytes
    epoch: int
    sequences: Sequence[int]


class PutCall(NamedTuple):
    """An SDK's call that puts records. `name` (16 bytes) names it (b"": it has none).

    What took effect of one that is `repeated` is answered as it was then.
    """

    name: bytes = b""
    repeated: bool = False

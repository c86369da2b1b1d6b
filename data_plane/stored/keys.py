"""Partitions and sort keys of messages and their states (docs/storage.md)."""

from collections.abc import Iterable
from hashlib import blake2b

from data_plane.core.queue import Generation
from data_plane.ports import Key
from data_plane.stored.bounds import FAIR_LANES

SLICE_BYTES = 8
BLOCK_BYTES = 10
MARKER_FIRST = b"\xff"
PURGE_FIRST = b"\xfe"
LANE_FIRST = b"\xfd"
LATE_LAST = b"\xff"
_SHARD_BARS = 3
_MOVED_BYTE, _MOVED_BIT = 6, 0x80
"""The highest bit of a block's counter, which no front end counts up to."""

AFTER_SLICE = b"\xff" * 12
"""Sorts after every key of a slice."""


def be64(number: int) -> bytes:
    """8 bytes, big endian."""
    return number.to_bytes(8, "big")


def lane_name(lane: int, epoch: int) -> str:
    """A lane's part of partition names."""
    return f"{lane:02x}|{epoch}"


def segments(uid: str, lane: int, epoch: int) -> str:
    """The partition of segments and markers."""
    return f"B|{uid}|{lane_name(lane, epoch)}"


def states(uid: str, lane: int, epoch: int) -> str:
    """The partition of block states."""
    return f"S|{uid}|{lane_name(lane, epoch)}"


def counters(uid: str) -> str:
    """The partition of counters."""
    return f"T|{uid}"


def marks(uid: str) -> str:
    """The partition of what is known of a queue's lanes: low-water marks, and hints."""
    return f"H|{uid}"


def groups(uid: str) -> Key:
    """The key of what front ends tell each other of a standard queue's groups."""
    return Key(marks(uid), b"groups")


def low_water(uid: str, lane: int, epoch: int) -> Key:
    """The key of a lane's low-water mark."""
    return Key(marks(uid), lane_name(lane, epoch).encode())


def slots(uid: str, partition: int, generation: int) -> str:
    """The partition of a FIFO queue's log."""
    return f"G|{uid}|{lane_name(partition, generation)}"


def slot_states(uid: str, partition: int, generation: int) -> str:
    """The partition of the states of a log's blocks."""
    return f"F|{uid}|{lane_name(partition, generation)}"


def pages(uid: str, partition: int, generation: int) -> str:
    """The partition of a log's deduplication pages."""
    return f"U|{uid}|{lane_name(partition, generation)}"


def records(uid: str, shard: int) -> str:
    """The partition of the log of a stream's shard."""
    return f"N|{uid}|{shard:08x}|0"


def is_of_shard(partition: str) -> bool:
    """Whether it is the log of a shard, of what begins like one: access keys do, too."""
    return partition.startswith("N|") and partition.count("|") == _SHARD_BARS


def anchor(uid: str, shard: int) -> Key:
    """The key of what says where a shard's log ends when its slots are gone."""
    return Key(marks(uid), f"{shard:08x}|0".encode())


def reader_states(uid: str, shard: int) -> str:
    """The partition of what a queue did to the records of a stream's shard."""
    return reader_states_named(uid, f"{shard:08x}|0")


def reader_states_named(uid: str, log: str) -> str:
    """The same by the name of the shard's log, under which its low-water mark lies."""
    return f"F|{uid}|{log}"


def reader_low_water(uid: str, shard: int) -> Key:
    """The key of the low-water mark of a queue that reads a shard."""
    return Key(marks(uid), f"{shard:08x}|0".encode())


def stream_partitions(uid: str, shards: Iterable[int]) -> tuple[str, ...]:
    """All partitions of a stream."""
    return (*(records(uid, shard) for shard in shards), marks(uid))


def data_keys(uid: str) -> str:
    """The partition of the wrapped data keys of a queue, in the registry's cell."""
    return f"Y|{uid}"


def attempts(uid: str) -> str:
    """The partition of receive attempts."""
    return f"R|{uid}"


def slot_of(sort: bytes) -> int:
    """The slot, or block, under this key."""
    return int.from_bytes(sort, "big")


def segment_sort(slice_us: int, block: bytes, first: int) -> bytes:
    """The sort key of the segment that begins with message `first` of a block."""
    return be64(slice_us) + block + bytes((first,))


def slice_of(sort: bytes) -> int:
    """The time, in microseconds, at which what lies under this key becomes visible."""
    return int.from_bytes(sort[:SLICE_BYTES], "big")


def before(sort: bytes) -> bytes:
    """The greatest sort key of the same length below this one."""
    return (int.from_bytes(sort, "big") - 1).to_bytes(len(sort), "big")


def counter(uid: str, purged_us: int, kind: bytes, bucket: int) -> Key:
    """The key of a counter; `kind` is one of stored/counting."""
    return Key(counters(uid), be64(purged_us) + kind + be64(bucket))


def block_of(sort: bytes) -> bytes:
    """The block that an item among segments is about; of marks about none, ten zero bytes."""
    return sort[SLICE_BYTES : SLICE_BYTES + BLOCK_BYTES]


def moved_block(uid: str, lane: int, epoch: int, block: bytes) -> bytes:
    """The block that messages of this one have in whatever queue they move to."""
    place = f"{uid}|{lane_name(lane, epoch)}|".encode() + block
    digest = bytearray(blake2b(place, digest_size=BLOCK_BYTES, person=b"moved block").digest())
    digest[_MOVED_BYTE] |= _MOVED_BIT
    return bytes(digest)


def is_moved_block(block: bytes) -> bool:
    """Whether messages came into this block by moves: copies of them may come at any time."""
    return bool(block[_MOVED_BYTE] & _MOVED_BIT)


def log_partitions(uid: str, generations: Iterable[Generation]) -> tuple[str, ...]:
    """All partitions of a FIFO queue beside those of `partitions`."""
    return (
        *(
            name(uid, partition, generation.number)
            for generation in generations
            for partition in range(generation.partitions)
            for name in (slots, slot_states, pages)
        ),
        attempts(uid),
    )


def partitions(uid: str) -> tuple[str, ...]:
    """All partitions of a queue, for whoever removes or copies it; that of counters is the last."""
    lanes = [part(uid, lane, 0) for lane in range(FAIR_LANES) for part in (segments, states)]
    return (*lanes, marks(uid), counters(uid))

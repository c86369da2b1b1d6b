"""What calls on messages cost in requests: write and read units of DynamoDB, objects of S3.

The numbers are those that the shipped engines spend on a counting cell; `tests/conformance`
counts them anew and holds them against these. They are for a consumer that keeps up with its
producer, so that nothing is read ahead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from data_plane.blobs.prices import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES, SEGMENT_MESSAGES_MAX

RANDOM_TEXT_SHARE: Final = 0.76
"""What compression leaves of random text with 64 different characters, a bad case for text."""

_FRAME_BYTES: Final = 81
"""What compression adds."""

_ITEM_BYTES: Final = {False: 164, True: 252}
_MESSAGE_BYTES: Final = {False: 42, True: 80}
"""Beside the bodies: of an item with its key, and of each further message (FIFO: with digests)."""

_STATE_READS: Final = 1 / 64
_LOW_WATER_WRITES: Final = 1 / 64
"""For each message: a block's state is read once, the low-water mark follows once in a block."""

_HASH_WRITES: Final = 0.04
"""For each message of a FIFO queue: its part of a page of deduplication hashes."""

_LOOKS: Final = {False: 2, True: 1}
"""How often an item is read: those of the bag once more when their slice has settled."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Messages of `size_bytes`, of which `batch` go in each call and in each item."""

    size_bytes: int
    batch: int = 1
    fifo: bool = False
    text_share: float = RANDOM_TEXT_SHARE


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one call: units of writes and reads of the table; objects put and fetched.

    `steps` are the requests to the table that follow one another, from which the time follows.
    """

    writes: float = 0.0
    reads: float = 0.0
    puts: float = 0.0
    gets: float = 0.0
    steps: float = 1.0


@dataclass(frozen=True, slots=True)
class _Turns:
    """What calls cost more where front ends take turns on one queue, for each call."""

    receive_writes: float = 0.0
    receive_reads: float = 0.0
    lost_sends: float = 0.0
    send_reads: float = 0.0
    delete_reads: float = 0.0


_STANDARD_TURNS: Final[Mapping[int, _Turns]] = MappingProxyType(
    {
        1: _Turns(),
        2: _Turns(0.35, 0.2),
        4: _Turns(1.3, 0.8),
        8: _Turns(3.1, 2.6),
        16: _Turns(4.6, 8.8),
        32: _Turns(7.2, 23.0),
    }
)
_FIFO_TURNS: Final[Mapping[int, _Turns]] = MappingProxyType(
    {
        1: _Turns(),
        2: _Turns(0.25, 0.2, 0.52, 0.7, 0.5),
        4: _Turns(0.55, 0.7, 0.75, 1.4, 0.75),
        8: _Turns(0.9, 1.9, 0.88, 2.5, 0.9),
        16: _Turns(1.3, 4.2, 1.0, 4.6, 0.95),
        32: _Turns(1.8, 9.0, 1.3, 8.5, 1.0),
    }
)
TURNS_COUNTED: Final = tuple(_STANDARD_TURNS)
"""Numbers of front ends for which it was counted: each call at one of them, chosen at random."""


def body_bytes(shape: Shape) -> int:
    """What the messages of an item take, packed and compressed."""
    raw = shape.size_bytes * shape.batch
    packed = min(raw, round(raw * shape.text_share) + _FRAME_BYTES)
    return packed + (shape.batch - 1) * _MESSAGE_BYTES[shape.fifo]


def is_apart(shape: Shape) -> bool:
    """Whether the bodies lie in an object of S3 instead of the item."""
    return body_bytes(shape) > BLOB_THRESHOLD_BYTES


def item_bytes(shape: Shape) -> int:
    """Size of the item that a send writes."""
    beside = _ITEM_BYTES[shape.fifo]
    if is_apart(shape):
        return beside + (shape.batch - 1) * _MESSAGE_BYTES[shape.fifo]
    return beside + body_bytes(shape)


def send(shape: Shape, front_ends: float = 1) -> Spent:
    """A send of a batch; a batch beyond a segment's bounds is not for this function."""
    if not 1 <= shape.batch <= SEGMENT_MESSAGES_MAX:
        raise ValueError("a segment has up to 64 messages")
    units = _units(item_bytes(shape), WRITE_UNIT_BYTES)
    apart = float(is_apart(shape))
    if not shape.fifo:
        return Spent(writes=units, puts=apart, steps=1)
    turns = _turns(_FIFO_TURNS, front_ends)
    return Spent(
        writes=units * (1 + turns.lost_sends) + shape.batch * _HASH_WRITES,
        reads=turns.send_reads,
        puts=apart * (1 + turns.lost_sends),
        steps=1 + 2 * turns.lost_sends,
    )


def receive(shape: Shape, front_ends: float = 1) -> Spent:
    """A receive that takes a batch which was sent as one."""
    turns = _turns(_FIFO_TURNS if shape.fifo else _STANDARD_TURNS, front_ends)
    looked_at = _LOOKS[shape.fifo] * _units(item_bytes(shape), READ_UNIT_BYTES)
    return Spent(
        writes=1 + shape.batch * _LOW_WATER_WRITES + turns.receive_writes,
        reads=looked_at + shape.batch * _STATE_READS + turns.receive_reads,
        gets=float(is_apart(shape)),
        steps=2 + turns.receive_writes,
    )


def delete(shape: Shape, front_ends: float = 1) -> Spent:
    """A delete of a batch that was received as one."""
    reads = _turns(_FIFO_TURNS, front_ends).delete_reads if shape.fifo else 0.0
    return Spent(writes=1, reads=reads, steps=1 + reads)


def empty_receive(wait_s: float = 0) -> Spent:
    """A receive that finds nothing; one that waits looks again each second."""
    looks = 1 + wait_s
    return Spent(reads=looks, steps=1)


def _units(size_bytes: int, unit_bytes: int) -> int:
    return max(1, -(-size_bytes // unit_bytes))


def _turns(counted: Mapping[int, _Turns], front_ends: float) -> _Turns:
    """Between two numbers that were counted in proportion; beyond the last as there."""
    numbers = sorted(counted)
    at = min(max(front_ends, numbers[0]), numbers[-1])
    above = next(number for number in numbers if number >= at)
    below = max(number for number in numbers if number <= at)
    share = (at - below) / (above - below) if above > below else 0.0
    low, high = counted[below], counted[above]
    return _Turns(
        *(
            getattr(low, name) + share * (getattr(high, name) - getattr(low, name))
            for name in _Turns.__slots__
        )
    )

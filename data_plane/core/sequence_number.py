"""Sequence numbers of a stream's records, in the layout of AWS's.

56 decimal digits, of which the hexadecimal ones are, as kinesalite decoded them:

    2 | shard made, s (9) | shard (1) | offset (16) | 00 | stamp, s (9) | shard (8) | 2

The first of the two is the lowest digit of the shard's number.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from data_plane.core.stream import Shard

OFFSET_MAX: Final = 2**63 - 1
_US_PER_S: Final = 1_000_000
_HEX_DIGITS: Final = 47
_OFFSET_BIT: Final = 80
_VERSION: Final = "2"
DIGITS: Final = 56


class SequenceNumber(NamedTuple):
    """A sequence number, taken apart. `made_s` is when its shard was made."""

    shard: int
    made_s: int
    offset: int
    stamp_s: int


def sequence_number(shard: Shard, offset: int, stamp_us: int) -> str:
    """The sequence number of the record at an offset of a shard."""
    return str(_frame(shard, stamp_us) | (offset << _OFFSET_BIT))


def sequence_numbers(shard: Shard, places: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Those of a shard's records with these offsets and stamps; many that follow share a stamp."""
    return map(str, sequence_values(shard, places))


def sequence_values(shard: Shard, places: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The same as whole numbers."""
    frame_us = frame = -1
    for offset, stamp_us in places:
        if stamp_us != frame_us:
            frame_us, frame = stamp_us, _frame(shard, stamp_us)
        yield frame | (offset << _OFFSET_BIT)


def _frame(shard: Shard, stamp_us: int) -> int:
    """A number whose offset is still 0."""
    low = (stamp_us // _US_PER_S << 36) | (shard.number << 4) | 2
    high = (2 << 56) | (shard.made_s << 20) | ((shard.number & 15) << 16)
    return (high << 128) | low


def starting(shard: Shard) -> str:
    """The number that all of a shard's records are above."""
    return sequence_number(shard, 0, shard.made_s * _US_PER_S)


def ending(shard: Shard) -> str:
    """The number that all records of a closed shard are below."""
    return sequence_number(shard, OFFSET_MAX, shard.closed_us)


def parse(text: str) -> SequenceNumber:
    """Take a sequence number apart. Raises ValueError for what is none."""
    digits = f"{int(text):x}" if text.isascii() and text.isdigit() and len(text) == DIGITS else ""
    if len(digits) != _HEX_DIGITS or digits[0] != _VERSION or digits[-1] != _VERSION:
        raise ValueError("not a sequence number")
    number = SequenceNumber(
        shard=int(digits[38:46], 16),
        made_s=int(digits[1:10], 16),
        offset=int(digits[11:27], 16),
        stamp_s=int(digits[29:38], 16),
    )
    if number.offset > OFFSET_MAX:
        raise ValueError("not a sequence number")
    return number

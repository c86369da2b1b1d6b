"""How keys and items become bytes.

An item's key is its partition in UTF-8, a zero byte and its sort key, so the store's bytewise order
is the port's, and no partition's items lie among those of another. Records of the cell itself begin
with a zero byte, which no partition can. An item's value is a MessagePack map; sets are arrays;
bodies.py says how values lie in the store.
"""

from typing import Any, Final

import msgspec

from data_plane.core.undecodable import UNDECODABLE
from data_plane.embedded.bodies import CHECKED_MARK, head_time_to_live_s, value_without_check
from data_plane.ports import Attributes, DamagedItemError, Key, Value
from data_plane.streams.bounds import ITEM_BYTES_MAX

FORMAT_KEY: Final = b"\x00format"
FORMAT_NAME: Final = b"tidegate cell "
FORMAT: Final = FORMAT_NAME + b"2"
FORMAT_OF_BEFORE: Final = FORMAT_NAME + b"1"
"""Without checksums of values; who opens such a store makes it one of the newer format."""
COUNTERS: Final = b"T|"
"""What the keys of counters begin with."""
SEGMENTS: Final = b"B|"
"""What the keys of standard queues' messages begin with."""

PRESENT_KEY: Final = b"\x00present"
ERAS_KEY: Final = b"\x00eras"

KEY_BYTES_MAX: Final = 511
"""LMDB's limit."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(dict[str, Any])


class _Mortal(msgspec.Struct):
    """The one attribute that the collection of dead items reads."""

    x: int = 0


_mortal_decoder = msgspec.msgpack.Decoder(_Mortal)


def wrong_format(found: bytes | None) -> str:
    """What a store holds whose format is not ours, in words; "" where it is."""
    if found in (FORMAT, FORMAT_OF_BEFORE):
        return ""
    shown = "no format" if found is None else repr(found.decode(errors="replace"))
    return f"holds {shown}; this program reads {FORMAT.decode()!r}"


def partition_prefix(partition: str) -> bytes:
    """What the partition's keys begin with. Raises ValueError for a name that cannot be one."""
    if not partition or "\0" in partition:
        raise ValueError(f"a partition's name is not empty and has no zero byte: {partition!r}")
    return partition.encode() + b"\0"


def encode_key(key: Key) -> bytes:
    """The stored key. Raises ValueError if it is too long."""
    encoded = partition_prefix(key.partition) + key.sort
    if len(encoded) > KEY_BYTES_MAX:
        raise ValueError(f"a key of {len(encoded)} bytes is above {KEY_BYTES_MAX}: {key}")
    return encoded


def encode_item(attributes: Attributes) -> bytes:
    """The stored value."""
    encoded = _encoder.encode(attributes)
    if len(encoded) > ITEM_BYTES_MAX:
        # What is let in is bounded long before; so it could not be read again.
        raise AssertionError(f"an item of {len(encoded)} bytes is above {ITEM_BYTES_MAX}")
    return encoded


def decode_item(encoded: bytes | memoryview) -> dict[str, Value]:
    """The item. Raises DamagedItemError if these bytes are none."""
    try:
        item = _decoder.decode(encoded)
        for name, value in item.items():
            if type(value) is list:
                item[name] = frozenset(value)
    except (*UNDECODABLE, TypeError) as error:
        raise DamagedItemError("an item cannot be decoded") from error
    return item


def time_to_live_s(stored: bytes | memoryview) -> int:
    """The item's attribute `x`, without building the item; 0: it has none, or is damaged."""
    if not stored or stored[0] != CHECKED_MARK:
        in_head = head_time_to_live_s(stored)
        if in_head is not None:
            return in_head
    try:
        return _mortal_decoder.decode(value_without_check(stored)).x
    except UNDECODABLE:
        return 0

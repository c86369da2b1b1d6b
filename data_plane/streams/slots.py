"""Slots of a stream: the records that one append stores (docs/storage.md, "Slot of a stream")."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from data_plane.ports import Attributes, Item, Key, Value
from data_plane.stored.keys import slot_of
from data_plane.stored.segment import (
    FORMAT_VERSION,
    DamagedSegmentError,
    Sealing,
    Unseal,
    check_version,
    number,
    octets,
    seal,
    slot_name,
    unpack,
)

RECORDS, END = "d", "e"
_CALL = struct.Struct(">16sHHH")
PackedRecord = tuple[str | None, bytes]
"""A record as it is stored: partition key and data."""

_decoder = msgspec.msgpack.Decoder(list[PackedRecord])


class PartOfCall(NamedTuple):
    """Records of a slot that came with one SDK call: so many, from the one at `first` on.

    `before` says how many of the call's records for this shard lie in slots before.
    """

    call: bytes
    first: int
    records: int
    before: int


class RecordSlot(NamedTuple):
    """A slot as readers need it; its records have the offsets from `number` on."""

    number: int
    kind: str
    records: int
    stamp_us: int
    expires_s: int
    key: Key
    item: Attributes

    @property
    def following(self) -> int:
        """The offset behind its records."""
        return self.number + self.records

    @property
    def size_bytes(self) -> int:
        """Of its records, partition keys included."""
        return number(self.item, "y")

    @property
    def key_id(self) -> bytes:
        """The data key that it is sealed with (b"": none)."""
        return octets(self.item, "q") if "q" in self.item else b""

    @property
    def calls(self) -> Iterable[PartOfCall]:
        """The SDK calls in it."""
        packed = self.item.get("c", b"")
        return map(
            PartOfCall._make, _CALL.iter_unpack(packed if isinstance(packed, bytes) else b"")
        )


def read_slot(item: Item) -> RecordSlot:
    """A stored slot. Raises UnknownFormatError."""
    attributes = item.attributes
    check_version(attributes)
    return RecordSlot(
        number=slot_of(item.key.sort),
        kind=str(attributes["k"]),
        records=number(attributes, "n"),
        stamp_us=number(attributes, "t"),
        expires_s=number(attributes, "x"),
        key=item.key,
        item=attributes,
    )


def slot_attributes(
    kind: str, nonce: bytes, stamp_us: int, expires_s: int, records: int
) -> dict[str, Value]:
    """The attributes that slots of both kinds have."""
    common: dict[str, Value] = {"v": FORMAT_VERSION, "k": kind, "w": nonce, "n": records}
    return {**common, "t": stamp_us, "x": expires_s}


def pack_slot(
    records: Sequence[PackedRecord], sealing: Sealing | None, slot: Key, nonce: bytes
) -> dict[str, Value]:
    """The attributes that hold the records, for the write with this nonce."""
    return seal(records, sealing, slot.partition, *slot_name(slot.sort, nonce))


def pack_calls(parts: Iterable[PartOfCall]) -> bytes:
    """The `c` attribute."""
    return b"".join(_CALL.pack(*part) for part in parts)


def unpack_slot(slot: RecordSlot, body: bytes | None, unseal: Unseal | None) -> list[PackedRecord]:
    """The records of a slot; `body` is what a blob holds in the item's stead.

    Raises DamagedSegmentError, UnknownFormatError.
    """
    try:
        return _decoder.decode(unpack(slot.key, slot.item, body, unseal))
    except msgspec.DecodeError as damage:
        raise DamagedSegmentError(str(damage)) from damage

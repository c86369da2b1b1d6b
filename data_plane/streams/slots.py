"""Slots of a stream: the records that one append stores (docs/storage.md, "Slot of a stream")."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from data_plane.core.undecodable import UNDECODABLE
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
_CALL = struct.Struct(">16sHB")
_SEQUENCE_BYTES = 27
_PRODUCED = struct.Struct(f">16sQ{_SEQUENCE_BYTES}sQ")
PackedRecord = tuple[str | None, bytes]
"""A record as it is stored: partition key and data."""

_decoder = msgspec.msgpack.Decoder(list[PackedRecord])


class PartOfCall(NamedTuple):
    """Records of a slot that came with one SDK call, from the one at `first` on.

    `positions` has a bit for each: 1 << its position in the call.
    """

    call: bytes
    first: int
    positions: int


class Produced(NamedTuple):
    """What a producer that numbers its records has put, up to which number, under which epoch.

    `stamp_us` is that of the slot that has the last of it.
    """

    producer: bytes
    epoch: int
    sequence: int
    stamp_us: int


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
    def total_bytes(self) -> int | None:
        """Of all records of the shard up to its own; None where the slot does not say it."""
        return number(self.item, "yt") if "yt" in self.item else None

    @property
    def bytes_below(self) -> int:
        """Of all records of the shard before its own; 0 where the slot does not say it."""
        total_bytes = self.total_bytes
        own_bytes = self.size_bytes if self.kind == RECORDS else 0
        return 0 if total_bytes is None else total_bytes - own_bytes

    @property
    def key_id(self) -> bytes:
        """The data key that it is sealed with (b"": none)."""
        return octets(self.item, "q") if "q" in self.item else b""

    @property
    def calls(self) -> Iterable[PartOfCall]:
        """The SDK calls in it."""
        return _unpack_calls(_octets_or_none(self, "cp"))

    @property
    def produced(self) -> Iterable[Produced]:
        """Producers that number the records here; all that there are if `slots_since_all` is 0."""
        for name, epoch, sequence, stamp_us in _PRODUCED.iter_unpack(_octets_or_none(self, "pe")):
            yield Produced(name, epoch, int.from_bytes(sequence), stamp_us)

    @property
    def has_produced(self) -> bool:
        """Whether it has records with numbers of producers."""
        return "pe" in self.item

    @property
    def slots_since_all(self) -> int:
        """How many slots with such records ago one listed all producers: 0 if this one does."""
        return number(self.item, "pn") if "pn" in self.item else 0

    @property
    def produced_before(self) -> int:
        """The offset of the last slot below with such records (0: there is none)."""
        return number(self.item, "pb") if "pb" in self.item else 0


def _octets_or_none(slot: RecordSlot, name: str) -> bytes:
    return octets(slot.item, name) if name in slot.item else b""


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
    """The `cp` attribute."""
    packed = []
    for call, first, positions in parts:
        octets_of_positions = -(-positions.bit_length() // 8)
        packed.append(_CALL.pack(call, first, octets_of_positions))
        packed.append(positions.to_bytes(octets_of_positions))
    return b"".join(packed)


def _unpack_calls(packed: bytes) -> Iterator[PartOfCall]:
    at = 0
    while at < len(packed):
        call, first, octets_of_positions = _CALL.unpack_from(packed, at)
        at += _CALL.size
        positions = packed[at : at + octets_of_positions]
        at += octets_of_positions
        yield PartOfCall(call, first, int.from_bytes(positions))


def pack_produced(
    produced: Iterable[Produced], slots_since_all: int, before: int
) -> dict[str, Value]:
    """The attributes by which producers are found, from the last slot on."""
    entries = b"".join(
        _PRODUCED.pack(
            one.producer, one.epoch, one.sequence.to_bytes(_SEQUENCE_BYTES), one.stamp_us
        )
        for one in produced
    )
    return {
        **({"pe": entries, "pn": slots_since_all} if entries else {}),
        **({"pb": before} if before else {}),
    }


def unpack_slot(slot: RecordSlot, body: bytes | None, unseal: Unseal | None) -> list[PackedRecord]:
    """The records of a slot; `body` is what a blob holds in the item's stead.

    Raises DamagedSegmentError, UnknownFormatError.
    """
    try:
        return _decoder.decode(unpack(slot.key, slot.item, body, unseal))
    except UNDECODABLE as damage:
        raise DamagedSegmentError(str(damage)) from damage

"""Slots: what one append stores, as an item and as values (docs/storage.md)."""

import struct
from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple

from data_plane.core.message import Message, Outgoing
from data_plane.core.queue import Generation
from data_plane.ports import Attributes, Item, Key, Value
from data_plane.stored.keys import slot_of
from data_plane.stored.segment import (
    FORMAT_VERSION,
    PackedMessage,
    Sealing,
    check_version,
    number,
    octets,
    pack_message,
    repack_message,
    seal,
    slot_name,
)

MESSAGES, PURGE, START, END = "s", "p", "r", "e"
UNREADABLE = "u"
"""Of a shard that a queue reads: a slot that is damaged, and passed over. It is never stored."""
_HASHES = struct.Struct(">16s16s16s")
_NO_BODIES: Attributes = MappingProxyType({})


class Hashes(NamedTuple):
    """What a slot says of a message in clear: deduplication hash, message id, group hash."""

    dedup: bytes
    id: bytes
    group: bytes


class Slot(NamedTuple):
    """A slot as whoever reads the log needs it; `item`, under `key`, has the bodies.

    `opened` are its messages where they had to be opened to read it, as those of a shard's pieces.
    """

    number: int
    kind: str
    stamp_us: int
    expires_s: int
    block: int
    first: int
    messages: tuple[Hashes, ...]
    key: Key
    item: Attributes
    opened: Sequence[Message] | None = None

    @property
    def next_index(self) -> int:
        """The index in the block of the first message of the next slot."""
        return self.first + len(self.messages)

    def without_bodies(self) -> "Slot":
        """The slot as writers need the last one: who remembers it keeps no messages in memory."""
        return self._replace(item=_NO_BODIES) if self.kind == MESSAGES else self


def generation_after(slot: Slot) -> Generation:
    """What follows the log of which this is the end."""
    return Generation(number(slot.item, "l"), number(slot.item, "m"), number(slot.item, "s"))


def purged_by(slot: Slot) -> int:
    """Up to which stamp (us) a purge goes: those that only bring a log forward say it."""
    return number(slot.item, "l") if "l" in slot.item else slot.stamp_us


class PackedFifoMessage(NamedTuple):
    """A message on its way into a slot."""

    hashes: Hashes
    stored: PackedMessage
    size_bytes: int
    moved: bool


def pack(message: Outgoing, hashes: Hashes, sender: str) -> PackedFifoMessage:
    """A message as it is stored."""
    if message.moved is not None:
        return PackedFifoMessage(
            hashes, repack_message(message.moved, message.size), message.size, moved=True
        )
    stored = [*pack_message(hashes.id, message, sender), message.deduplication_id]
    return PackedFifoMessage(hashes, stored, message.size, moved=False)


def pack_slot(
    messages: Sequence[PackedFifoMessage], sealing: Sealing | None, slot: Key, nonce: bytes
) -> dict[str, Value]:
    """The attributes of a slot that depend on its messages, for the write with this nonce."""
    stored = [message.stored for message in messages]
    moved: dict[str, Value] = {"j": 1} if any(message.moved for message in messages) else {}
    return {
        **moved,
        "n": len(messages),
        "y": sum(message.size_bytes for message in messages),
        **seal(stored, sealing, slot.partition, *slot_name(slot.sort, nonce)),
        "u": b"".join(_HASHES.pack(*message.hashes) for message in messages),
    }


def read_slot(item: Item) -> Slot:
    """A stored slot. Raises UnknownFormatError."""
    attributes = item.attributes
    check_version(attributes)
    hashes = octets(attributes, "u") if "u" in attributes else b""
    return Slot(
        number=slot_of(item.key.sort),
        kind=str(attributes["k"]),
        stamp_us=number(attributes, "t"),
        expires_s=number(attributes, "x"),
        block=number(attributes, "b"),
        first=number(attributes, "i"),
        messages=tuple(map(Hashes._make, _HASHES.iter_unpack(hashes))),
        key=item.key,
        item=attributes,
    )


def common_attributes(kind: str, nonce: bytes, stamp_us: int, expires_s: int) -> dict[str, Value]:
    """The attributes that slots of every kind have."""
    return {"v": FORMAT_VERSION, "k": kind, "w": nonce, "t": stamp_us, "x": expires_s}

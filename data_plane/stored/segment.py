"""Segments: messages that were acknowledged together, as one item (docs/storage.md)."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import zstandard

from data_plane.core.message import Message, MessageAttribute, Outgoing
from data_plane.core.sealing import DataSeal, place
from data_plane.core.undecodable import UNDECODABLE
from data_plane.ports import Attributes, Key, Value
from data_plane.stored.bounds import COMPRESS_BYTES_MIN, PARTITIONS_HELD_MAX

FORMAT_VERSION = 1
DEAD_LETTER_VERSION = 2
"""Of segments with a message that was sent to another queue, at another time."""

ID_BYTES = 16
PACKED = 0
COMPRESSED = 1
SEALED = 16
"""Added to what is beneath."""

_SEALED_ENVELOPES = (SEALED + PACKED, SEALED + COMPRESSED)
_COMPRESSED_ENVELOPES = (COMPRESSED, SEALED + COMPRESSED)
_ENVELOPES = (PACKED, COMPRESSED, *_SEALED_ENVELOPES)

_DEDUPLICATION_ID = 7
_ORIGIN = 8
"""Places in a stored message; it ends before what it does not have."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()

PackedMessage = list[Any]

Unseal = Callable[[Key, Attributes, bytes], bytes]
"""From the key and the item of a segment to what is beneath its seal. Raises DamagedSegmentError.
"""


class UnknownFormatError(Exception):
    """A stored item has a version or an envelope that this code does not know."""


@dataclass(frozen=True, slots=True)
class CallInSegment:
    """Messages `offset` to `offset + count` of a segment came with this SDK call."""

    call: bytes
    offset: int
    count: int


def pack_message(message_id: bytes, message: Outgoing, sender: str) -> PackedMessage:
    """A message as it is stored."""
    return [
        message_id,
        message.body,
        [(name, value.data_type, value.value) for name, value in message.attributes],
        message.trace_header,
        message.group,
        sender,
        message.size,
    ]


def repack_message(message: Message, size_bytes: int) -> PackedMessage:
    """A message that another queue had, as it is stored."""
    packed = [
        message.id,
        message.body,
        [(name, value.data_type, value.value) for name, value in message.attributes],
        message.trace_header,
        message.group,
        message.sender,
        size_bytes,
    ]
    if message.dead_letter_source or message.deduplication_id:
        packed.append(message.deduplication_id)
    if message.dead_letter_source:
        packed.append([message.dead_letter_source, message.received, message.first_received_ms])
    return packed


class Sealing(NamedTuple):
    """What a segment is sealed with: a data key, its id, and a nonce that serves once."""

    key_id: bytes
    seal: DataSeal
    nonce: bytes
    account: str


def seal(
    messages: Sequence[Sequence[Any]], sealing: Sealing | None, partition: str, *name: bytes | str
) -> dict[str, Value]:
    """Pack, compress where it pays, and seal: the attributes that hold the messages.

    `name` is the segment's in its partition: `segment_name` or `slot_name`.
    """
    envelope, packed = _compressed(_encoder.encode(messages))
    return _sealed(envelope, packed, len(messages), sealing, partition, *name)


def seal_in_slices(
    messages: Sequence[Sequence[Any]], sealing: Sealing | None, partition: str, *name: bytes | str
) -> Generator[None, None, dict[str, Value]]:
    """As `seal`, for long messages: it yields where others may have their turn."""
    yield
    packed = _encoder.encode(messages)
    yield
    envelope, packed = _compressed(packed)
    yield
    return _sealed(envelope, packed, len(messages), sealing, partition, *name)


def _compressed(packed: bytes) -> tuple[int, bytes]:
    """The envelope, and what is in it."""
    if len(packed) >= COMPRESS_BYTES_MIN:
        compressed = _compressor.compress(packed)
        if len(compressed) * 10 < len(packed) * 9:
            return COMPRESSED, compressed
    return PACKED, packed


def _sealed(
    envelope: int,
    packed: bytes,
    count: int,
    sealing: Sealing | None,
    partition: str,
    *name: bytes | str,
) -> dict[str, Value]:
    if sealing is None:
        return {"e": envelope, "z": packed}
    envelope += SEALED
    where = _bound_to(sealing.account, partition, *name, f"{envelope}|{count}")
    sealed = sealing.seal.seal(sealing.nonce, packed, where)
    return {"e": envelope, "q": sealing.key_id, "z": sealed}


def segment_name(block: bytes, first: int) -> tuple[bytes | str, ...]:
    """What a segment is called in its partition, whatever its slice."""
    return block, str(first)


def slot_name(slot: bytes, nonce: bytes) -> tuple[bytes | str, ...]:
    """What a slot is called in its partition: its sort key, and the write that got it."""
    return slot, nonce


def bound_to(account: str, key: Key, item: Attributes) -> bytes:
    """The place that the seal of a stored segment, or slot, is bound to."""
    if "w" in item:
        name = slot_name(key.sort, octets(item, "w"))
    else:
        name = segment_name(octets(item, "b"), number(item, "i"))
    return _bound_to(account, key.partition, *name, f"{number(item, 'e')}|{number(item, 'n')}")


def _bound_to(account: str, partition: str, *name: bytes | str) -> bytes:
    return _place_of_partition(account, partition) + place(*name)


@lru_cache(PARTITIONS_HELD_MAX)
def _place_of_partition(account: str, partition: str) -> bytes:
    return place(account, partition)


class DamagedSegmentError(Exception):
    """A segment's bytes are not what was written."""


def unpack(key: Key, item: Attributes, body: bytes | None, unseal: Unseal | None) -> bytes:
    """What is beneath the seal and the compression of a segment: a MessagePack list.

    `body` is what a blob holds in the item's stead. Raises DamagedSegmentError, UnknownFormatError.
    """
    if item["v"] != DEAD_LETTER_VERSION:
        check_version(item)
    envelope, packed = item["e"], item["z"] if body is None else body
    if envelope not in _ENVELOPES or not isinstance(packed, bytes):
        raise UnknownFormatError(f"segment with envelope {envelope!r}")
    if envelope in _SEALED_ENVELOPES:
        if unseal is None:
            raise UnknownFormatError("a sealed segment, and no keys")
        packed = unseal(key, item, packed)
    try:
        return _decompressor.decompress(packed) if envelope in _COMPRESSED_ENVELOPES else packed
    except zstandard.ZstdError as damage:
        raise DamagedSegmentError(str(damage)) from damage


def _open(
    key: Key, item: Attributes, body: bytes | None, unseal: Unseal | None
) -> list[PackedMessage]:
    packed = unpack(key, item, body, unseal)
    try:
        return _decoder.decode(packed)
    except UNDECODABLE as damage:
        raise DamagedSegmentError(str(damage)) from damage


def check_version(item: Attributes) -> None:
    """Raises UnknownFormatError for an item of a format that came after this code."""
    if item["v"] != FORMAT_VERSION:
        raise UnknownFormatError(f"stored item of version {item['v']!r}")


def open_segment(
    key: Key, item: Attributes, body: bytes | None = None, unseal: Unseal | None = None
) -> list[Message]:
    """The messages of the segment under this key, in order.

    `body` is what a blob holds in the item's stead. Raises DamagedSegmentError, UnknownFormatError.
    """
    sent_ms = sent_us(item) // 1000
    return [
        Message(
            stored[0],
            stored[1],
            tuple((name, MessageAttribute(kind, value)) for name, kind, value in stored[2]),
            stored[3],
            stored[4],
            stored[5],
            sent_ms,
            0,
            stored[_DEDUPLICATION_ID] if len(stored) > _DEDUPLICATION_ID else "",
            *(stored[_ORIGIN] if len(stored) > _ORIGIN else ()),
        )
        for stored in _open(key, item, body, unseal)
    ]


def sent_us(item: Attributes) -> int:
    """When the messages of a segment were sent; dead letters, to the queue that they come from."""
    return number(item, "l" if item["v"] == DEAD_LETTER_VERSION else "t")


class LoadedSegment:
    """A segment in memory; its messages are opened when the first of them is needed.

    `key_id` names the data key of what is sealed (b"": it is not). `blob` names its body where that
    lies apart ("": it does not); then `messages` is not for it.
    Retention counts from `sent_us`; a purge goes by `stamp_us`, when the queue got them.
    """

    __slots__ = (
        "_messages",
        "blob",
        "count",
        "first",
        "item",
        "key",
        "key_id",
        "sent_us",
        "stamp_us",
    )

    def __init__(self, key: Key, item: Attributes) -> None:
        self.key = key
        self.item = item
        self.key_id = octets(item, "q") if "q" in item else b""
        self.first = number(item, "i")
        self.count = number(item, "n")
        self.sent_us = sent_us(item)
        self.stamp_us = number(item, "t")
        self.blob = str(item.get("o", ""))
        self._messages: list[Message] | None = None

    @property
    def size_bytes(self) -> int:
        """Of its messages, as SQS counts them."""
        return number(self.item, "y")

    def opening(self, unseal: Unseal | None) -> Generator[None, None, None]:
        """Open the messages now, after others have had their turn. Raises as `messages`."""
        if self._messages is None:
            yield
            self.messages(unseal)

    def messages(self, unseal: Unseal | None = None) -> list[Message]:
        """All of them, in order. Raises DamagedSegmentError, UnknownFormatError."""
        if self._messages is None:
            self._messages = open_segment(self.key, self.item, unseal=unseal)
        return self._messages


def message_ids(
    key: Key, item: Attributes, offset: int, count: int, unseal: Unseal | None
) -> list[bytes]:
    """The ids of some messages of a segment."""
    apart = item.get("a")
    if isinstance(apart, bytes):
        starts = range(offset * ID_BYTES, (offset + count) * ID_BYTES, ID_BYTES)
        return [apart[start : start + ID_BYTES] for start in starts]
    return [stored[0] for stored in _open(key, item, None, unseal)[offset : offset + count]]


def number(item: Attributes, name: str) -> int:
    """An integer attribute that every item of this kind has."""
    value = item[name]
    if not isinstance(value, int):
        raise UnknownFormatError(f"attribute {name} is {type(value).__name__}, not a number")
    return value


def octets(item: Attributes, name: str) -> bytes:
    """A bytes attribute that every item of this kind has."""
    value = item[name]
    if not isinstance(value, bytes):
        raise UnknownFormatError(f"attribute {name} is {type(value).__name__}, not bytes")
    return value


TAG_BYTES = 8


def pack_tags(tags: Sequence[bytes]) -> bytes:
    """The `u` attribute: of groups that are named by 8 bytes each, zeros for none."""
    return tags[0] if len(set(tags)) == 1 else b"".join(tags)


def group_tags(item: Attributes) -> list[bytes]:
    """The tags of the messages' groups, in order; empty where no message has one."""
    packed = item.get("u")
    if not isinstance(packed, bytes):
        return []
    if len(packed) == TAG_BYTES:
        return [packed] * number(item, "n")
    return [packed[start : start + TAG_BYTES] for start in range(0, len(packed), TAG_BYTES)]


def pack_calls(calls: Sequence[CallInSegment]) -> bytes:
    """The `c` attribute."""
    return b"".join(call.call + bytes((call.offset, call.count)) for call in calls)


def calls_of(item: Attributes) -> list[CallInSegment]:
    """The SDK calls whose messages a segment has, by the names they have there."""
    packed = item.get("c", b"")
    if not isinstance(packed, bytes):
        raise UnknownFormatError("attribute c is not bytes")
    return [
        CallInSegment(packed[start : start + 16], packed[start + 16], packed[start + 17])
        for start in range(0, len(packed), 18)
    ]

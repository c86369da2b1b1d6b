"""Shard iterators: sealed places in shards. They may be used more than once, and never expire.

But where streams are strict, they say when they were made (strict_streams.py).

A text is base64 of eight fixed bytes and sealed ones, whose length is a multiple of 16: so it is
with AWS, and clients' tests look at it.
"""

import base64
import binascii
from typing import Final

import msgspec

from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.sealing import NotSealedHereError, TokenSeal
from data_plane.core.stream import Shard, Stream
from data_plane.operations.stream_address import StreamName
from data_plane.streams.reading import Place

PURPOSE: Final = "shard iterators"
_VERSION: Final = (1).to_bytes(8, "big")
_BLOCK: Final = 16
_LENGTH: Final = 2


class ShardIterator(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an iterator says: the place `offset`, `slot` in a shard of a stream.

    `made_ms` is when it was made, 0 where nobody wants to know.
    """

    account: str
    region: str
    name: str
    uid: str
    shard: int
    offset: int
    slot: int
    made_ms: int = 0

    @property
    def stream(self) -> StreamName:
        """The stream that it leads into."""
        return StreamName(self.account, self.region, self.name)

    @property
    def place(self) -> Place:
        """Where to read on."""
        return Place(self.offset, self.slot)


def to_text(seal: TokenSeal, stream: Stream, shard: Shard, place: Place, made_ms: int = 0) -> str:
    """The iterator that leads to a place."""
    whose = (stream.account, stream.region, stream.name, stream.uid)
    packed = msgspec.msgpack.encode(ShardIterator(*whose, shard.number, *place, made_ms))
    plain = len(packed).to_bytes(_LENGTH, "big") + packed
    plain += bytes(-len(plain) % _BLOCK)
    return base64.b64encode(_VERSION + seal.seal(plain)).decode()


def from_text(seal: TokenSeal, text: str) -> ShardIterator:
    """What an iterator says; quotes around it are let pass (recorded from AWS).

    Raises RefusedError (InvalidArgument).
    """
    try:
        octets = base64.b64decode(text.removeprefix('"').removesuffix('"'), validate=True)
        if octets[: len(_VERSION)] != _VERSION:
            raise NotSealedHereError
        plain = seal.unseal(octets[len(_VERSION) :])
    except (binascii.Error, ValueError, NotSealedHereError):
        raise RefusedError(INVALID_ARGUMENT, "Invalid ShardIterator.") from None
    length = int.from_bytes(plain[:_LENGTH], "big")
    return msgspec.msgpack.decode(plain[_LENGTH : _LENGTH + length], type=ShardIterator)

"""What lies in the shared cache: sealed entries under keyed names.

Whoever reaches the cache's nodes reads nothing and forges nothing: an entry opens only under the
registry's secret and only under the name of its item, and names are keyed digests. An old entry
that somebody puts back says itself how old it is. docs/storage.md has the format.
"""

import hashlib
from typing import Any, Final

import msgspec

from data_plane.core.sealing import NotSealedHereError, TokenSeal, derive
from data_plane.ports import Attributes, Key

_NAMES: Final = "metadata cache names 1"
_ENTRIES: Final = "metadata cache entries 1"
"""Keys of a format open nothing of another, and versions of the program pass each other by."""

_DIGEST_BYTES: Final = 16
ENTRY_BYTES_MAX: Final = 512 * 1024
"""What is bigger is not cached: memcached takes values of 1 MB."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An item as the registry's cell had it at `asked_us` or later.

    Without an item it marks one that was changed then: whoever began to read it before keeps off.
    """

    asked_us: int
    item: dict[str, Any] | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class Entries:
    """Names, seals and opens the entries of one registry, by its secret of 32 bytes."""

    def __init__(self, registry_secret: bytes) -> None:
        self._seal = TokenSeal(registry_secret, _ENTRIES)
        self._digest_key = derive(registry_secret, _NAMES)

    def name(self, key: Key) -> str:
        """Of the item's entry: 32 hexadecimal digits, which tell nothing."""
        partition = key.partition.encode()
        place = len(partition).to_bytes(4, "big") + partition + key.sort
        return hashlib.blake2b(place, key=self._digest_key, digest_size=_DIGEST_BYTES).hexdigest()

    def seal(self, name: str, asked_us: int, item: Attributes | None) -> bytes | None:
        """The entry as it is put under this name; None where it is too big to be."""
        plain = _encoder.encode(Entry(asked_us, None if item is None else dict(item)))
        if len(plain) > ENTRY_BYTES_MAX:
            return None
        return self._seal.seal(plain, name.encode())

    def open(self, name: str, sealed: bytes) -> Entry | None:
        """The entry under this name; None where these bytes are none."""
        try:
            entry = _decoder.decode(self._seal.unseal(sealed, name.encode()))
        except (NotSealedHereError, msgspec.DecodeError):
            return None
        item = entry.item or {}
        for attribute, value in item.items():
            if type(value) is list:  # what a set becomes in MessagePack
                item[attribute] = frozenset(value)
        return entry

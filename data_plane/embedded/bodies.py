"""How values lie in the store: with a checksum, and in pieces where they are too big for a page.

A checksum is a CRC-32 of the key and the value. So what was altered on the disk is noticed, and
what lies under another item's key, too. Values of a store of before have none.

Values too big for a page lie in pieces of half a page.

LMDB would give such a value a run of pages. In a store where much was deleted here and there it
then searches all free pages for a run, and writes the list of them back, in every commit: with
150,000 of them an append of 30 KB took 20 to 50 ms (docs/adr/0001-embedded-store.md). Pieces need
no runs.

The pieces of a value are numbered one after the other in a tree of their own; under the item's key
lies a head that names them.
"""

from collections.abc import Callable
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import lmdb

from data_plane.ports import DamagedItemError
from data_plane.streams.bounds import ITEM_BYTES_MAX

_MARK_OF_BEFORE: Final = 0xC1
_HEAD_OF_BEFORE: Final = Struct(">BQIQ")
"""A head without a checksum, of a value without one: nobody writes it any more."""

CHECKED_MARK: Final = 0xC2
_CHECKED: Final = Struct(">BI")
_HEAD_MARK: Final = 0xC3
_HEAD: Final = Struct(">BIQIQ")
"""No item begins with one of these bytes: a MessagePack map has others."""

VALUE_BYTES_MAX: Final = ITEM_BYTES_MAX + _CHECKED.size

_PAGE_HEADER_BYTES: Final = 16
_NODE_HEADER_BYTES: Final = 8
_NODE_POINTER_BYTES: Final = 2
_NUMBER_BYTES: Final = 8


class Bodies:
    """Splits and joins values; `tree` holds the pieces."""

    def __init__(self, tree: lmdb._Database, page_bytes: int) -> None:
        self.tree = tree
        # Two nodes fill a page; LMDB moves a value out of the tree if its node is bigger.
        node_bytes = (page_bytes - _PAGE_HEADER_BYTES) // 2 // 2 * 2 - _NODE_POINTER_BYTES
        self._inline_bytes = node_bytes - _NODE_HEADER_BYTES
        self._piece_bytes = self._inline_bytes - _NUMBER_BYTES

    def split(
        self,
        txn: lmdb.Transaction,
        key: bytes,
        value: bytes,
        time_to_live_s: Callable[[bytes], int],
    ) -> bytes:
        """What to store under the item's key: the value, or a head after storing its pieces.

        The value's `time_to_live_s` is read where a head is to repeat it.
        """
        whole = _CHECKED.pack(CHECKED_MARK, crc32(value, crc32(key))) + value
        if len(key) + len(whole) <= self._inline_bytes:
            return whole
        with txn.cursor(self.tree) as cursor:
            first = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
            for number, start in enumerate(range(0, len(whole), self._piece_bytes), start=first):
                piece = whole[start : start + self._piece_bytes]
                cursor.put(number.to_bytes(_NUMBER_BYTES, "big"), piece, append=True)
        return _packed_head(key, Head(first, len(whole), time_to_live_s(value)))

    def join(
        self, txn: lmdb.Transaction, key: bytes, stored: bytes | memoryview
    ) -> bytes | memoryview:
        """The value whose own bytes or whose head this is. Raises DamagedItemError."""
        if stored and stored[0] == CHECKED_MARK:
            return checked_value(key, stored)
        head = read_head(key, stored)
        if head is None:
            return stored
        with txn.cursor(self.tree) as cursor:
            if not cursor.set_key(head.first.to_bytes(_NUMBER_BYTES, "big")):
                raise DamagedItemError("a value's first piece is missing")
            pieces = islice(cursor.iternext(keys=False), self.pieces(head.size_bytes))
            value = b"".join(pieces)
        return joined_value(key, head, value)

    def drop(self, txn: lmdb.Transaction, key: bytes, stored: bytes | memoryview | None) -> None:
        """Delete the pieces of what lay under an item's key, if it has any.

        Where the head is damaged nobody knows which they were: they stay.
        """
        try:
            head = read_head(key, stored) if stored else None
        except DamagedItemError:
            return
        if head is None:
            return
        with txn.cursor(self.tree) as cursor:
            if not cursor.set_key(head.first.to_bytes(_NUMBER_BYTES, "big")):
                return
            for _piece in range(self.pieces(head.size_bytes)):
                cursor.delete()

    def pieces(self, size_bytes: int) -> int:
        """How many pieces a value has."""
        return -(-size_bytes // self._piece_bytes)


class Head(NamedTuple):
    """Which pieces a value has, its bytes with its checksum, and its time to live."""

    first: int
    size_bytes: int
    time_to_live_s: int


def _packed_head(key: bytes, head: Head) -> bytes:
    checksum = crc32(_HEAD.pack(_HEAD_MARK, 0, *head), crc32(key))
    return _HEAD.pack(_HEAD_MARK, checksum, *head)


def read_head(key: bytes, stored: bytes | memoryview) -> Head | None:
    """The head that lies under a key; None: a value does. Raises DamagedItemError."""
    mark = stored[0] if stored else -1
    if mark == CHECKED_MARK:
        return None
    if mark == _HEAD_MARK and len(stored) == _HEAD.size:
        head = Head(*_HEAD.unpack(stored)[2:])
        whole = _packed_head(key, head) == stored
    elif mark == _MARK_OF_BEFORE and len(stored) == _HEAD_OF_BEFORE.size:
        head = Head(*_HEAD_OF_BEFORE.unpack(stored)[1:])
        whole = True
    elif mark in (-1, _HEAD_MARK, _MARK_OF_BEFORE):
        raise DamagedItemError("a value is cut off")
    else:
        return None
    if not whole or not 0 < head.size_bytes <= VALUE_BYTES_MAX:
        raise DamagedItemError("a value's head is damaged")
    return head


def joined_value(key: bytes, head: Head, value: bytes) -> bytes | memoryview:
    """What these pieces together are the value of. Raises DamagedItemError."""
    if len(value) != head.size_bytes:
        raise DamagedItemError(f"a value has {len(value)} bytes instead of {head.size_bytes}")
    return checked_value(key, value)


def checked_value(key: bytes, stored: bytes | memoryview) -> bytes | memoryview:
    """The value without its checksum. Raises DamagedItemError."""
    if stored[0] != CHECKED_MARK:
        return stored
    value = stored[_CHECKED.size :]
    if int.from_bytes(stored[1 : _CHECKED.size], "big") != crc32(value, crc32(key)):
        raise DamagedItemError("a value is not the one that was stored")
    return value


def own_key(key: bytes, stored: bytes) -> bytes | None:
    """The key of a value that fails its checksum, if one flipped bit explains that; else None.

    A checksum of 32 bits tells which bit of so few bytes it was.
    """
    if len(stored) < _CHECKED.size or stored[0] != CHECKED_MARK:
        return None
    value = stored[_CHECKED.size :]
    wrong = _CHECKED.unpack_from(stored)[1] ^ crc32(value, crc32(key))
    if wrong.bit_count() == 1:
        return key  # the checksum itself
    flips = [_shift(1 << bit) for bit in range(8)]
    for place in range(len(key) + len(value) - 1, -1, -1):
        if wrong in flips:
            if place >= len(key):
                return key
            flipped = key[place] ^ 1 << flips.index(wrong)
            return key[:place] + bytes((flipped,)) + key[place + 1 :]
        flips = [_shift(flip & 0xFF) ^ flip >> 8 for flip in flips]
    return None


def _shift(octet: int) -> int:
    """What a byte adds to a checksum that it is the last byte of."""
    return crc32(bytes((octet,))) ^ crc32(b"\0")


def value_without_check(stored: bytes | memoryview) -> bytes | memoryview:
    """The value that lies under a key, whatever its checksum says."""
    return memoryview(stored)[_CHECKED.size :] if stored and stored[0] == CHECKED_MARK else stored


def value_bytes(stored: bytes | memoryview) -> int:
    """Size of the value whose own bytes or whose head this is, without its checksum.

    Of one that is damaged about what it takes: whoever removes it needs no more.
    """
    mark = stored[0] if stored else -1
    if mark == CHECKED_MARK:
        return len(stored) - _CHECKED.size
    if mark == _HEAD_MARK and len(stored) == _HEAD.size:
        return Head(*_HEAD.unpack(stored)[2:]).size_bytes - _CHECKED.size
    if mark == _MARK_OF_BEFORE and len(stored) == _HEAD_OF_BEFORE.size:
        return Head(*_HEAD_OF_BEFORE.unpack(stored)[1:]).size_bytes
    return len(stored)


def head_time_to_live_s(stored: bytes | memoryview) -> int | None:
    """The time to live that a head repeats, so that no pieces need be read; None: it is no head."""
    if len(stored) == _HEAD.size and stored[0] == _HEAD_MARK:
        return int(_HEAD.unpack(stored)[4])
    if len(stored) == _HEAD_OF_BEFORE.size and stored[0] == _MARK_OF_BEFORE:
        return int(_HEAD_OF_BEFORE.unpack(stored)[3])
    return None

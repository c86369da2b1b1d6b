"""Values too big for a page, in pieces of half a page.

LMDB would give such a value a run of pages. In a store where much was deleted here and there it
then searches all free pages for a run, and writes the list of them back, in every commit: with
150,000 of them an append of 30 KB took 20 to 50 ms (docs/adr/0001-embedded-store.md). Pieces need
no runs.

The pieces of a value are numbered one after the other in a tree of their own; under the item's key
lies a head that names them.
"""

from itertools import islice
from struct import Struct
from typing import Final

import lmdb

_HEAD: Final = Struct(">BQIQ")
_HEAD_MARK: Final = 0xC1
"""A byte with which no MessagePack value begins."""

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

    def split(self, txn: lmdb.Transaction, key: bytes, value: bytes, time_to_live_s: int) -> bytes:
        """What to store under the item's key: the value, or a head after storing its pieces."""
        if len(key) + len(value) <= self._inline_bytes:
            return value
        with txn.cursor(self.tree) as cursor:
            first = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
            for number, start in enumerate(range(0, len(value), self._piece_bytes), start=first):
                piece = value[start : start + self._piece_bytes]
                cursor.put(number.to_bytes(_NUMBER_BYTES, "big"), piece, append=True)
        return _HEAD.pack(_HEAD_MARK, first, len(value), time_to_live_s)

    def join(self, txn: lmdb.Transaction, stored: bytes | memoryview) -> bytes | memoryview:
        """The value whose own bytes or whose head this is."""
        if stored[0] != _HEAD_MARK:
            return stored
        _mark, first, size_bytes, _time = _HEAD.unpack(stored)
        with txn.cursor(self.tree) as cursor:
            cursor.set_key(first.to_bytes(_NUMBER_BYTES, "big"))
            pieces = islice(cursor.iternext(keys=False), self._pieces(size_bytes))
            value = b"".join(pieces)
        if len(value) != size_bytes:
            raise lmdb.CorruptedError(f"a value has {len(value)} bytes instead of {size_bytes}")
        return value

    def drop(self, txn: lmdb.Transaction, stored: bytes | memoryview | None) -> None:
        """Delete the pieces of what lay under an item's key, if it has any."""
        if stored is None or stored[0] != _HEAD_MARK:
            return
        _mark, first, size_bytes, _time = _HEAD.unpack(stored)
        with txn.cursor(self.tree) as cursor:
            cursor.set_key(first.to_bytes(_NUMBER_BYTES, "big"))
            for _piece in range(self._pieces(size_bytes)):
                cursor.delete()

    def _pieces(self, size_bytes: int) -> int:
        return -(-size_bytes // self._piece_bytes)


def head_time_to_live_s(stored: bytes | memoryview) -> int | None:
    """The time to live that a head repeats, so that no pieces need be read; None: it is no head."""
    if stored[0] != _HEAD_MARK:
        return None
    time_to_live_s: int = _HEAD.unpack(stored)[3]
    return time_to_live_s

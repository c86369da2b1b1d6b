"""A copy of the whole cell as it is at one moment, made while the cell goes on serving.

The items are read page by page, each page from the snapshot that is the last then. What changed
behind the reader is read again, until so little is left that all of it fits into one turn of the
event loop: then the copy is that of this moment. So a copy holds up nobody, needs no second
environment, and no snapshot that lives long, which this store cannot have (store.py).

A copy is a stream of frames: `u8(kind) be32(bytes of key) be32(bytes of value) key value`.
"""

import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

import lmdb
import msgspec

from data_plane.embedded.store import Store
from data_plane.ports import CellUnavailableError

ITEM: Final = b"i"
"""An item under its stored key; in order of the keys."""
CHANGED: Final = b"c"
"""An item that takes the place of all that came before under its key."""
GONE: Final = b"g"
"""There is no item under this key any more."""
END: Final = b"e"
"""The last frame: its value is a CopyEnd in JSON."""

PAGE_BYTES: Final = 256 * 1024
"""Read in one turn of the event loop: it takes about a millisecond."""
LAST_KEYS_MAX: Final = 500
"""Read in the last turn."""

_KINDS: Final = (ITEM, CHANGED, GONE, END)
_HEADER: Final = struct.Struct(">cII")


class CopyCutOffError(Exception):
    """The stream ended before the copy did, or is none."""


class Frame(NamedTuple):
    """One frame of a copy."""

    kind: bytes
    key: bytes
    value: bytes

    def to_bytes(self) -> bytes:
        """As sent."""
        return _HEADER.pack(self.kind, len(self.key), len(self.value)) + self.key + self.value


class CopyEnd(msgspec.Struct):
    """Of which moment the copy is (microseconds), and how many frames came before."""

    as_of_us: int
    frames: int


class CellCopy:
    """One copy under way. The cell tells it which keys were written, and when a commit failed.

    `now_us` is the cell's present.
    """

    def __init__(self, store: Callable[[], Store], now_us: Callable[[], int]) -> None:
        self._store = store
        self._now_us = now_us
        self._read_to = b""
        self._scanned = False
        self._changed: dict[bytes, None] = {}
        self._failed = False
        self._frames = 0

    def note(self, keys: Iterable[bytes]) -> None:
        """These keys were written by a commit that readers see now."""
        for key in keys:
            if self._scanned or key <= self._read_to:
                self._changed[key] = None

    def fail(self) -> None:
        """Nothing is known of what was committed last: this copy cannot be finished."""
        self._failed = True

    async def pages(self) -> AsyncIterator[bytes]:
        """The frames, some at a time. Raises CellUnavailableError where it cannot be finished."""
        while not self._scanned:
            yield self._page(self._scan())
        while len(self._changed) > LAST_KEYS_MAX:
            yield self._page(self._again())
        # From here to the end nothing is awaited: no commit comes between.
        frames = list(self._again())
        end = CopyEnd(self._now_us(), self._frames + len(frames))
        frames.append(Frame(END, b"", msgspec.json.encode(end)))
        yield self._page(frames)

    def _page(self, frames: Iterable[Frame]) -> bytes:
        if self._failed:
            raise CellUnavailableError("a commit failed while the cell was copied")
        try:
            encoded = [frame.to_bytes() for frame in frames]
        except lmdb.Error as error:
            raise CellUnavailableError(f"a read failed: {error}") from error
        self._frames += len(encoded)
        return b"".join(encoded)

    def _scan(self) -> Iterator[Frame]:
        """The next page of items in order of their keys."""
        store, size_bytes = self._store(), 0
        for key, stored in _items(store.snapshot, self._read_to):
            value = bytes(store.bodies.join(store.snapshot, stored))
            self._read_to = key
            yield Frame(ITEM, key, value)
            size_bytes += len(key) + len(value)
            if size_bytes >= PAGE_BYTES:
                return
        self._scanned = True

    def _again(self) -> Iterator[Frame]:
        """Some of what was written behind the reader, as it is now."""
        store, keys = self._store(), list(self._changed)[:LAST_KEYS_MAX]
        for key in keys:
            del self._changed[key]
            stored = store.snapshot.get(key)
            if stored is None:
                yield Frame(GONE, key, b"")
            else:
                yield Frame(CHANGED, key, bytes(store.bodies.join(store.snapshot, stored)))


def _items(snapshot: lmdb.Transaction, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Items' keys, and what lies under them, behind this key."""
    with snapshot.cursor() as cursor:
        if cursor.set_range(after + b"\0"):
            for key, stored in cursor.iternext():
                # Records of the cell itself begin with a zero byte, or have none.
                if (name := bytes(key)).find(b"\0") > 0:
                    yield name, bytes(stored)


def read_frames(stream: BinaryIO) -> Iterator[Frame]:
    """The frames of a copy, the last one included.

    Raises CopyCutOffError.
    """
    while header := stream.read(_HEADER.size):
        if len(header) < _HEADER.size:
            break
        kind, key_bytes, value_bytes = _HEADER.unpack(header)
        key, value = stream.read(key_bytes), stream.read(value_bytes)
        if len(key) < key_bytes or len(value) < value_bytes or kind not in _KINDS:
            break
        yield Frame(kind, key, value)
        if kind == END:
            return
    raise CopyCutOffError("the copy of the cell was cut off")

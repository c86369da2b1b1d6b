"""A copy of the whole cell as it is at one moment, made while the cell goes on serving.

The items are read page by page, each page from the snapshot that is the last then. What changed
behind the reader is read again, until so little is left that all of it fits into one turn of the
event loop: then the copy is that of this moment. So a copy holds up nobody, needs no second
environment, and no snapshot that lives long, which this store cannot have (store.py).

A copy is a stream of frames: `u8(kind) be32(bytes of key) be32(bytes of value) key value`.

Copies of several cells of a process end in the same turn. So together they are what a crash at that
moment would have left: in each cell everything that was answered, and nothing of what was not.
"""

import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, NamedTuple, Protocol

import lmdb
import msgspec

from data_plane.embedded.bodies import value_bytes
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
LAST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Read in the last turn; and, of what has changed, in each turn before, or the item past that."""

ROUNDS_OF_PATIENCE: Final = 200
"""After so many rounds that did not catch up with the writers twice as many may be read then."""

_KINDS: Final = (ITEM, CHANGED, GONE, END)
_HEADER: Final = struct.Struct(">cII")


class CopyCutOffError(Exception):
    """The stream ended before the copy did, or is none."""


class Readable(Protocol):
    """What can be read like a file."""

    def read(self, size_bytes: int, /) -> bytes:
        """The next bytes; fewer where it ends."""


class Frame(NamedTuple):
    """One frame of a copy."""

    kind: bytes
    key: bytes
    value: bytes

    def to_bytes(self) -> bytes:
        """As sent."""
        return _HEADER.pack(self.kind, len(self.key), len(self.value)) + self.key + self.value


class CopyEnd(msgspec.Struct):
    """Of which moment the copy is (microseconds), and how many frames came before.

    `eras` say what the world's time was by then; b"": what cell time was.
    """

    as_of_us: int
    frames: int
    eras: bytes = b""


class CopySource(NamedTuple):
    """A cell that can be copied, by its name; with a `reason` it cannot."""

    name: str
    copying: Callable[[], AbstractContextManager["CellCopy"]]
    reason: str = ""


class CellCopy:
    """One copy under way. The cell tells it which keys were written, and when a commit failed.

    `end` is its last frame's, once that is known.
    `now_us` is the cell's present, `eras` say how it lies to the world's time.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        now_us: Callable[[], int],
        eras: Callable[[], bytes] = bytes,
    ) -> None:
        self._store = store
        self._now_us = now_us
        self._eras = eras
        self.end: CopyEnd | None = None
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
        async for _, page in pages_together([self]):
            yield page

    @property
    def is_read(self) -> bool:
        """Whether everything was read once."""
        return self._scanned

    def can_end(self, rounds: int) -> bool:
        """Whether what has changed since it was read is little enough for one turn.

        After so many rounds that did not get there it may be more. Raises CellUnavailableError.
        """
        patience = rounds // ROUNDS_OF_PATIENCE
        if len(self._changed) > LAST_KEYS_MAX << patience:
            return False
        snapshot = self._store().snapshot
        try:
            there = (stored for key in self._changed if (stored := snapshot.get(key)) is not None)
            return sum(map(value_bytes, there)) <= LAST_BYTES_MAX << patience
        except lmdb.Error as error:
            raise CellUnavailableError(f"a read failed: {error}") from error

    def next_page(self) -> bytes:
        """Some more frames. Raises CellUnavailableError."""
        return self._page(self._again() if self._scanned else self._scan())

    def last_page(self) -> bytes:
        """The frames that are left: with them the copy is of this moment.

        Raises CellUnavailableError.
        """
        frames = list(self._read(list(self._changed)))
        self.end = CopyEnd(self._now_us(), self._frames + len(frames), self._eras())
        frames.append(Frame(END, b"", msgspec.json.encode(self.end)))
        return self._page(frames)

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
            value = bytes(store.bodies.join(store.snapshot, key, stored))
            self._read_to = key
            yield Frame(ITEM, key, value)
            size_bytes += len(key) + len(value)
            if size_bytes >= PAGE_BYTES:
                return
        self._scanned = True

    def _again(self) -> Iterator[Frame]:
        """Some of what was written behind the reader, as it is now."""
        size_bytes = 0
        for frame in self._read(list(islice(self._changed, LAST_KEYS_MAX))):
            yield frame
            size_bytes += len(frame.value)
            if size_bytes >= LAST_BYTES_MAX:
                return

    def _read(self, keys: Iterable[bytes]) -> Iterator[Frame]:
        """What was written under these keys, which are known to be read from now on."""
        store = self._store()
        for key in keys:
            del self._changed[key]
            stored = store.snapshot.get(key)
            if stored is None:
                yield Frame(GONE, key, b"")
            else:
                yield Frame(CHANGED, key, bytes(store.bodies.join(store.snapshot, key, stored)))


async def pages_together(copies: Sequence[CellCopy]) -> AsyncIterator[tuple[int, bytes]]:
    """Pages of all copies with their places in the list; all copies are of one moment.

    Whoever takes a page lets the cells go on before the next. Raises CellUnavailableError where one
    cannot be finished.
    """
    while unread := [place for place, copy in enumerate(copies) if not copy.is_read]:
        for place in unread:
            yield place, copies[place].next_page()
    rounds = 0
    while behind := [place for place, copy in enumerate(copies) if not copy.can_end(rounds)]:
        for place in behind:
            yield place, copies[place].next_page()
        rounds += 1
    # From here to the last of them nothing is awaited: no commit comes between.
    last = [copy.last_page() for copy in copies]
    for page in enumerate(last):
        yield page


def _items(snapshot: lmdb.Transaction, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Items' keys, and what lies under them, behind this key."""
    with snapshot.cursor() as cursor:
        if cursor.set_range(after + b"\0"):
            for key, stored in cursor.iternext():
                # Records of the cell itself begin with a zero byte, or have none.
                if (name := bytes(key)).find(b"\0") > 0:
                    yield name, bytes(stored)


def read_frames(stream: Readable) -> Iterator[Frame]:
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

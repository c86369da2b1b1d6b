"""Lines on their way to where they are written: bounded in bytes, and counted where they are lost.

Whoever writes may be slower than those who log, or not get on at all: a reader that stopped reading
or is gone, a full disk. Lines wait for it here. What there is no room for is dropped, and one line
in its place says how many there were and from when to when.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

STALLED: Final = "stalled"
"""Lines were dropped because they are written too slowly, or not at all for now."""

FAILED: Final = "failed"
"""Lines were dropped because writing fails."""

_SLICE_BYTES_MAX: Final = 256 * 1024


class Lost(NamedTuple):
    """How many lines were dropped one after the other, when the first and the last of them were."""

    lines: int
    from_us: int
    to_us: int


class LineBuffer:
    """Keeps the order of lines. `line_of` makes the line that tells of lost ones.

    After a loss nothing is taken before half of the room is free again, so that losses are few long
    ones. `dropped` counts lines by reason.
    """

    def __init__(self, bytes_max: int, line_of: Callable[[Lost], bytes]) -> None:
        self._bytes_max = bytes_max
        self._line_of = line_of
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._written = 0
        self._lost: Lost | None = None
        self.is_failing = False
        self.dropped = {STALLED: 0, FAILED: 0}

    def add(self, lines: bytes, now_us: int) -> None:
        """Take these lines, as many as there is room for: each ends with a line feed."""
        room = self._bytes_max - self._bytes
        if self._lost is not None:
            if room < self._bytes_max // 2:
                self._drop(lines, now_us)
                return
            self._tell()
            room = self._bytes_max - self._bytes
        if len(lines) <= room:
            self._append(lines)
            return
        fitting = lines.rfind(b"\n", 0, max(0, room)) + 1
        if fitting:
            self._append(lines[:fitting])
        self._drop(lines[fitting:], now_us)

    def next_slice(self) -> memoryview | None:
        """What is to be written next; None: there is nothing."""
        if not self._chunks:
            if self._lost is None:
                return None
            self._tell()
        return memoryview(self._chunks[0])[self._written : self._written + _SLICE_BYTES_MAX]

    def wrote(self, size: int) -> None:
        """So many bytes of the last slice were written."""
        self.is_failing = False
        self._written += size
        self._bytes -= size
        if self._written == len(self._chunks[0]):
            self._chunks.popleft()
            self._written = 0

    @property
    def is_empty(self) -> bool:
        """Whether all was written, also what tells of lost lines."""
        return not self._chunks and self._lost is None

    def _append(self, lines: bytes) -> None:
        self._chunks.append(lines)
        self._bytes += len(lines)

    def _drop(self, lines: bytes, now_us: int) -> None:
        number = lines.count(b"\n")
        self.dropped[FAILED if self.is_failing else STALLED] += number
        before = self._lost or Lost(0, now_us, now_us)
        self._lost = Lost(before.lines + number, before.from_us, now_us)

    def _tell(self) -> None:
        if self._lost is not None:
            self._append(self._line_of(self._lost))
            self._lost = None

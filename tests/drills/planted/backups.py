"""Faults of copies that backups are made of."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from typing import Final

from control_plane.backup import stream
from data_plane.embedded.copying import CellCopy, Frame

_APART_S: Final = 1.5
_LEFT_OUT_EVERY: Final = 5


def copy_cells_apart() -> None:
    """Copies of cells end one after the other: each is of a moment of its own."""

    async def pages_apart(copies: Sequence[CellCopy]) -> AsyncIterator[tuple[int, bytes]]:
        for place, copy in reversed(list(enumerate(copies))):
            async for page in copy.pages():
                yield place, page
            until_s = time.monotonic() + _APART_S
            while time.monotonic() < until_s:
                yield place, b""

    stream.pages_together = pages_apart  # type: ignore[attr-defined]


def leave_out_segments() -> None:
    """Some messages are not in the copy."""
    scan, numbers = CellCopy._scan, count()

    def scan_some(self: CellCopy) -> Iterator[Frame]:
        for frame in scan(self):
            if not frame.key.startswith(b"B|") or next(numbers) % _LEFT_OUT_EVERY:
                yield frame

    CellCopy._scan = scan_some  # type: ignore[method-assign]

"""Lines are written by a thread of its own: nobody who logs waits for a pipe, a terminal or a disk.

It writes to the file descriptor, not through `sys.stderr`: a thread that hangs in a write would
hold that object's lock, for which the interpreter waits when it ends.
"""

import os
import select
import threading
from collections.abc import Callable, Mapping
from typing import Final

from data_plane.http.line_buffer import LineBuffer, Lost
from data_plane.ports import Clock

BYTES_MAX: Final = 4 * 1024 * 1024
"""Lines that may wait: those of some seconds of a busy server."""

_RETRY_S: Final = 1.0
"""Where writing fails it is tried again so often. A disk may get room, a named pipe a reader."""


class LineWriter:
    """Writes lines to an open file. Neither `write` nor the end of the process waits for it."""

    def __init__(
        self, file: int, clock: Clock, line_of: Callable[[Lost], bytes], bytes_max: int = BYTES_MAX
    ) -> None:
        self._file = file
        self._clock = clock
        self._buffer = LineBuffer(bytes_max, line_of)
        self._turn = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many lines were dropped, by reason."""
        return self._buffer.dropped

    def write(self, lines: bytes) -> None:
        """Write whole lines soon, after those before; what there is no room for is dropped."""
        now_us = self._clock.now_us()
        with self._turn:
            self._buffer.add(lines, now_us)
            self._turn.notify_all()

    def close(self, wait_s: float) -> bool:
        """Write what is left, but wait for that no longer; whether all of it was written.

        May be called again: what was not written in time may be by then.
        """
        with self._turn:
            self._closing = True
            self._turn.notify_all()
        self._thread.join(wait_s)
        return self._buffer.is_empty

    def _run(self) -> None:
        while (lines := self._wait_for_lines()) is not None:
            try:
                size = os.write(self._file, lines)
            except BlockingIOError:  # somebody who has the same file wants it like that
                select.select((), (self._file,), (), _RETRY_S)
            except OSError:
                if self._closing:
                    return
                self._wait_to_retry()
            else:
                with self._turn:
                    self._buffer.wrote(size)

    def _wait_for_lines(self) -> memoryview | None:
        with self._turn:
            while (lines := self._buffer.next_slice()) is None and not self._closing:
                self._turn.wait()
            return lines

    def _wait_to_retry(self) -> None:
        with self._turn:
            self._buffer.is_failing = True
            self._turn.wait_for(lambda: self._closing, _RETRY_S)

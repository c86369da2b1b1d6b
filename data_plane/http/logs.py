"""Logs: one JSON object a line on standard error.

Lines are gathered for a moment and handed on together, so that a request pays for the making of its
line alone. Nobody who logs waits for the writing, or hears how it went (line_writer.py).
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from data_plane.frontend.served import Served
from data_plane.http.line_buffer import Lost
from data_plane.http.line_writer import LineWriter
from data_plane.http.lines import (
    DROPPED,
    LEVELS,
    encoded,
    fields_of,
    fields_of_record,
    level_of,
    level_of_record,
)
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Clock

_GATHER_S: Final = 0.1
_LINES_MAX: Final = 1000
_MESSAGE_CHARS_MAX: Final = 1000


class LogWriter:
    """Writes events at or above a level. Belongs to one event loop once that runs.

    `write` takes whole lines, and neither waits nor raises; `dropped` counts those that it lost.
    `line` makes one of fields, and raises nothing.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        clock: Clock,
        level: str,
        dropped: Mapping[str, int] | None = None,
        line: Callable[[dict[str, object]], bytes] = encoded,
    ) -> None:
        self._line = line
        self.dropped = {} if dropped is None else dropped
        self._write = write
        self._clock = clock
        self._level = LEVELS[level]
        self._lines: list[bytes] = []

    def event(self, level: str, event: str, **fields: object) -> None:
        """Log an event now."""
        if LEVELS[level] >= self._level:
            self._append(self._fields(level, event, fields))
            self.flush()

    def act(self, event: str, **fields: object) -> None:
        """Log now what somebody did to accounts or keys, whatever the level is."""
        self._append(self._fields("info", event, fields))
        self.flush()

    def served(self, served: Served) -> None:
        """Log a request that was answered."""
        level = level_of(served)
        if LEVELS[level] >= self._level:
            self._append(fields_of(served, level, self._clock.now_us()))

    def loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what an event loop has nobody else to tell of: its exception handler.

        Its own one would show what the exception says and what the callback was called with.
        """
        error = context.get("exception")
        if error is None:
            self.event("error", "loop", message=context["message"][:_MESSAGE_CHARS_MAX])
        else:
            self.event("error", "loop", traceback=traceback_text(error))

    def _fields(self, level: str, event: str, fields: Mapping[str, object]) -> dict[str, object]:
        return {"time_us": self._clock.now_us(), "level": level, "event": event, **fields}

    def _append(self, fields: dict[str, object]) -> None:
        self._lines.append(self._line(fields))
        if len(self._lines) == 1:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                loop.call_later(_GATHER_S, self.flush)
        elif len(self._lines) >= _LINES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        lines, self._lines = self._lines, []
        if lines:
            self._write(b"".join(lines))


class LogHandler(logging.Handler):
    """Hands what modules log by the standard library to a LogWriter."""

    def __init__(self, writer: LogWriter, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._writer = writer
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record, whichever thread it comes from. Raises nothing."""
        self.event(level_of_record(record), "log", **fields_of_record(record))

    def event(self, level: str, event: str, **fields: object) -> None:
        """Log an event, whichever thread it comes from."""
        tell = partial(self._writer.event, level, event, **fields)
        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop has ended, and so have those who could be in its way
            tell()


def take_over(writer: LogWriter, loop: asyncio.AbstractEventLoop) -> None:
    """Let `writer` have all that Python itself, or a module, would say on standard error."""
    handler = LogHandler(writer, loop)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(capture=True)
    loop.set_exception_handler(writer.loop_error)

    def unraisable(told: "sys.UnraisableHookArgs") -> None:
        handler.event("error", "unraisable", traceback=_text_of(told.exc_value))

    def thread_failed(told: threading.ExceptHookArgs) -> None:
        name = told.thread.name if told.thread is not None else ""
        handler.event("error", "thread", thread=name, traceback=_text_of(told.exc_value))

    sys.unraisablehook = unraisable
    threading.excepthook = thread_failed


def say(text: str, file: int, clock: Clock, wait_s: float) -> None:
    """Write what is for a person, and wait so long at most until it is written."""
    lines = LineWriter(file, clock, partial(lost_line, clock))
    lines.write(text.encode(errors="surrogateescape"))
    lines.close(wait_s)


def lost_line(clock: Clock, lost: Lost) -> bytes:
    """The line that tells of lines which were dropped."""
    line = {"time_us": clock.now_us(), "level": "error", "event": DROPPED}
    return encoded({**line, **lost._asdict()})


def _text_of(error: BaseException | None) -> str:
    return traceback_text(error) if error is not None else ""

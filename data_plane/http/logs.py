"""Logs: one JSON object a line on standard error.

Lines are gathered for a moment and written together, so that a request pays for the making of its
line alone.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from data_plane.frontend.served import Served
from data_plane.http.lines import LEVELS, fields_of, level_of
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Clock

_GATHER_S: Final = 0.1
_LINES_MAX: Final = 1000
_MESSAGE_CHARS_MAX: Final = 1000


class LogWriter:
    """Writes events at or above a level. Belongs to one event loop once that runs."""

    def __init__(self, write: Callable[[bytes], object], clock: Clock, level: str) -> None:
        self._write = write
        self._clock = clock
        self._level = LEVELS[level]
        self._lines: list[bytes] = []
        self._encode = msgspec.json.Encoder().encode

    def event(self, level: str, event: str, **fields: object) -> None:
        """Log an event now."""
        if LEVELS[level] >= self._level:
            self._append(level, {"event": event, **fields})
            self.flush()

    def act(self, event: str, **fields: object) -> None:
        """Log now what somebody did to accounts or keys, whatever the level is."""
        self._append("info", {"event": event, **fields})
        self.flush()

    def served(self, served: Served) -> None:
        """Log a request that was answered."""
        level = level_of(served)
        if LEVELS[level] >= self._level:
            self._append(level, fields_of(served))

    def loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what an event loop has nobody else to tell of: its exception handler.

        Its own one would show what the exception says and what the callback was called with.
        """
        error = context.get("exception")
        if error is None:
            self.event("error", "loop", message=context["message"][:_MESSAGE_CHARS_MAX])
        else:
            self.event("error", "loop", traceback=traceback_text(error))

    def _append(self, level: str, fields: dict[str, object]) -> None:
        line = {"time_us": self._clock.now_us(), "level": level, **fields}
        self._lines.append(self._encode(line) + b"\n")
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
        """Log the record, whichever thread it comes from."""
        fields: dict[str, object] = {
            "logger": record.name,
            "message": record.getMessage()[:_MESSAGE_CHARS_MAX],
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["traceback"] = traceback_text(record.exc_info[1])
        level = next((name for name, at in LEVELS.items() if record.levelno >= at), "info")
        self._loop.call_soon_threadsafe(lambda: self._writer.event(level, "log", **fields))

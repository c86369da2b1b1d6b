"""Logs of the functions: one JSON object a line on standard output, as CloudWatch Logs takes them.

Each line is written at once, because nothing runs any more when the answer is there.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from data_plane.frontend.served import Served
from data_plane.http.lines import LEVELS, fields_of, level_of
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Clock

_MESSAGE_CHARS_MAX: Final = 1000
_encode: Final = msgspec.json.Encoder().encode


class FunctionLog:
    """Writes events at or above a level; `write` takes whole lines."""

    def __init__(self, write: Callable[[str], object], clock: Clock, level: str) -> None:
        self._write = write
        self._clock = clock
        self._level = LEVELS[level]

    def event(self, level: str, event: str, **fields: object) -> None:
        """Log an event."""
        if LEVELS[level] >= self._level:
            self._line(level, {"event": event, **fields})

    def act(self, event: str, **fields: object) -> None:
        """Log what somebody did to accounts or keys, whatever the level is."""
        self._line("info", {"event": event, **fields})

    def served(self, served: Served) -> None:
        """Log a request that was answered."""
        level = level_of(served)
        if LEVELS[level] >= self._level:
            self._line(level, fields_of(served))

    def _line(self, level: str, fields: dict[str, object]) -> None:
        line = {"time_us": self._clock.now_us(), "level": level, **fields}
        self._write(_encode(line).decode() + "\n")


class FunctionLogHandler(logging.Handler):
    """Hands what modules log by the standard library to a FunctionLog."""

    def __init__(self, log: FunctionLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record, without what an exception says."""
        fields: dict[str, object] = {
            "logger": record.name,
            "message": record.getMessage()[:_MESSAGE_CHARS_MAX],
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["traceback"] = traceback_text(record.exc_info[1])
        level = next((name for name, at in LEVELS.items() if record.levelno >= at), "info")
        self._log.event(level, "log", **fields)

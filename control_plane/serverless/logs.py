"""Logs of the functions: one JSON object a line on standard output, as CloudWatch Logs takes them.

Each line is written at once, because nothing runs any more when the answer is there.
"""

import logging
from collections.abc import Callable, Mapping

from data_plane.frontend.served import Served
from data_plane.http.lines import (
    DROPPED,
    LEVELS,
    encoded,
    fields_of,
    fields_of_record,
    level_of,
    level_of_record,
)
from data_plane.ports import Clock


class FunctionLog:
    """Writes events at or above a level; `write` takes whole lines.

    Nobody fails because a line cannot be written. The next one that can is preceded by one that
    says how many there were.
    """

    def __init__(self, write: Callable[[str], object], clock: Clock, level: str) -> None:
        self._write = write
        self._clock = clock
        self._level = LEVELS[level]
        self._lost = 0

    def event(self, level: str, event: str, **fields: object) -> None:
        """Log an event."""
        if LEVELS[level] >= self._level:
            self._event(level, event, fields)

    def act(self, event: str, **fields: object) -> None:
        """Log what somebody did to accounts or keys, whatever the level is."""
        self._event("info", event, fields)

    def served(self, served: Served) -> None:
        """Log a request that was answered."""
        level = level_of(served)
        if LEVELS[level] >= self._level:
            self._line(fields_of(served, level, self._clock.now_us()))

    def _event(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        now_us = self._clock.now_us()
        self._line({"time_us": now_us, "level": level, "event": event, **fields})

    def _line(self, fields: dict[str, object]) -> None:
        line = encoded(fields).decode()
        if self._lost:
            lost = {
                "time_us": fields["time_us"],
                "level": "error",
                "event": DROPPED,
                "lines": self._lost,
            }
            line = encoded(lost).decode() + line
        try:
            self._write(line)
        except (OSError, ValueError):  # the other end is gone, or the file is closed
            self._lost += 1
        else:
            self._lost = 0


class FunctionLogHandler(logging.Handler):
    """Hands what modules log by the standard library to a FunctionLog."""

    def __init__(self, log: FunctionLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record, without what an exception says."""
        self._log.event(level_of_record(record), "log", **fields_of_record(record))

"""Lines of the log for people at a terminal: what happened first, then what it happened with."""

from collections.abc import Mapping
from typing import Final

from data_plane.core.utc import utc_time

_US_PER_S: Final = 1_000_000
_LEVEL_CHARS: Final = 7
_COLOURS: Final = {"warning": "\033[33m", "error": "\033[31m"}
_PLAIN: Final = "\033[0m"
_REQUEST: Final = ("operation", "queue", "status", "code")
_LEFT_OUT: Final = frozenset(
    {
        *("time_us", "level", "event", "duration_ms", "request_id", "protocol", "region"),
        *("messages", "bytes", "failed_entries", *_REQUEST),
    }
)
"""Of a request's line: what stands in front, and what only programs want."""


def readable(fields: Mapping[str, object], *, in_colour: bool = False) -> bytes:
    """A line with these fields. What a terminal would act upon does not reach it."""
    at = utc_time(int(str(fields["time_us"])) // _US_PER_S)
    level = str(fields["level"])
    time = f"{at.hour:02}:{at.minute:02}:{at.second:02}"
    if fields["event"] == "request":
        told = " ".join(_shown(fields[name]) for name in _REQUEST if fields[name] != "")
        told += f" {fields['duration_ms']} ms"
        others = {name: its for name, its in fields.items() if name not in _LEFT_OUT}
    else:
        told = str(fields["event"])
        others = {name: fields[name] for name in fields.keys() - {"time_us", "level", "event"}}
    pairs = "".join(f" {name}={_shown(others[name])}" for name in fields if name in others)
    begin, end = (_COLOURS.get(level, ""), _PLAIN) if in_colour else ("", "")
    line = f"{time} {begin}{level:<{_LEVEL_CHARS}}{end if begin else ''} {told}{pairs}\n"
    return line.encode(errors="backslashreplace")


def _shown(value: object) -> str:
    text = str(value)
    whole = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return f'"{whole}"' if " " in whole or not whole else whole

"""What logs say of a request, whoever writes them: the fields named here, and no others.

Nothing of a body, a header or a query string, and of exceptions no message.
"""

import logging
from typing import Final

import msgspec

from data_plane.frontend.served import Served
from data_plane.http.tracebacks import traceback_text

LEVELS: Final = {"error": 40, "warning": 30, "info": 20}
"""A served request logs at info, a refused one at warning, one that we failed at error."""

DROPPED: Final = "log lines dropped"
"""The event that tells of lines which are not there."""

_REFUSED: Final = 400
_FAILED: Final = 500
_MESSAGE_CHARS_MAX: Final = 1000
_encode: Final = msgspec.json.Encoder().encode


def encoded(fields: dict[str, object]) -> bytes:
    """A line with these fields. Raises nothing because of what they are."""
    try:
        return _encode(fields) + b"\n"
    except (TypeError, ValueError):  # the name of a file may have bytes that are no text
        return _encode({name: ascii(value) for name, value in fields.items()}) + b"\n"


def level_of(served: Served) -> str:
    """The level at which a request is logged."""
    if served.status < _REFUSED:
        return "info"
    return "warning" if served.status < _FAILED else "error"


def fields_of(served: Served, level: str, now_us: int) -> dict[str, object]:
    """The fields of a request's line, all of them: to put some before others costs each request."""
    fields: dict[str, object] = {
        "time_us": now_us,
        "level": level,
        "event": "request",
        "request_id": served.request_id,
        "operation": served.operation,
        "account": served.account,
        "region": served.region,
        "queue": served.queue,
        "protocol": served.protocol,
        "status": served.status,
        "code": served.code,
        "duration_ms": (served.finished_us - served.started_us) / 1000,
        "messages": served.messages,
        "bytes": served.bytes,
        "failed_entries": served.failed_entries,
        "client": served.client,
    }
    if served.principal and served.status >= _REFUSED:
        fields |= {"principal": served.principal, "access_key_id": served.access_key_id}
    if served.exception is not None:
        fields["traceback"] = traceback_text(served.exception)
    return fields


def level_of_record(record: logging.LogRecord) -> str:
    """The level at which a record of the standard library is logged."""
    return next((name for name, at in LEVELS.items() if record.levelno >= at), "info")


def fields_of_record(record: logging.LogRecord) -> dict[str, object]:
    """The fields of what a module logs by the standard library, without what an exception says."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - whatever its arguments raise, somebody wanted to say something
        message = f"{record.msg!s} (its arguments do not fit)"
    fields: dict[str, object] = {"logger": record.name, "message": message[:_MESSAGE_CHARS_MAX]}
    if record.exc_info is not None and record.exc_info[1] is not None:
        fields["traceback"] = traceback_text(record.exc_info[1])
    return fields

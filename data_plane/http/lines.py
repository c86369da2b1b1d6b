"""What logs say of a request, whoever writes them: the fields named here, and no others.

Nothing of a body, a header or a query string, and of exceptions no message.
"""

from typing import Final

from data_plane.frontend.served import Served
from data_plane.http.tracebacks import traceback_text

LEVELS: Final = {"error": 40, "warning": 30, "info": 20}
"""A served request logs at info, a refused one at warning, one that we failed at error."""

_REFUSED: Final = 400
_FAILED: Final = 500


def level_of(served: Served) -> str:
    """The level at which a request is logged."""
    if served.status < _REFUSED:
        return "info"
    return "warning" if served.status < _FAILED else "error"


def fields_of(served: Served) -> dict[str, object]:
    """The fields of a request's line."""
    fields: dict[str, object] = {
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
    if served.exception is not None:
        fields["traceback"] = traceback_text(served.exception)
    return fields

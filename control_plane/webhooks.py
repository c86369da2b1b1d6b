"""Calls of webhooks: one POST in bounded time, which follows nobody elsewhere.

Which addresses may be called is for the operator to say (control_plane/core/budgets.py). The
answer's body is not read, and no proxy, cookie or credential of this process is used.
"""

import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from threading import Timer
from typing import Final
from urllib.parse import urlsplit

from control_plane.budgets import UndeliveredError
from data_plane.ports import Offload

STEP_S_MAX: Final = 3.0
"""Connecting, or one read or write."""

CALL_S_MAX: Final = 5.0
"""All of it, but for the look-up of the name, which the system bounds."""

_OK: Final = range(200, 300)


class Webhooks:
    """Calls them in a thread."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    async def post(self, url: str, body: bytes) -> None:
        """POST a JSON body. Raises UndeliveredError unless the answer is a 2xx."""
        # A tenant's address that fails says nothing about the next one: no circuit breaker hears.
        failure = await self._offload(lambda: post(url, body))
        if failure:
            raise UndeliveredError(failure)


def post(url: str, body: bytes, *, step_s: float = STEP_S_MAX, call_s: float = CALL_S_MAX) -> str:
    """POST a JSON body, and wait for the status alone; why that failed, or ""."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = HTTPSConnection(host, parts.port, timeout=step_s, context=context)
    else:
        connection = HTTPConnection(host, parts.port, timeout=step_s)

    def cut_off() -> None:
        # An answer that comes byte by byte would never reach the time limit of a read.
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(SHUT_RDWR)

    timer = Timer(call_s, cut_off)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return f"webhook of {host}: {type(error).__name__}"
    finally:
        timer.cancel()
        connection.close()
    return "" if status in _OK else f"webhook of {host}: it answers {status}"

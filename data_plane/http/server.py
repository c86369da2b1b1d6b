"""Serve HTTP/1.1 in the running event loop: bytes on a socket to HttpRequest, and back.

The parsing is Granian's (hyper), which also refuses malformed requests and ones whose body and
Content-Length differ; screening.py says what it lets pass. Two things reach us otherwise than sent:
the path comes decoded (so `%2F` is a slash here) and is encoded again where it needs it; header
values that are not ASCII are missing. A request that is refused before its body is read ends its
connection, so that nothing behind it can be taken for another request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from granian.constants import HTTPModes, Interfaces, SSLProtocols, TaskImpl
from granian.http import HTTP1Settings
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]
from msgspec.structs import replace

from data_plane.core.errors import (
    MALFORMED_HTTP_REQUEST,
    REQUEST_TIMEOUT,
    SERVICE_UNAVAILABLE,
    RefusedError,
)
from data_plane.http.connections import ListeningServer, accepted_connections
from data_plane.http.overload import Overload
from data_plane.http.patience import Patience, Watch
from data_plane.http.screening import body_length, check_host, check_readable, combine
from data_plane.protocol.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
Page = Callable[[], Awaitable[HttpResponse]]

_PAGE_METHODS = frozenset({"GET", "HEAD"})
_CLOSE = ("connection", "close")


class TlsFiles(NamedTuple):
    """PEM files: the certificate with those that lead to its root, and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where to listen, and what a connection may do.

    The header of a request must be there within `header_read_timeout_s` of the connection's start
    or of the last answer, so that is also how long a connection may be idle. A body has
    `body_read_timeout_s`, and longer as its length takes at `body_bytes_per_s_min`; longer ones
    than `body_bytes_max` are not read, and of those above `small_body_bytes_max` not more at a time
    than have `bodies_bytes_max` together. A client that takes nothing of its answer for
    `send_timeout_s` is cut off (on Linux). Above `connections_max` connections wait to be accepted.

    Requests in flight have `grace_s` seconds to finish when the server stops. With `tls` nothing
    else is spoken.
    """

    host: str
    port: int
    body_bytes_max: int
    grace_s: float = 10.0
    backlog: int = 1024
    connections_max: int = 16_384
    header_read_timeout_s: float = 30
    header_buffer_bytes: int = 192 * 1024
    body_read_timeout_s: float = 20
    body_bytes_per_s_min: int = 32 * 1024
    small_body_bytes_max: int = 256 * 1024
    bodies_bytes_max: int = 256 * 1024 * 1024
    send_timeout_s: float = 30
    tls: TlsFiles | None = None


class HttpServer:
    """Answers requests with `answer`, and GET and HEAD of the paths in `pages` with those.

    Under `overload` requests are refused, but not those of the pages.
    """

    def __init__(
        self,
        answer: Answer,
        pages: Mapping[str, Page],
        settings: HttpSettings,
        overload: Overload,
    ) -> None:
        self._answer = answer
        self._pages = pages
        self._settings = settings
        self._overload = overload
        self._bodies_bytes = 0
        self.patience = Patience()
        self.in_flight = 0

    async def serve(self, stop: asyncio.Event) -> bool:
        """Serve until `stop` is set, then finish what is in flight.

        Returns whether all of it finished in time. Raises what the listener died of.
        """
        settings = self._settings
        server = ListeningServer(
            self,
            send_timeout_s=settings.send_timeout_s,
            address=settings.host,
            port=settings.port,
            interface=Interfaces.RSGI,
            task_impl=TaskImpl.asyncio,
            runtime_threads=1,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=round(settings.header_read_timeout_s * 1000),
                max_buffer_size=settings.header_buffer_bytes,
            ),
            websockets=False,
            backlog=settings.backlog,
            backpressure=accepted_connections(settings.connections_max),
            log_enabled=False,
            ssl_cert=settings.tls.certificate if settings.tls else None,
            ssl_key=settings.tls.key if settings.tls else None,
            # Systems of before 2019 have SDKs without TLS 1.3; 1.1 is obsolete (RFC 8996).
            ssl_protocol_min=SSLProtocols.tls12,
        )
        serving = asyncio.create_task(server.serve())
        stopped = asyncio.create_task(stop.wait())
        watching = {
            asyncio.create_task(forever)
            for forever in (self._overload.watch(), self.patience.run())
        }
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in watching:
            task.cancel()
        if serving.done():
            stopped.cancel()
            serving.result()
            raise RuntimeError("the listener ended by itself")
        server.stop()  # type: ignore[no-untyped-call]
        done, _ = await asyncio.wait({serving}, timeout=settings.grace_s)
        if done:
            serving.result()
            return True
        serving.cancel()
        return False

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Serve one request."""
        self.in_flight += 1
        try:
            page = self._pages.get(scope.path)
            response: HttpResponse | None
            if page is not None and scope.method in _PAGE_METHODS:
                response = await page()
            else:
                response = await self._answer_call(scope, proto)
            proto.response_bytes(response.status, list(response.headers), response.body)
        except Exception as error:
            # Granian answers 500 and tells nobody.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a request failed", "exception": error}
            )
            raise
        finally:
            self.in_flight -= 1

    async def _answer_call(self, scope: Any, proto: Any) -> HttpResponse:
        received = scope.headers  # a copy, each time it is asked for
        # Who waits for a slow body costs a connection, not more.
        in_flight = self.in_flight - self.patience.slow_bodies
        refused = await self._overload.refusal(received, in_flight)
        if refused is not None:
            return _closing(refused) if "transfer-encoding" in received else refused
        watch = Watch(self.patience, proto)
        try:
            request = await self._read(scope, received, proto, watch)
            watch.wait_for_answer()
            response = await self._answer(request)
        finally:
            watch.end()
        return response if request.refusal is None else _closing(response)

    async def _read(self, scope: Any, received: Any, proto: Any, watch: Watch) -> HttpRequest:
        items = received.items()
        headers: dict[str, str] = {}
        body = b""
        refusal = None
        try:
            headers = combine(items)
            if len(received) != len(headers):
                check_readable(received.keys(), headers)
            check_host(headers, scope.http_version, scope.authority)
            length = body_length(headers, self._settings.body_bytes_max)
            if length:
                body = await self._read_body(length, proto, watch)
        except RefusedError as error:
            # Not the error itself: its frames would hold the request that holds it.
            refusal = (error.fault, error.message)
            headers = headers or dict(items)
        path = scope.path
        return HttpRequest(
            method=scope.method,
            path=path if path == "/" else quote(path, safe="/-_.~!$&'()*+,;=:@"),
            query=scope.query_string,
            headers=headers,
            body=body,
            client=scope.client,
            secure=self._settings.tls is not None,
            refusal=refusal,
        )

    async def _read_body(self, length: int, proto: Any, watch: Watch) -> bytes:
        """The body. Raises RefusedError where it does not come, or not in time."""
        settings = self._settings
        counted = length if length > settings.small_body_bytes_max else 0
        if counted and self._bodies_bytes + counted > settings.bodies_bytes_max:
            raise RefusedError(SERVICE_UNAVAILABLE, "Too many big requests arrive. Try again.")
        self._bodies_bytes += counted
        watch.wait_for_body(settings.body_read_timeout_s + length / settings.body_bytes_per_s_min)
        try:
            body: bytes = await proto()
        except ProtocolClosed as error:
            raise RefusedError(MALFORMED_HTTP_REQUEST, "The request's body ended early.") from error
        except asyncio.CancelledError as error:
            if not watch.is_over:
                raise
            raise RefusedError(REQUEST_TIMEOUT, "The request's body came too slowly.") from error
        finally:
            watch.end()
            self._bodies_bytes -= counted
        return body


def _closing(response: HttpResponse) -> HttpResponse:
    return replace(response, headers=(*response.headers, _CLOSE))

"""Serve HTTP/1.1 and HTTP/2 in the running event loop: bytes on a socket to HttpRequest, and back.

The parsing is Granian's (hyper), which also refuses malformed requests and ones whose body and
Content-Length differ; screening.py says what it lets pass. Two things reach us otherwise than sent:
the path comes decoded (so `%2F` is a slash here) and is encoded again where it needs it; header
values that are not ASCII are missing. A request that is refused before its body is read ends its
connection, so that nothing behind it can be taken for another request; so does one whose body is in
chunks, of whose length another reader may think otherwise. In HTTP/2 its stream ends.

HTTP/2 is spoken with who begins with it (prior knowledge), and over TLS with who asks for it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from granian.constants import HTTPModes, Interfaces, SSLProtocols, TaskImpl
from granian.http import HTTP1Settings, HTTP2Settings
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]
from msgspec.structs import replace

from data_plane.core.errors import (
    MALFORMED_HTTP_REQUEST,
    REQUEST_TIMEOUT,
    SERVICE_UNAVAILABLE,
    Fault,
    RefusedError,
    request_too_large,
)
from data_plane.core.limits import (
    ACTION_WITHIN_BYTES,
    BODIES_HELD_BYTES_MAX,
    SMALL_BODY_BYTES_MAX,
)
from data_plane.frontend.admission import Admission
from data_plane.frontend.intake import check_headers
from data_plane.http.answers import LONG_ANSWER_BYTES, Answers
from data_plane.http.connections import ListeningServer, accepted_connections
from data_plane.http.cross_origin import AllowedOrigins
from data_plane.http.held import Held
from data_plane.http.idle import IdleConnections
from data_plane.http.origins import refuse_none
from data_plane.http.overload import Overload
from data_plane.http.patience import Patience, Watch
from data_plane.http.screening import (
    HTTP_2,
    HeadersWithHost,
    body_length,
    check_host,
    check_length,
    check_readable,
    combine,
)
from data_plane.protocol.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
Page = Callable[[Mapping[str, str], str], Awaitable[HttpResponse]]
"""Takes the headers of the request, and the client's address and port."""
RefuseForeign = Callable[[Mapping[str, str], str], HttpResponse | None]
"""Takes the same, and may refuse the request for it (origins.py)."""

_PAGE_METHODS = frozenset({"GET", "HEAD"})
_CLOSE = ("connection", "close")
_FAREWELL_S = 0.5
_WHOLE_BYTES_MAX = 1_048_576
"""A body up to so long is taken in one: in pieces it would wake the event loop for each of them."""
_IDLE_S_MIN = 1.0
"""Longer than a request is in flight unnoticed (patience.py)."""


class TlsFiles(NamedTuple):
    """PEM files: the certificate with those that lead to its root, and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What a connection may do.

    The header of a request must be there within `header_read_timeout_s` of the connection's start
    or of the last answer, so that is also how long a connection may be idle. (In HTTP/2 whatever
    comes begins that time anew.) Over one connection there may be `streams_max` requests in HTTP/2
    at a time. A body has
    `body_read_timeout_s`, and longer as its length takes at `body_bytes_per_s_min`; longer ones
    than `body_bytes_max` are not read, and of those that are not small not more are held at a time
    than have `bodies_bytes_max` together. A client that takes nothing of its answer for
    `send_timeout_s` is cut off (on Linux). Above `connections_max` connections wait to be accepted.
    What of bodies nobody has read yet is as much as the windows of HTTP/2 let come. There one
    connection may have several bodies that are slow to come: beyond its first `more_bodies_max`
    of all connections together.

    A header that is not finished takes up to `header_buffer_bytes`, before anybody hears of it. So
    no more connections are accepted than may do that with `headers_bytes_max` (0: any number).

    Requests in flight have `grace_s` seconds to finish when the server stops. With `tls` nothing
    else is spoken. Before the paths of the service may stand `prefix` ("": nothing does).
    """

    body_bytes_max: int
    grace_s: float = 10.0
    backlog: int = 1024
    connections_max: int = 16_384
    header_read_timeout_s: float = 30
    header_buffer_bytes: int = 80 * 1024
    streams_max: int = 100
    stream_window_bytes: int = 256 * 1024
    connection_window_bytes: int = 1024 * 1024
    send_buffer_bytes: int = 64 * 1024
    headers_bytes_max: int = 0
    body_read_timeout_s: float = 20
    body_bytes_per_s_min: int = 32 * 1024
    bodies_bytes_max: int = BODIES_HELD_BYTES_MAX
    more_bodies_max: int = 1_024
    send_timeout_s: float = 30
    tls: TlsFiles | None = None
    prefix: str = ""

    @property
    def connections_wanted(self) -> int:
        """How many connections may be accepted, if there are as many files."""
        if not self.headers_bytes_max:
            return self.connections_max
        return min(self.connections_max, max(1, self.headers_bytes_max // self.header_buffer_bytes))


class HttpServer:
    """Answers requests with `answer`, and GET and HEAD of the paths in `pages` with those.

    Under `overload` requests are refused, but not those of the pages; `refuse_foreign` is asked
    about all. Pages of `origins` see the answers to what they have signed.
    Long bodies are read if `admission` (None: never) lets them come.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what decides about a request
        self,
        answer: Answer,
        pages: Mapping[str, Page],
        settings: HttpSettings,
        overload: Overload,
        admission: Admission | None,
        refuse_foreign: RefuseForeign = refuse_none,
        origins: AllowedOrigins | None = None,
    ) -> None:
        self._origins = origins or AllowedOrigins()
        self._refuse_foreign = refuse_foreign
        self._answer = answer
        self._pages = pages
        self._settings = settings
        self._overload = overload
        self._started: Callable[[], None] = _nobody_waits
        self._admission = admission
        self._bodies = Held(settings.bodies_bytes_max)
        self._answers = Answers(settings.send_timeout_s)
        self.patience = Patience(settings.more_bodies_max)
        self.in_flight = 0
        self._idle: asyncio.Event | None = None
        """While the server stops: set when nothing was in flight for a moment."""
        self._is_cut_off = False

    async def serve(
        self, stop: asyncio.Event, listener: socket.socket, started: Callable[[], None]
    ) -> bool:
        """Serve what connects to `listener` until `stop` is set, then finish what is in flight.

        `listener` is bound, and closed at the end. `started` is called as soon as it listens: from
        then on no connection is refused. Returns whether all was finished in time. Raises what the
        listener died of.
        """
        self._started = started
        with listener:
            return await self._serve(stop, listener)

    async def _serve(self, stop: asyncio.Event, listener: socket.socket) -> bool:
        settings = self._settings
        idle_s = max(settings.header_read_timeout_s, _IDLE_S_MIN)
        idle = IdleConnections(listener.getsockname()[1], idle_s, self.patience.is_slow)
        server = self._listening(listener)
        serving = asyncio.create_task(server.serve())
        stopped = asyncio.create_task(stop.wait())
        watching = {
            asyncio.create_task(forever)
            for forever in (self._overload.watch(), self.patience.run(), idle.run())
        }
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in watching:
            task.cancel()
        if serving.done():
            stopped.cancel()
            serving.result()
            raise RuntimeError("the listener ended by itself")
        until_s = asyncio.get_running_loop().time() + settings.grace_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                await self._finish()
        await self._answers.end()
        server.stop()  # type: ignore[no-untyped-call]
        left_s = max(0, until_s - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait({serving}, timeout=min(left_s, _FAREWELL_S))
        if not done and not self.in_flight:
            # Clients of HTTP/2 are asked to end their connections, and some do not.
            idle.end_all()
            done, _ = await asyncio.wait({serving}, timeout=max(0, left_s - _FAREWELL_S))
        if done:
            serving.result()
            return True
        self._is_cut_off = True
        serving.cancel()
        return False

    def _listening(self, listener: socket.socket) -> ListeningServer:
        settings = self._settings
        return ListeningServer(
            self,
            listener,
            send_timeout_s=settings.send_timeout_s,
            interface=Interfaces.RSGI,
            task_impl=TaskImpl.asyncio,
            runtime_threads=1,
            http=HTTPModes.auto,
            http1_settings=HTTP1Settings(
                header_read_timeout=round(settings.header_read_timeout_s * 1000),
                max_buffer_size=settings.header_buffer_bytes,
            ),
            http2_settings=HTTP2Settings(
                initial_connection_window_size=settings.connection_window_bytes,
                initial_stream_window_size=settings.stream_window_bytes,
                max_concurrent_streams=settings.streams_max,
                max_headers_size=settings.header_buffer_bytes,
                max_send_buffer_size=settings.send_buffer_bytes,
            ),
            websockets=False,
            backlog=settings.backlog,
            backpressure=accepted_connections(settings.connections_wanted),
            log_enabled=False,
            ssl_cert=settings.tls.certificate if settings.tls else None,
            ssl_key=settings.tls.key if settings.tls else None,
            # Systems of before 2019 have SDKs without TLS 1.3; 1.1 is obsolete (RFC 8996).
            ssl_protocol_min=SSLProtocols.tls12,
        )

    async def _finish(self) -> None:
        """Return when nothing is in flight, and all long answers are taken: nothing new begins."""
        self._idle = asyncio.Event()
        if self.in_flight:
            await self._idle.wait()
        await self._answers.taken()

    def __rsgi_init__(self, _loop: asyncio.AbstractEventLoop) -> None:
        """Granian is about to accept connections; the socket listens."""
        self._started()

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Serve one request."""
        self.in_flight += 1
        try:
            received = scope.headers  # a copy, each time it is asked for
            if scope.http_version == HTTP_2:
                received = HeadersWithHost(received, scope.authority)
            page = self._pages.get(scope.path) if scope.method in _PAGE_METHODS else None
            response = self._refuse_foreign(received, scope.client)
            if response is not None:
                response = _closing(response)
            elif page is not None:
                response = await page(received, scope.client)
            elif (preflight := self._origins.preflight(scope.method, received)) is not None:
                response = preflight
            else:
                response = await self._answer_call(scope, received, proto)
                response = self._origins.shown(response, received)
            if len(response.body) <= LONG_ANSWER_BYTES:
                proto.response_bytes(response.status, list(response.headers), response.body)
            elif not self._answers.send(proto, response):
                self._refuse(received, proto)
        except asyncio.CancelledError:
            if self._is_cut_off:  # 500, which is Granian's answer, does not say: try again
                self._refuse(received, proto)
            raise
        except Exception as error:
            # Granian answers 500 and tells nobody.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a request failed", "exception": error}
            )
            raise
        finally:
            self.in_flight -= 1
            if self._idle is not None and not self.in_flight:
                self._idle.set()

    def _refuse(self, received: Mapping[str, str], proto: Any) -> None:
        refused = self._overload.refuse(received)
        proto.response_bytes(refused.status, list(refused.headers), refused.body)

    async def _answer_call(self, scope: Any, received: Any, proto: Any) -> HttpResponse:
        # Who waits for a slow body costs a connection, not more.
        in_flight = self.in_flight - self.patience.slow_bodies
        if self._idle is not None:
            return _closing(self._overload.refuse(received))
        refused = self._overload.refusal(received, in_flight)
        if refused is not None:
            if refused.held_back:
                await self._overload.hold_back()
            return _closing(refused) if "transfer-encoding" in received else refused
        watch = Watch(self.patience, scope, proto)
        held = _HeldBody(self._bodies)
        try:
            request = await self._read(scope, received, proto, watch, held)
            watch.wait_for_answer()
            if request.refusal is not None:
                held.leave()
                await self._overload.hold_back()  # who connects anew for each takes less so
            response = await self._answer(request)
        finally:
            watch.end()
            held.leave()
        if response.held_back and request.refusal is None:
            await self._overload.hold_back()  # as those, but with nothing of it in memory
        if request.refusal is not None or "transfer-encoding" in received:
            return _closing(response)
        return response

    async def _read(
        self, scope: Any, received: Any, proto: Any, watch: Watch, held: "_HeldBody"
    ) -> HttpRequest:
        items = received.items()
        headers: dict[str, str] = {}
        body = b""
        refusal = None
        try:
            headers = combine(items)
            if len(received) != len(headers):
                check_readable(received.keys(), headers)
            check_headers(headers)  # before they are held for a body that does not come
            version = scope.http_version
            check_host(headers, version, scope.authority)
            if version == HTTP_2 and scope.method not in _PAGE_METHODS:
                check_length(headers)
            length = body_length(headers, self._settings.body_bytes_max)
            if length is None:
                head = self._request(scope, headers, b"", None)
                reading = self._read_encoded(head, proto, watch, held)
                body = await self._read_body(reading, 0, watch)
            elif length > SMALL_BODY_BYTES_MAX:
                head = self._request(scope, headers, b"", None)
                body = await self._read_long(head, length, proto, watch, held)
            elif length:
                body = await self._read_body(proto(), length, watch)
        except RefusedError as error:
            # Not the error itself: its frames would hold the request that holds it.
            refusal = (error.fault, error.message)
            headers = headers or dict(items)
        return self._request(scope, headers, body, refusal)

    def _request(
        self,
        scope: Any,
        headers: Mapping[str, str],
        body: bytes,
        refusal: tuple[Fault, str] | None,
    ) -> HttpRequest:
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
            prefix=self._settings.prefix,
        )

    async def _read_long(
        self, head: HttpRequest, length: int, proto: Any, watch: Watch, held: "_HeldBody"
    ) -> bytes:
        """A body that is not small. Raises RefusedError where it may not come, or does not."""
        if self._admission is None:
            raise request_too_large(SMALL_BODY_BYTES_MAX)
        account, bytes_max = await self._admission.admit(head, length)
        if not held.hold(account, length):
            raise RefusedError(SERVICE_UNAVAILABLE, "Too many big requests arrive. Try again.")
        admission = self._admission if bytes_max is None else None
        if admission is None and length <= _WHOLE_BYTES_MAX:
            return await self._read_body(proto(), length, watch)
        reading = self._read_chunks(head, length, proto, admission)
        return await self._read_body(reading, length, watch)

    async def _read_body(self, reading: Awaitable[bytes], length: int, watch: Watch) -> bytes:
        """The body. Raises RefusedError where it does not come, or not in time."""
        settings = self._settings
        watch.wait_for_body(settings.body_read_timeout_s + length / settings.body_bytes_per_s_min)
        try:
            return await reading
        except ProtocolClosed as error:
            raise RefusedError(MALFORMED_HTTP_REQUEST, "The request's body ended early.") from error
        except asyncio.CancelledError as error:
            if not watch.is_over:
                raise
            raise RefusedError(REQUEST_TIMEOUT, "The request's body came too slowly.") from error
        finally:
            watch.end_of_body()

    async def _read_chunks(
        self, head: HttpRequest, length: int, proto: Any, admission: Admission | None
    ) -> bytes:
        """A long body, in pieces: asked for in one, Granian holds it twice.

        They are put together as they come: at the end that would hold up others. With `admission`
        it is a form, which is read on if its beginning says what it is for.
        """
        come = BytesIO()
        async for chunk in proto:
            come.write(chunk)
            if admission is not None and come.tell() >= ACTION_WITHIN_BYTES:
                bytes_max = admission.bytes_max(replace(head, body=come.getvalue()))
                admission = None
                if length > bytes_max:
                    raise request_too_large(bytes_max)
        if come.tell() != length:
            raise RefusedError(MALFORMED_HTTP_REQUEST, "The request's body ended early.")
        return come.getvalue()

    async def _read_encoded(
        self, head: HttpRequest, proto: Any, watch: Watch, held: "_HeldBody"
    ) -> bytes:
        """A body in chunks. One that is not small counts as the longest of its operation.

        Granian ends it with one empty piece. Where it was cut off, or has trailers, there are two.
        """
        come = BytesIO()
        ends = 0
        bytes_max = SMALL_BODY_BYTES_MAX
        async for chunk in proto:
            come.write(chunk)
            ends += not chunk
            if come.tell() > bytes_max == SMALL_BODY_BYTES_MAX:
                beginning = replace(head, body=come.getvalue())
                bytes_max = await self._admit_encoded(beginning, watch, held)
            if come.tell() > bytes_max:
                raise request_too_large(bytes_max)
        if ends != 1:
            message = "The request's body ended early, or has trailers."
            raise RefusedError(MALFORMED_HTTP_REQUEST, message)
        return come.getvalue()

    async def _admit_encoded(self, beginning: HttpRequest, watch: Watch, held: "_HeldBody") -> int:
        """How long the body may be of which this is known. Raises RefusedError."""
        if self._admission is None:
            raise request_too_large(SMALL_BODY_BYTES_MAX)
        bytes_max = self._admission.bytes_max(beginning)
        if bytes_max > SMALL_BODY_BYTES_MAX:
            account, _ = await self._admission.admit(beginning, bytes_max)
            if not held.hold(account, bytes_max):
                raise RefusedError(SERVICE_UNAVAILABLE, "Too many big requests arrive. Try again.")
            settings = self._settings
            watch.wait_for_body(
                settings.body_read_timeout_s + bytes_max / settings.body_bytes_per_s_min
            )
        return bytes_max


class _HeldBody:
    """What is held of one request's body, until it is answered."""

    __slots__ = ("_account", "_held", "_size")

    def __init__(self, held: Held) -> None:
        self._held = held
        self._account = ""
        self._size = 0

    def hold(self, account: str, size: int) -> bool:
        """Whether there is room for it."""
        if not self._held.take(account, size):
            return False
        self._account, self._size = account, size
        return True

    def leave(self) -> None:
        """It is not held any more."""
        if self._size:
            self._held.leave(self._account, self._size)
            self._size = 0


def _nobody_waits() -> None:
    """It is not serving yet."""


def _closing(response: HttpResponse) -> HttpResponse:
    return replace(response, headers=(*response.headers, _CLOSE))

"""Serve HTTP/1.1 in the running event loop: bytes on a socket to HttpRequest, and back.

The parsing is Granian's (hyper), which also refuses malformed requests and ones whose body and
Content-Length differ. Two things reach us otherwise than sent: the path comes decoded (so `%2F` is
a slash here) and is encoded again where it needs it; header values that are not ASCII are missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from granian.constants import HTTPModes, Interfaces, SSLProtocols, TaskImpl
from granian.http import HTTP1Settings
from granian.server.embed import Server

from data_plane.protocol.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
Page = Callable[[], Awaitable[HttpResponse]]

_WATCH_CLIENT_AFTER_S = 0.25
"""Requests that take longer are long polls: when their client leaves, they end."""


class TlsFiles(NamedTuple):
    """PEM files: the certificate with those that lead to its root, and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where to listen, and what a connection may do.

    Of a body, no more than `body_bytes_max` and one byte are read: enough to be refused. Requests
    in flight have `grace_s` seconds to finish when the server stops. With `tls` nothing else is
    spoken.
    """

    host: str
    port: int
    body_bytes_max: int
    grace_s: float = 10.0
    backlog: int = 1024
    header_read_timeout_s: int = 30
    tls: TlsFiles | None = None


class HttpServer:
    """Answers requests with `answer`, and GETs of the paths in `pages` with those."""

    def __init__(self, answer: Answer, pages: Mapping[str, Page], settings: HttpSettings) -> None:
        self._answer = answer
        self._pages = pages
        self._settings = settings
        self.in_flight = 0

    async def serve(self, stop: asyncio.Event) -> bool:
        """Serve until `stop` is set, then finish what is in flight.

        Returns whether all of it finished in time. Raises what the listener died of.
        """
        settings = self._settings
        server = Server(
            self,
            address=settings.host,
            port=settings.port,
            interface=Interfaces.RSGI,
            task_impl=TaskImpl.asyncio,
            runtime_threads=1,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=settings.header_read_timeout_s * 1000),
            websockets=False,
            backlog=settings.backlog,
            log_enabled=False,
            ssl_cert=settings.tls.certificate if settings.tls else None,
            ssl_key=settings.tls.key if settings.tls else None,
            # Systems of before 2019 have SDKs without TLS 1.3; 1.1 is obsolete (RFC 8996).
            ssl_protocol_min=SSLProtocols.tls12,
        )
        serving = asyncio.create_task(server.serve())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
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
            if page is not None and scope.method == "GET":
                response = await page()
            else:
                response = await self._answer_watched(await self._read(scope, proto), proto)
            proto.response_bytes(response.status, list(response.headers), response.body)
        finally:
            self.in_flight -= 1

    async def _read(self, scope: Any, proto: Any) -> HttpRequest:
        headers = dict(scope.headers.items())
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) <= self._settings.body_bytes_max:
            body = await proto()
        else:
            body = await self._read_bounded(proto)
        path = scope.path
        return HttpRequest(
            method=scope.method,
            path=path if path == "/" else quote(path, safe="/-_.~!$&'()*+,;=:@"),
            query=scope.query_string,
            headers=headers,
            body=body,
            client=scope.client,
            secure=self._settings.tls is not None,
        )

    async def _read_bounded(self, proto: Any) -> bytes:
        chunks: list[bytes] = []
        left = self._settings.body_bytes_max + 1
        async for chunk in proto:
            chunks.append(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                break
        return b"".join(chunks)

    async def _answer_watched(self, request: HttpRequest, proto: Any) -> HttpResponse:
        watch = _ClientWatch(proto)
        try:
            return await self._answer(request)
        finally:
            watch.end()


class _ClientWatch:
    """Cancels the current task when the client closes its connection, if the task takes long."""

    __slots__ = ("_proto", "_task", "_timer", "_watcher")

    def __init__(self, proto: Any) -> None:
        self._proto = proto
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_WATCH_CLIENT_AFTER_S, self._start)

    def _start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self._proto.client_disconnect()
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """The answer is there: leave the task alone."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

"""A load balancer for tests: HTTP requests in turns to the servers whose /health is well.

As others do, it keeps the Host header, repeats no request, and answers 502 where a server goes away
in the middle of one.
"""

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HOST: Final = "127.0.0.1"
CHECK_S: Final = 0.1
"""Between two looks at a server's health; balancers in use take seconds."""

_OF_CONNECTION: Final = {"connection", "keep-alive", "transfer-encoding"}


@dataclass
class Balancer:
    """`served` says which server had each request, by port, and what it answered."""

    ports: Sequence[int]
    served: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._well: set[int] = set()
        self._turn = 0
        self._changed = threading.Condition()
        self._closed = threading.Event()
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                balancer.forward(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{HOST}:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["Balancer"]:
        threads = [threading.Thread(target=self._check, args=(port,)) for port in self.ports]
        threads.append(threading.Thread(target=self._server.serve_forever))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._closed.set()
            self._server.shutdown()
            for thread in threads:
                thread.join()
            self._server.server_close()

    def wait_for(self, *ports: int) -> None:
        """Return when these servers are well, and no others."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._well == set(ports), timeout=60)

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        """Hand a request to the next server, and its answer back."""
        body = request.rfile.read(int(request.headers.get("Content-Length", "0")))
        with self._changed:
            well = [port for port in self.ports if port in self._well]
            self._turn += 1
        if not well:
            _answer(request, 503, [], b"")
            return
        port = well[self._turn % len(well)]
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        try:
            connection.request(request.command, request.path, body, dict(request.headers.items()))
            response = connection.getresponse()
            status, headers, content = response.status, response.getheaders(), response.read()
        except (OSError, http.client.HTTPException):
            status, headers, content = 502, [], b""
        finally:
            connection.close()
        self.served.append((port, status))
        _answer(request, status, headers, content)

    def _check(self, port: int) -> None:
        while not self._closed.is_set():
            is_well = _is_well(port)
            with self._changed:
                (self._well.add if is_well else self._well.discard)(port)
                self._changed.notify_all()
            self._closed.wait(CHECK_S)


def _is_well(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _answer(
    request: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes
) -> None:
    try:
        request.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_CONNECTION | {"content-length"}:
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
    except OSError:
        request.close_connection = True  # the client went away

"""Nodes of a shared cache: memcached where it is installed, and a server of its protocol.

The latter also misbehaves as told (github.com/memcached/memcached, doc/protocol.txt).
"""

import contextlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from control_plane.metadata_cache.memcached import ANSWER_S
from tests.ports import free_port

MEMCACHED: Final = shutil.which("memcached")
START_S_MAX: Final = 10

NAME: Final = "0" * 32
"""What tests put, as the cache spells names."""


class Memcached:
    """memcached in a process of its own, on one port for good."""

    def __init__(self, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self.address = ("127.0.0.1", self.port)
        self.start()

    def start(self) -> None:
        """Empty, as memcached always starts."""
        assert MEMCACHED is not None
        place = ("-l", "127.0.0.1", "-p", str(self.port), "-U", "0")
        self.process = subprocess.Popen([MEMCACHED, *place, "-m", "16", "-t", "1", "-u", "root"])
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            try:
                socket.create_connection(self.address, 1).close()
            except ConnectionError:
                time.sleep(0.01)  # between two looks at a process that starts
            else:
                return
        raise AssertionError("memcached does not start")

    def forget(self) -> None:
        with socket.create_connection(self.address, 5) as connection:
            connection.sendall(b"flush_all\r\n")
            assert connection.recv(100) == b"OK\r\n"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class Stored(NamedTuple):
    value: bytes
    version: int
    until_s: float


@dataclass
class ProtocolServer:
    """A node in this process. `misbehave` may answer what the client gets instead of an answer.

    It is given the command and the answer, and the function that sends bytes to the client. With
    `tls` it speaks that alone.
    """

    port: int = field(default_factory=free_port)
    misbehave: Callable[[bytes, bytes, Callable[[bytes], None]], bytes] | None = None
    tls: ssl.SSLContext | None = None
    values: dict[bytes, Stored] = field(default_factory=dict)
    commands: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.address = ("127.0.0.1", self.port)
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.start()

    def start(self) -> None:
        """Empty, as memcached always starts."""
        node = self

        class Handler(socketserver.StreamRequestHandler):
            def setup(self) -> None:
                if node.tls is not None:
                    self.request = node.tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def handle(self) -> None:
                node._serve(self)

            def finish(self) -> None:
                super().finish()
                self.request.close()  # the server knows only the socket below TLS

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                if not isinstance(sys.exception(), OSError):  # no TLS, or the client has gone
                    super().handle_error(request, client_address)

        self.values.clear()
        self.stopping.clear()
        self._server = Server(self.address, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        """End it, and the connections, as a process that is killed."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        self.values.clear()

    def _serve(self, handler: socketserver.StreamRequestHandler) -> None:
        self._connections.add(handler.connection)
        try:
            while line := handler.rfile.readline():
                command = line.split()
                size = int(command[4]) if command[0] in (b"set", b"add", b"cas") else None
                body = handler.rfile.read(size + 2)[:-2] if size is not None else b""
                with self._lock:
                    self.commands.append(command[0])
                    answer = self._answer(command, body)
                if self.misbehave is not None:
                    answer = self.misbehave(command[0], answer, handler.connection.sendall)
                handler.connection.sendall(answer)
        except OSError:
            pass  # the client has gone
        finally:
            self._connections.discard(handler.connection)

    def _answer(self, command: list[bytes], body: bytes) -> bytes:
        if command[0] == b"gets":
            return b"".join(self._value(key) for key in command[1:]) + b"END\r\n"
        _, key, _, ttl_s = command[:4]
        held = self._held(key)
        if command[0] == b"add" and held is not None:
            return b"NOT_STORED\r\n"
        if command[0] == b"cas":
            if held is None:
                return b"NOT_FOUND\r\n"
            if held.version != int(command[5]):
                return b"EXISTS\r\n"
        version = len(self.commands)
        self.values[key] = Stored(body, version, time.monotonic() + int(ttl_s))
        return b"STORED\r\n"

    def _held(self, key: bytes) -> Stored | None:
        held = self.values.get(key)
        return held if held is not None and time.monotonic() < held.until_s else None

    def _value(self, key: bytes) -> bytes:
        held = self._held(key)
        if held is None:
            return b""
        head = b"VALUE %s 0 %d %d\r\n" % (key, len(held.value), held.version)
        return head + held.value + b"\r\n"


def drip(_command: bytes, _answer: bytes, send: Callable[[bytes], None]) -> bytes:
    """Misbehave: one byte after the other comes in time, and the answer never."""
    while True:
        send(b"V")
        time.sleep(ANSWER_S / 4)  # what is tested is how slow the node is


def flood(_command: bytes, _answer: bytes, send: Callable[[bytes], None]) -> bytes:
    """Misbehave: the answer has no end."""
    send(b"VALUE %s 0 999999999999 1\r\n" % NAME.encode())
    while True:
        send(bytes(65536))

"""How other logs take records: prepared bytes, and how many of them an answer acknowledges.

One connection writes a batch, waits until all of it is acknowledged, and writes the next.
Sources: Redis' RESP, NATS' client protocol and JetStream API, RabbitMQ's stream protocol
(rabbitmq/rabbitmq-server, deps/rabbitmq_stream/docs/PROTOCOL.adoc).
"""

import json
import random
import socket
import struct
from typing import Final, Protocol

from tests.benchmarks.wire import ResponseError, message_body

READ_BYTES: Final = 262_144
STREAM: Final = "bench"
_REPLY_S_MAX: Final = 60.0


class LogWire(Protocol):
    """One connection to a log."""

    socket: socket.socket

    def batch(self, records: int) -> bytes:
        """What puts so many records of 1 KB."""

    def acknowledged(self, received: bytes) -> int:
        """How many records a part of the answers acknowledges. Raises ResponseError."""


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_REPLY_S_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _bodies(records: int) -> list[bytes]:
    source = random.Random(records)
    return [message_body(source).encode() for _ in range(records)]


class RedisWire:
    """XADD, as many as a batch has in a pipeline."""

    def __init__(self, port: int) -> None:
        self.socket = _connect(port)

    def batch(self, records: int) -> bytes:
        """An XADD for each record."""
        head = b"*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$1\r\nd\r\n"
        return b"".join(b"%b$%d\r\n%b\r\n" % (head, len(body), body) for body in _bodies(records))

    def acknowledged(self, received: bytes) -> int:
        """Ids that came: a bulk string has two lines, of which the second has a hyphen."""
        if b"-ERR" in received:
            raise ResponseError(received[:200].decode())
        return received.count(b"-")


class NatsWire:
    """Published to JetStream, each with an inbox for its acknowledgement."""

    def __init__(self, port: int) -> None:
        self.socket = _connect(port)
        options = json.dumps({"verbose": False, "pedantic": False, "name": "bench"}).encode()
        wanted = {"name": STREAM, "subjects": ["records"], "storage": "file", "num_replicas": 1}
        asked = json.dumps(wanted).encode()
        self.socket.sendall(
            b"CONNECT %b\r\nSUB acks 1\r\nSUB made 2\r\nPUB $JS.API.STREAM.CREATE.bench made %d\r\n"
            b"%b\r\n" % (options, len(asked), asked)
        )
        received = b""
        while b"stream_create_response" not in received:
            received += self.socket.recv(READ_BYTES)

    def batch(self, records: int) -> bytes:
        """A PUB for each record."""
        return b"".join(
            b"PUB records acks %d\r\n%b\r\n" % (len(body), body) for body in _bodies(records)
        )

    def acknowledged(self, received: bytes) -> int:
        """Acknowledgements that came."""
        if b"PING" in received:
            self.socket.sendall(b"PONG\r\n")
        if b'"error"' in received or b"-ERR" in received:
            raise ResponseError(received[:200].decode())
        return received.count(b'"seq":')


class RabbitWire:
    """RabbitMQ's stream protocol, with confirmations."""

    _PUBLISH: Final = 0x0002
    _CONFIRM: Final = 0x0003
    _PUBLISH_ERROR: Final = 0x0004
    _TUNE: Final = 0x0014

    def __init__(self, port: int) -> None:
        self.socket = _connect(port)
        self._partial = b""
        self._call(0x0011, struct.pack(">I", 0))
        self._call(0x0012, b"")
        plain = b"\0guest\0guest"
        self._call(0x0013, _text("PLAIN") + struct.pack(">i", len(plain)) + plain)
        tune = self._frame()
        assert tune[0] == self._TUNE
        self._send(self._TUNE, tune[1])
        self._call(0x0015, _text("/"))
        self._call(0x000D, _text(STREAM) + struct.pack(">i", 0))
        self._call(0x0001, struct.pack(">B", 1) + _text("") + _text(STREAM))

    def _send(self, key: int, content: bytes) -> None:
        self.socket.sendall(struct.pack(">IHH", len(content) + 4, key, 1) + content)

    def _call(self, key: int, content: bytes) -> None:
        self._send(key, struct.pack(">I", 1) + content)
        while (self._frame())[0] != key | 0x8000:
            pass

    def _frame(self) -> tuple[int, bytes]:
        (size,) = struct.unpack(">I", self._exactly(4))
        frame = self._exactly(size)
        return struct.unpack(">H", frame[:2])[0], frame[4:]

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            received += self.socket.recv(size - len(received))
        return received

    def batch(self, records: int) -> bytes:
        """One Publish; its numbers are the same each time, which only names confirmations."""
        bodies = _bodies(records)
        content = struct.pack(">Bi", 1, records) + b"".join(
            struct.pack(">Qi", number, len(body)) + body for number, body in enumerate(bodies)
        )
        return struct.pack(">IHH", len(content) + 4, self._PUBLISH, 1) + content

    def acknowledged(self, received: bytes) -> int:
        """Numbers that were confirmed."""
        self._partial += received
        count = 0
        while len(self._partial) >= 4:
            (size,) = struct.unpack(">I", self._partial[:4])
            if len(self._partial) < 4 + size:
                break
            frame, self._partial = self._partial[4 : 4 + size], self._partial[4 + size :]
            (key,) = struct.unpack(">H", frame[:2])
            if key == self._PUBLISH_ERROR:
                raise ResponseError("RabbitMQ refused records")
            if key == self._CONFIRM:
                count += struct.unpack(">i", frame[5:9])[0]
        return count


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()

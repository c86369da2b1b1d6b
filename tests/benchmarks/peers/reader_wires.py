"""How other logs hand records to groups of readers: prepared bytes, and the least parsing.

Sources as of log_wires.py; chunks of RabbitMQ's streams are those of rabbitmq/osiris.
"""

import re
import select
import struct
from typing import Final, Protocol

from tests.benchmarks.peers.log_wires import READ_BYTES, STREAM, RabbitWire, RedisWire
from tests.benchmarks.wire import BODY_BYTES, ResponseError

PAGE_MAX: Final = 1_000
PATIENCE_S: Final = 0.2
"""So long a read waits for what is not there yet."""


class GroupReader(Protocol):
    """One group's only reader."""

    def read(self) -> int:
        """How many records came; 0 where none did for a moment. They are done by then."""

    def finish(self) -> None:
        """Say how far the group is."""


class RedisReader:
    """XREADGROUP, and an XACK for each page."""

    _RECORD: Final = re.compile(
        rb"\*2\r\n\$\d+\r\n(\d+-\d+)\r\n\*2\r\n\$1\r\nd\r\n\$%d\r\n" % BODY_BYTES
    )
    _HEAD: Final = re.compile(rb"\*1\r\n\*2\r\n\$5\r\nbench\r\n\*(\d+)\r\n")
    _NOTHING: Final = (b"*-1\r\n", b"$-1\r\n")

    def __init__(self, port: int, group: str) -> None:
        self._socket = RedisWire(port).socket
        self._group = group.encode()
        made = self._ask(b"XGROUP", b"CREATE", STREAM.encode(), self._group, b"$", b"MKSTREAM")
        if not made.startswith(b"+OK"):
            raise ResponseError(made.decode())

    def read(self) -> int:
        """A page; what came is acknowledged."""
        wait_ms = str(round(PATIENCE_S * 1_000)).encode()
        self._send(
            *(b"XREADGROUP", b"GROUP", self._group, b"one", b"COUNT", str(PAGE_MAX).encode()),
            *(b"BLOCK", wait_ms, b"STREAMS", STREAM.encode(), b">"),
        )
        ids = self._page()
        if ids:
            self._ask(b"XACK", STREAM.encode(), self._group, *ids)
        return len(ids)

    def finish(self) -> None:
        """Nothing: all is acknowledged."""

    def _page(self) -> list[bytes]:
        """The ids of an answer, once all of it is there."""
        received = bytearray()
        while True:
            more = self._socket.recv(READ_BYTES)
            if not more:
                raise ResponseError("the peer closed the connection")
            received += more
            if bytes(received[:5]) in self._NOTHING:
                return []
            head = self._HEAD.match(received)
            if head is None:
                if received[:1] == b"-":
                    raise ResponseError(received.decode())
                continue
            # Most of it first, so that what came is not looked through again and again.
            if len(received) < int(head[1]) * BODY_BYTES:
                continue
            found = list(self._RECORD.finditer(received))
            if len(found) == int(head[1]) and len(received) >= found[-1].end() + BODY_BYTES + 2:
                return [one[1] for one in found]

    def _send(self, *words: bytes) -> None:
        self._socket.sendall(
            b"*%d\r\n" % len(words)
            + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        )

    def _ask(self, *words: bytes) -> bytes:
        self._send(*words)
        return self._socket.recv(READ_BYTES)


class RabbitReader(RabbitWire):
    """A subscription, whose offset is stored once a second."""

    _SUBSCRIBE: Final = 0x0007
    _DELIVER: Final = 0x0008
    _CREDIT: Final = 0x0009
    _STORE_OFFSET: Final = 0x000A
    _HEARTBEAT: Final = 0x0017
    _CREDITS: Final = 10
    _CHUNK: Final = struct.Struct(">bbHIqQQ")

    def __init__(self, port: int, group: str) -> None:
        super().__init__(port)
        self._group = group
        self._next = 0
        next_one = struct.pack(">HH", 3, self._CREDITS)
        self._call(self._SUBSCRIBE, b"\1" + self.named_stream() + next_one + struct.pack(">i", 0))

    @staticmethod
    def named_stream() -> bytes:
        """The stream's name as the protocol has it."""
        return struct.pack(">h", len(STREAM)) + STREAM.encode()

    def read(self) -> int:
        """A chunk; another one may come for it."""
        if not select.select([self.socket], [], [], PATIENCE_S)[0]:
            return 0
        key, content = self._frame()
        if key == self._HEARTBEAT:
            self._send(self._HEARTBEAT, b"")
            return 0
        if key != self._DELIVER:
            return 0
        # Behind the version of the frame and the id of the subscription.
        *_, count, _time, _epoch, first = self._CHUNK.unpack_from(content, 1)
        self._next = first + count
        self._send(self._CREDIT, struct.pack(">BH", 1, 1))
        return int(count)

    def finish(self) -> None:
        """Store how far the group is."""
        group = struct.pack(">h", len(self._group)) + self._group.encode()
        stored = group + self.named_stream() + struct.pack(">Q", max(0, self._next - 1))
        self._send(self._STORE_OFFSET, stored)

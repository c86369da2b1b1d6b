"""Answers that a network spoils: never an absent item, never a write that succeeded.

tests/unit/data_plane/dynamodb has the cases that need no socket.
"""

import asyncio
import json
import socket
import struct
import threading
from binascii import crc32
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import connect
from data_plane.ports import CellUnavailableError, Key
from data_plane.system import SystemClock
from tests.conformance.on_driver import inline

KEY = Key("P", b"a")
BODY = json.dumps({"Item": {"pk": {"S": "P"}, "sk": {"B": "AGE="}, "v": {"N": "1"}}}).encode()

Behaviour = Callable[[socket.socket], None]


def answer(body: bytes, length: int) -> bytes:
    """An answer of status 200 that says how long it is, and has the checksum of the whole."""
    return (
        b"HTTP/1.1 200 OK\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\n"
        b"x-amz-crc32: %d\r\nContent-Length: %d\r\n\r\n%b" % (crc32(BODY), length, body)
    )


def whole(connection: socket.socket) -> None:
    connection.sendall(answer(BODY, len(BODY)))


def cut_in_the_body(connection: socket.socket) -> None:
    connection.sendall(answer(BODY[: len(BODY) // 2], len(BODY)))


def cut_in_the_head(connection: socket.socket) -> None:
    connection.sendall(answer(BODY, len(BODY))[:40])


def cut_and_said_to_be_whole(connection: socket.socket) -> None:
    half = BODY[: len(BODY) // 2]
    connection.sendall(answer(half, len(half)))


def emptied(connection: socket.socket) -> None:
    connection.sendall(answer(b"", 0))


def garbage(connection: socket.socket) -> None:
    connection.sendall(b"\xff\xfe no HTTP\r\n\r\n")


def nothing(_connection: socket.socket) -> None:
    return


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class SpoilingServer:
    """Treats each request as the next behaviour says, the last one again and again."""

    def __init__(self, behaviours: list[Behaviour]) -> None:
        self._behaviours = behaviours
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            with connection:
                if not _read_request(connection):
                    continue
                self.requests += 1
                behave = (
                    self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]
                )
                behave(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _read_request(connection: socket.socket) -> bool:
    head = b""
    while b"\r\n\r\n" not in head:
        more = connection.recv(65536)
        if not more:
            return False
        head += more
    head, _, body = head.partition(b"\r\n\r\n")
    (length,) = (
        int(line.split(b":")[1])
        for line in head.lower().splitlines()
        if line.startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return True


@pytest.fixture
def cell_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    opened: list[Any] = []

    def open_cell(
        *behaviours: Behaviour, deadline_s: float, read_timeout_s: float = 30
    ) -> tuple[DynamoCell, SpoilingServer]:
        server = SpoilingServer(list(behaviours))
        client = connect(server.url, "us-east-1", connections_max=1, read_timeout_s=read_timeout_s)
        opened.extend((client, server))
        cell = DynamoCell(
            client,
            "t",
            SystemClock(),
            inline,
            deadline_s=deadline_s,
            monotonic_us=lambda: 0,  # nobody waits for a thread, however busy the machine is
        )
        return cell, server

    yield open_cell
    for one in opened:
        one.close()


SPOILT = [
    cut_in_the_body,
    cut_in_the_head,
    cut_and_said_to_be_whole,
    emptied,
    garbage,
    nothing,
    reset,
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_answer_is_asked_for_again(cell_on: Any, spoil: Behaviour) -> None:
    cell, server = cell_on(spoil, spoil, whole, deadline_s=30)
    assert asyncio.run(cell.get(KEY)) == {"v": 1}
    assert server.requests == 3


@pytest.mark.parametrize("spoil", SPOILT)
def test_where_no_answer_is_whole_the_cell_is_unavailable(cell_on: Any, spoil: Behaviour) -> None:
    cell, server = cell_on(spoil, deadline_s=0.2)
    with pytest.raises(CellUnavailableError):
        asyncio.run(cell.get(KEY))
    assert server.requests >= 1
    with pytest.raises(CellUnavailableError):
        asyncio.run(cell.put(KEY, {"v": 1}))


def test_an_answer_that_does_not_come_is_not_waited_for(cell_on: Any) -> None:
    over = threading.Event()

    def silence(_connection: socket.socket) -> None:
        over.wait()

    cell, _server = cell_on(silence, deadline_s=0.2, read_timeout_s=0.1)
    try:
        with pytest.raises(CellUnavailableError, match="Read timeout"):
            asyncio.run(cell.get(KEY))
    finally:
        over.set()

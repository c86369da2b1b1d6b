"""Requests that are refused before their bodies are read leave their connections in order."""

import json
import re
import socket
from collections.abc import Iterator, Mapping

import pytest

from data_plane.protocol.http import HttpResponse
from tests.integration.socket_server import SocketServer

ANSWER_S_MAX = 20
FORM = b"Action=ListQueues"
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n"
JSON = b"X-Amz-Target: AmazonSQS.ListQueues\r\nContent-Type: application/x-amz-json-1.0\r\n"
PLAIN = b"Content-Type: application/x-www-form-urlencoded\r\n"
_length = re.compile(rb"(?i)content-length: (\d+)")


async def _well(_headers: Mapping[str, str], _client: str) -> HttpResponse:
    return HttpResponse(200, (), b"well")


@pytest.fixture
def server() -> Iterator[SocketServer]:
    served = SocketServer(pages={"/health": _well})
    yield served
    served.close()


@pytest.fixture
def connection(server: SocketServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX) as opened:
        yield opened


@pytest.fixture
def is_full(server: SocketServer, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether there is no room, from now on."""
    full = [False]
    monkeypatch.setattr(server.overload, "is_full", lambda _in_flight: full[0])
    return full


def answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of the next response."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = _length.search(head)
    assert length is not None
    while len(body) < int(length[1]):
        body += _more(connection)
    assert len(body) == int(length[1])
    return head, body


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(65536)
    assert received, "the connection ended"
    return received


def test_a_connection_goes_on_after_a_refusal(
    connection: socket.socket, is_full: list[bool]
) -> None:
    for full, status in ((False, b"200"), (True, b"503"), (True, b"503"), (False, b"200")):
        is_full[0] = full
        connection.sendall(HEAD % (len(FORM), PLAIN) + FORM)
        head, body = answer(connection)
        assert head.startswith(b"HTTP/1.1 " + status)
        if full:
            assert b"retry-after: 1" in head
            assert b"<Code>ServiceUnavailable</Code>" in body


def test_the_protocol_is_that_of_the_headers(
    connection: socket.socket, is_full: list[bool]
) -> None:
    is_full[0] = True
    connection.sendall(HEAD % (2, JSON) + b"{}")
    head, body = answer(connection)
    assert b"x-amzn-query-error: ServiceUnavailable;Receiver" in head
    assert json.loads(body)["__type"].endswith("#ServiceUnavailable")


def test_health_is_told_without_room(connection: socket.socket, is_full: list[bool]) -> None:
    is_full[0] = True
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer(connection)[1] == b"well"


def test_who_has_not_sent_the_body_yet_is_answered(
    connection: socket.socket, is_full: list[bool]
) -> None:
    is_full[0] = True
    connection.sendall(HEAD % (1_000_000, JSON))
    head, _ = answer(connection)
    assert head.startswith(b"HTTP/1.1 503")
    # The body never came, so nothing that follows may be taken for a request.
    assert connection.recv(1) == b""


def test_chunks_end_the_connection(connection: socket.socket, is_full: list[bool]) -> None:
    is_full[0] = True
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(chunked + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _ = answer(connection)
    assert b"connection: close" in head
    assert connection.recv(1) == b""

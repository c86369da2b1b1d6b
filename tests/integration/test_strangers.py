"""What a stranger, and a client that does not read, can make a real server hold."""

import fcntl
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from os import pipe
from typing import Any

import pytest

from data_plane.core.limits import ACTION_WITHIN_BYTES, SMALL_BODY_BYTES_MAX
from data_plane.http.answers import LONG_ANSWER_BYTES, Answers
from tests.integration.socket_server import SocketServer
from tests.integration.test_slow_clients import HEAD, answers, await_fact, connected, rest

JSON = b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.%b\r\nContent-Length: %d\r\n"
MADE_UP = (
    b"X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIDNOBODY"
    b"/20260101/eu-west-1/sqs/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, "
    b"Signature=00\r\n"
)
LONG = SMALL_BODY_BYTES_MAX + 1
CREDENTIAL = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=111122223333/20260101/eu-west-1/sqs/aws4_request"
)


@pytest.fixture
def verifying() -> Iterator[SocketServer]:
    server = SocketServer(verifies=True)
    yield server
    server.close()


@pytest.fixture
def serving() -> Iterator[SocketServer]:
    server = SocketServer()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (JSON % (b"SendMessage", LONG), b"MissingAuthenticationToken"),
        (JSON % (b"SendMessage", LONG) + MADE_UP, b"SignatureDoesNotMatch|InvalidClientTokenId"),
        (JSON % (b"NoSuchThing", LONG), b"InvalidAction"),
        (HEAD % LONG, b"MissingAuthenticationToken"),
    ],
    ids=["no signature", "a key that nobody has", "no operation", "a form"],
)
def test_a_long_body_of_a_stranger_is_refused_unread(
    verifying: SocketServer, head: bytes, code: bytes
) -> None:
    with connected(verifying) as connection:
        connection.sendall(head + b"\r\n")
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 40")
        assert re.search(code, answer), answer
        assert b"\r\nconnection: close\r\n" in answer
    assert verifying.http._bodies.total == 0


def test_a_short_body_is_read_whoever_sends_it(verifying: SocketServer) -> None:
    with connected(verifying) as connection:
        for _ in range(2):  # and the connection goes on
            body = b"x" * SMALL_BODY_BYTES_MAX
            connection.sendall(JSON % (b"SendMessage", len(body)) + b"\r\n" + body)
            received = b""
            while b"MissingAuthenticationToken" not in received:
                received += connection.recv(65536)


def test_who_proves_nothing_is_answered_a_little_later(verifying: SocketServer) -> None:
    overload: Any = verifying.http._overload
    hold_back, held = overload.hold_back, []

    async def noted() -> None:
        held.append(verifying.http._bodies.total)
        await hold_back()

    overload.hold_back = noted
    with connected(verifying) as connection:
        for number in range(1, 3):  # and the connection goes on
            connection.sendall(JSON % (b"ListQueues", 2) + b"\r\n{}")
            received = b""
            while b"MissingAuthenticationToken" not in received:
                received += connection.recv(65536)
            assert held == [0] * number


def test_a_long_body_for_what_has_none_is_refused_unread(serving: SocketServer) -> None:
    with connected(serving) as connection:
        connection.sendall(JSON % (b"ListQueues", LONG) + b"\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 413 ")


def test_a_long_form_says_what_it_is_for_or_is_not_read_on(serving: SocketServer) -> None:
    for beginning, status in ((b"Action=ListQueues&a=", b"413"), (b"a=", b"400")):
        with connected(serving) as connection:
            sent = beginning.ljust(ACTION_WITHIN_BYTES, b"b")
            connection.sendall(HEAD % 1_000_000 + b"\r\n" + sent)
            assert rest(connection).startswith(b"HTTP/1.1 " + status)
    assert serving.http._bodies.total == 0
    assert answers(serving)


def fill(server: SocketServer, size_bytes: int = 1_000_000) -> bytes:
    """A request that is answered by two messages of this size."""
    client = server.client()
    client.create_queue(QueueName="big")
    for _ in range(2):
        client.send_message(QueueUrl="big", MessageBody="x" * size_bytes)
    form = b"Action=ReceiveMessage&QueueUrl=big&MaxNumberOfMessages=10&VisibilityTimeout=0"
    return HEAD % len(form) + CREDENTIAL + b"\r\n\r\n" + form


def pipe_of_large_pages() -> tuple[int, int]:
    """What a pipe is where a page of memory has 64 KiB: it takes 16 of them."""
    reading, writing = pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 16 * 65_536)
    return reading, writing


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere answers go out in one piece")
@pytest.mark.parametrize("size_bytes", [200_000, 1_000_000])
@pytest.mark.parametrize("pipe", [pipe, pipe_of_large_pages])
def test_a_long_answer_comes_whole_and_leaves_nothing(
    serving: SocketServer,
    monkeypatch: pytest.MonkeyPatch,
    pipe: Callable[[], tuple[int, int]],
    size_bytes: int,
) -> None:
    monkeypatch.setattr(os, "pipe", pipe)
    asked = fill(serving, size_bytes)
    with connected(serving) as connection:
        for _ in range(2):  # on one connection
            connection.sendall(asked)
            received = bytearray()
            while not received.endswith(b"</ReceiveMessageResponse>"):
                some = connection.recv(1_048_576)
                assert some, f"the answer ends after {len(received)} bytes"
                received += some
            head, _, body = bytes(received).partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            assert length is not None
            assert int(length[1]) == len(body) > LONG_ANSWER_BYTES
            assert body.count(b"x" * size_bytes) == 2
    await_fact(lambda: serving.http._answers.held_bytes == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere answers go out in one piece")
def test_answers_that_nobody_takes_have_so_much_room_and_end(serving: SocketServer) -> None:
    serving.http._answers = held = Answers(stalled_s=1.0, bytes_max=20_000_000)
    asked = fill(serving)
    stuck = []
    for _ in range(60):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", serving.port))
        connection.sendall(asked)
        stuck.append(connection)
        assert held.held_bytes <= 20_000_000
    for connection in stuck:
        connection.close()
    await_fact(lambda: held.held_bytes == 0 and serving.http.in_flight == 0)
    await_fact(lambda: answers(serving))

"""Clients that are slow, silent or greedy: each is cut off in time, and nobody else notices."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.socket_server import SocketServer

ANSWER_S_MAX = 20
SHORT_S = 0.2
FORM = b"Action=ListQueues"
HEAD = (
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: %d\r\n"
)
PLAIN = HEAD % len(FORM) + b"\r\n" + FORM


@contextmanager
def serving(**limits: Any) -> Iterator[SocketServer]:
    server = SocketServer(**limits)
    try:
        yield server
    finally:
        server.close()


def connected(server: SocketServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX)


def rest(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    answer = b""
    try:
        while part := connection.recv(65536):
            answer += part
    except ConnectionResetError:
        pass  # it ended the connection before it had read everything
    return answer


def answers(server: SocketServer) -> bool:
    """Whether a client like any other is served.

    One that is held up between connecting and its request is cut off, and connects again.
    """
    while True:
        with connected(server) as connection, suppress(ConnectionError):
            connection.sendall(PLAIN)
            if answer := connection.recv(65536):
                return answer.startswith(b"HTTP/1.1 200 ")


def await_fact(fact: Callable[[], bool]) -> None:
    """Return when the fact is true."""
    deadline = time.monotonic() + ANSWER_S_MAX
    while not fact():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)  # between two looks


@pytest.mark.parametrize("start", [b"", b"POST / HT", HEAD % 3], ids=["nothing", "line", "headers"])
def test_a_header_that_does_not_come_ends_the_connection(start: bytes) -> None:
    with serving(header_read_timeout_s=SHORT_S) as server, connected(server) as connection:
        connection.sendall(start)
        assert rest(connection) == b""
        assert answers(server)


def test_a_header_that_trickles_ends_the_connection() -> None:
    with serving(header_read_timeout_s=SHORT_S) as server, connected(server) as connection:
        connection.settimeout(SHORT_S / 10)
        ended = False
        while not ended:
            try:
                connection.sendall(b"x")
                ended = connection.recv(1) == b""
            except TimeoutError:
                continue  # it still waits for the header's end
            except ConnectionError:
                ended = True
        assert answers(server)


def test_an_idle_connection_ends() -> None:
    with serving(header_read_timeout_s=SHORT_S) as server:
        answer = b""
        while not answer:  # else this client was held up, and cut off before its request
            with connected(server) as connection, suppress(ConnectionError):
                connection.sendall(PLAIN)
                answer = rest(connection)
        assert answer.count(b"HTTP/1.1 200 ") == 1


def test_a_body_that_does_not_come_is_answered_408() -> None:
    with serving(body_read_timeout_s=SHORT_S) as server, connected(server) as connection:
        head = HEAD.replace(b"x-www-form-urlencoded", b"x-amz-json-1.0") % len(FORM)
        connection.sendall(head + b"X-Amz-Target: AmazonSQS.ListQueues\r\n\r\n{")
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"\r\nconnection: close\r\n" in answer
        assert b"\r\nx-amzn-query-error: RequestTimeout;Sender\r\n" in answer
        assert server.http.patience.slow_bodies == 0
        assert answers(server)
    assert [served.code for served in server.served] == ["RequestTimeout", ""]


def test_a_body_that_trickles_is_answered_408() -> None:
    with (
        serving(body_read_timeout_s=SHORT_S, body_bytes_per_s_min=10_000_000) as server,
        connected(server) as connection,
    ):
        connection.sendall(HEAD % 100_000 + b"\r\n")
        connection.settimeout(SHORT_S / 10)
        answer = b""
        while not answer:
            connection.sendall(b"x")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue  # it still waits for the body
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_has_longer_the_longer_it_is() -> None:
    with (
        serving(body_read_timeout_s=0, body_bytes_per_s_min=1) as server,
        connected(server) as connection,
    ):
        connection.sendall(HEAD % len(FORM) + b"\r\n" + FORM[:3])
        await_fact(lambda: server.http.patience.slow_bodies == 1)
        connection.sendall(FORM[3:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert server.http.patience.slow_bodies == 0


def test_a_body_that_ends_early_is_no_request() -> None:
    with serving() as server, connected(server) as connection:
        connection.sendall(HEAD % 100 + b"\r\nAction=CreateQueue&QueueName=half")
        connection.shutdown(socket.SHUT_WR)
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"MalformedHttpRequest" in answer
        assert "QueueUrls" not in server.client().list_queues()


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_a_body_that_is_too_long_is_refused_unread(expect: bytes) -> None:
    with serving() as server, connected(server) as connection:
        connection.sendall(HEAD % (1 << 30) + expect + b"\r\n")
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"RequestEntityTooLarge" in answer


def test_a_client_that_asks_first_may_go_on() -> None:
    with serving() as server, connected(server) as connection:
        connection.sendall(HEAD % len(FORM) + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(FORM)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_long_bodies_have_only_so_much_room_together() -> None:
    send = b"Action=SendMessage&QueueUrl=orders&MessageBody="
    with serving(bodies_bytes_max=1_000_000) as server:
        server.anonymous().create_queue(QueueName="orders")
        with connected(server) as first, connected(server) as second:
            first.sendall(HEAD % 600_000 + b"\r\n" + send)
            await_fact(lambda: server.http.patience.slow_bodies == 1)
            second.sendall(HEAD % 600_000 + b"\r\n")
            answer = rest(second)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: " in answer
            assert answers(server)
        await_fact(lambda: server.http.patience.slow_bodies == 0)
        with connected(server) as third:
            form = send + b"x" * 600_000
            third.sendall(HEAD % len(form) + b"\r\n" + form)
            assert third.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_above_the_limit_connections_wait_for_one_that_ends() -> None:
    with (
        serving(connections_max=2, header_read_timeout_s=1) as server,
        connected(server),
        connected(server),
    ):
        assert answers(server)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux bounds that")
def test_a_client_that_takes_nothing_of_its_answer_is_cut_off() -> None:
    with serving(send_timeout_s=SHORT_S) as server:
        client = server.client()
        client.create_queue(QueueName="big")
        for _ in range(10):
            client.send_message(QueueUrl="big", MessageBody="x" * 1_000_000)
        form = b"Action=ReceiveMessage&QueueUrl=big&MaxNumberOfMessages=10"
        scope = b"AWS4-HMAC-SHA256 Credential=111122223333/20260101/eu-west-1/sqs/aws4_request"
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(ANSWER_S_MAX)
        with connection:
            connection.connect(("127.0.0.1", server.port))
            assert is_open(connection)
            connection.sendall(HEAD % len(form) + b"Authorization: " + scope + b"\r\n\r\n" + form)
            await_fact(lambda: not is_open(connection))
        assert answers(server)


def is_open(connection: socket.socket) -> bool:
    """Whether the server's end still knows of the connection."""
    ours = f"0100007F:{connection.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(line[2] == ours and line[3] == "01" for line in lines)

"""HTTP/2 beside HTTP/1.1 on one port, under the same limits."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from data_plane.http.server import TlsFiles
from tests.integration.certificates import make_certificates
from tests.integration.http2_client import ANSWER_S_MAX, FORM, Http2Client
from tests.integration.socket_server import SocketServer

SHORT_S = 0.2
LIST = b"Action=ListQueues"


@contextmanager
def serving(**limits: Any) -> Iterator[SocketServer]:
    server = SocketServer(**limits)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def server() -> Iterator[SocketServer]:
    with serving() as started:
        started.anonymous().create_queue(QueueName="orders")
        yield started


def await_fact(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_S_MAX
    while not fact():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)  # between two looks


def test_requests_follow_each_other_on_a_connection(server: SocketServer) -> None:
    with Http2Client(server.port) as client:
        for _ in range(3):
            reply = client.post(LIST)
            assert reply.status == 200
            assert b"<QueueUrl>http://x/000000000000/orders</QueueUrl>" in reply.body
            assert "connection" not in reply.headers


def test_requests_at_a_time_do_not_wait_for_each_other(server: SocketServer) -> None:
    poll = b"Action=ReceiveMessage&QueueUrl=orders&WaitTimeSeconds=20"
    with Http2Client(server.port) as client:
        waiting = client.begin({"content-type": FORM, "content-length": str(len(poll))})
        client.send(waiting, poll)
        send = b"Action=SendMessage&QueueUrl=orders&MessageBody=hello"
        assert client.post(send).status == 200
        reply = client.reply(waiting)
        assert b"<Body>hello</Body>" in reply.body


def test_who_gives_up_ends_its_long_poll(server: SocketServer) -> None:
    poll = b"Action=ReceiveMessage&QueueUrl=orders&WaitTimeSeconds=20"
    with Http2Client(server.port) as client:
        waiting = client.begin({"content-type": FORM, "content-length": str(len(poll))})
        client.send(waiting, poll)
        await_fact(lambda: server.http.in_flight == 1)
        client.h2.reset_stream(waiting)
        client.flush()
        await_fact(lambda: server.http.in_flight == 0)
        assert client.post(LIST).status == 200


def test_the_host_is_that_of_the_request(server: SocketServer) -> None:
    with Http2Client(server.port, host="evil@x") as client:
        assert client.post(LIST).status in {0, 400}
    with Http2Client(server.port) as client:
        assert b"Host header and request target differ" in client.post(LIST, host="y").body
        assert client.post(LIST, host="x").status == 200


def test_a_body_says_how_long_it_is(server: SocketServer) -> None:
    with Http2Client(server.port) as client:
        stream = client.begin({"content-type": FORM})
        client.send(stream, LIST)
        assert client.reply(stream).status == 411
        shorter = client.begin({"content-type": FORM, "content-length": "40"})
        client.send(shorter, LIST)
        assert client.reply(shorter).status in {0, 400}
        longer = client.begin({"content-type": FORM, "content-length": "5"})
        client.send(longer, LIST)
        assert client.reply(longer).status in {0, 400}
        empty = client.begin({"content-type": FORM, "content-length": ""})
        client.send(empty, LIST)
        assert client.reply(empty).status in {0, 400}
        assert client.post(LIST).status == 200


def test_bodies_and_headers_have_the_limits_of_http_1(server: SocketServer) -> None:
    with Http2Client(server.port) as client:
        stream = client.begin({"content-type": FORM, "content-length": str(20 * 1_048_576)})
        client.send(stream, b"x" * 100_000, end=False)
        assert client.reply(stream).status == 413
        long = {"content-type": FORM, "content-length": "0", "x-long": "x" * 40_000}
        assert client.reply(client.begin(long, end=True)).status == 413
        too_long = {f"x-{n}": "x" * 10_000 for n in range(10)}
        assert client.reply(client.begin(too_long, end=True)).status == 431
        assert client.post(LIST).status == 200


def test_a_long_body_and_a_long_answer_come_through(server: SocketServer) -> None:
    text = "x" * 1_000_000
    body = f"Action=SendMessage&QueueUrl=orders&MessageBody={text}".encode()
    receive = b"Action=ReceiveMessage&QueueUrl=orders&WaitTimeSeconds=1"
    with Http2Client(server.port) as client:
        assert client.post(body).status == 200
        assert f"<Body>{text}</Body>".encode() in client.post(receive).body


def test_a_body_that_does_not_come_is_answered_408() -> None:
    with serving(body_read_timeout_s=SHORT_S) as server, Http2Client(server.port) as client:
        stream = client.begin({"content-type": FORM, "content-length": "100"})
        client.send(stream, b"Action=", end=False)
        assert client.reply(stream).status == 408
        assert client.post(LIST).status == 200


def test_there_are_so_many_streams_at_a_time() -> None:
    with serving(streams_max=2) as server, Http2Client(server.port) as client:
        client.receive()
        await_fact(lambda: client.h2.remote_settings.max_concurrent_streams == 2)
        assert client.post(LIST).status == 200
        waiting = [client.begin({"content-length": "9"}) for _ in range(2)]
        # h2 keeps the limit itself; so the third stream goes out behind its back.
        client.h2.remote_settings.update({3: 100})
        client.h2.remote_settings.acknowledge()
        third = client.begin({"content-type": FORM, "content-length": "0"}, end=True)
        assert client.reply(third).reset
        assert not any(client.replies[stream].ended for stream in waiting)


def test_headers_that_are_too_long_do_not_wait_for_the_body(server: SocketServer) -> None:
    with Http2Client(server.port) as client:
        for long in ({"x-long": "x" * 40_000}, {f"x-{n}-{'n' * 4000}": "" for n in range(10)}):
            stream = client.begin({"content-type": FORM, "content-length": "100", **long})
            assert client.reply(stream).status == 413
        assert client.post(LIST).status == 200


def test_bodies_that_do_not_come_are_few_beside_the_first_of_each_connection() -> None:
    with serving(more_bodies_max=2) as server, Http2Client(server.port) as greedy:
        patience = server.http.patience
        form = {"content-type": FORM, "content-length": str(len(LIST))}
        waiting = [greedy.begin(form) for _ in range(5)]
        refused = [greedy.reply(stream).status for stream in waiting[3:]]
        assert refused == [408, 408]
        with Http2Client(server.port) as modest:
            stream = modest.begin(form)
            await_fact(lambda: patience.slow_bodies == 4)
            modest.send(stream, LIST)
            assert modest.reply(stream).status == 200
        for stream in waiting[:3]:
            greedy.send(stream, LIST)
            assert greedy.reply(stream).status == 200
        assert patience.slow_bodies == 0


@pytest.mark.parametrize("start", [b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_a_connection_without_requests_ends(start: bytes) -> None:
    with (
        serving(header_read_timeout_s=SHORT_S) as server,
        socket.create_connection(("127.0.0.1", server.port), ANSWER_S_MAX) as silent,
    ):
        silent.sendall(start)
        while silent.recv(65_536):
            pass  # it tells its settings before it ends


def test_an_idle_connection_ends_and_one_that_waits_for_its_answer_does_not() -> None:
    with serving(header_read_timeout_s=SHORT_S) as server:
        server.anonymous().create_queue(QueueName="orders")
        poll = b"Action=ReceiveMessage&QueueUrl=orders&WaitTimeSeconds=3"
        with Http2Client(server.port) as idle, Http2Client(server.port) as client:
            assert idle.post(LIST).status == 200
            assert client.post(poll).status == 200
            idle.wait_for_end()
            client.wait_for_end()


def test_who_takes_nothing_of_an_answer_holds_nothing_for_long() -> None:
    with serving(send_timeout_s=1) as server:
        server.anonymous().create_queue(QueueName="orders")
        text = "x" * 1_000_000
        with Http2Client(server.port) as client:
            body = f"Action=SendMessage&QueueUrl=orders&MessageBody={text}".encode()
            assert client.post(body).status == 200
        receive = b"Action=ReceiveMessage&QueueUrl=orders"
        with Http2Client(server.port, takes=False) as client:
            client.receive()
            stream = client.begin({"content-type": FORM, "content-length": str(len(receive))})
            client.send(stream, receive)
            await_fact(lambda: server.http._answers.held_bytes > 0)
            await_fact(lambda: server.http._answers.held_bytes == 0)
            assert client.replies[stream].body == b""


def test_a_server_stops_while_connections_are_open() -> None:
    with serving(grace_s=60) as server:
        open_ones = [Http2Client(server.port) for _ in range(3)]
        assert open_ones[0].post(LIST).status == 200
        began_s = time.monotonic()
    assert time.monotonic() - began_s < ANSWER_S_MAX
    for client in open_ones:
        client.wait_for_end()
        client.socket.close()


@pytest.mark.parametrize("protocols", [["h2", "http/1.1"], ["http/1.1"], []])
def test_over_tls_the_client_chooses(protocols: list[str], tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    with serving(tls=TlsFiles(made.certificate, made.key)) as server:
        context = ssl.create_default_context(cafile=made.authority)
        if protocols:
            context.set_alpn_protocols(protocols)
        if "h2" in protocols:
            with Http2Client(server.port, context) as client:
                assert client.post(LIST).status == 200
            return
        plain = socket.create_connection(("127.0.0.1", server.port), ANSWER_S_MAX)
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            assert connection.selected_alpn_protocol() in {"http/1.1", None}
            connection.sendall(b"GET /?Action=ListQueues HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")

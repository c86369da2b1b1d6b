"""Webhooks: bounded time, no redirects, nothing of the answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from socket import create_server, socket

import pytest

from control_plane.webhooks import post


@contextmanager
def listening(answer: Callable[[socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server that reads a request, and then does that; and what it has read."""
    heard: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with closing(connection), suppress(OSError):
                    content = b""
                    while not content.endswith(b"}"):
                        content += connection.recv(65_536)
                    heard.append(content)
                    answer(connection)

    with create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook", heard
        server.close()


def answering(text: bytes) -> Callable[[socket], None]:
    return lambda connection: connection.sendall(text)


def test_a_call_posts_json_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with listening(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as (url, heard):
        assert post(url, b'{"a":1}') == ""
    (request,) = heard
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook HTTP/1.1\r\n")
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
    assert names == {b"host", b"accept-encoding", b"content-length", b"content-type"}
    assert body == b'{"a":1}'


def test_redirects_are_not_followed() -> None:
    with listening(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as (inner, heard_inner):
        redirect = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {inner}\r\n\r\n".encode()
        with listening(answering(redirect)) as (url, heard):
            assert post(url, b"{}") == "webhook of 127.0.0.1: it answers 307"
        assert len(heard) == 1
        assert heard_inner == []


def test_who_does_not_answer_is_left() -> None:
    def silent(connection: socket) -> None:
        connection.recv(1)

    with listening(silent) as (url, _):
        told = post(url, b"{}", step_s=0.2)
    assert told == "webhook of 127.0.0.1: TimeoutError"


def test_who_answers_byte_by_byte_is_cut_off() -> None:
    slowly, ended = threading.Event(), threading.Event()

    def drip(connection: socket) -> None:
        for _ in range(1000):  # 20 s at least
            connection.sendall(b"H")
            slowly.wait(0.02)
        ended.set()

    with listening(drip) as (url, _):
        assert post(url, b"{}", step_s=60, call_s=0.3).startswith("webhook of 127.0.0.1: ")
        assert not ended.is_set(), "it was waited for"


@pytest.mark.parametrize("text", [b"nonsense\r\n\r\n", b"", b"HTTP/1.1 500 No\r\n\r\n"])
def test_wrong_answers_are_failures(text: bytes) -> None:
    with listening(answering(text)) as (url, _):
        assert post(url, b"{}").startswith("webhook of 127.0.0.1: ")


def test_nobody_there() -> None:
    assert post("http://127.0.0.1:1/hook", b"{}") == "webhook of 127.0.0.1: ConnectionRefusedError"

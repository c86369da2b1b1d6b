"""Who waits for what the server says when it is ready is never refused a connection."""

import json
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.certificates import make_certificates
from tests.integration.server_process import ServerProcess
from tests.integration.socket_server import SocketServer

STARTS = 50


def test_the_first_connection_is_made_as_soon_as_it_starts() -> None:
    server = Connecting()
    try:
        assert server.connected
    finally:
        server.close()


class Connecting(SocketServer):
    """Connects in the very moment in which it says that it has started."""

    connected = False

    def started(self) -> Callable[[], None]:
        report = super().started()

        def connect() -> None:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60):
                self.connected = True
            report()

        return connect


def start_and_connect(folder: Path) -> None:
    """Connect when the line `started` comes, and be answered."""
    folder.mkdir()
    reader, writer = os.pipe()
    server = ServerProcess(folder / "data", folder / "log", port=0, stderr=writer)
    with ThreadPoolExecutor() as pool, os.fdopen(reader, "rb") as log:
        starting = pool.submit(server.start)
        for line in log:
            said = json.loads(line)
            if said["event"] == "started":
                break
        address = urlsplit(said["url"])
        with socket.create_connection(("127.0.0.1", address.port or 0), timeout=60) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        starting.result()
        os.close(writer)
        server.stop(signal.SIGKILL)


@pytest.mark.nightly
def test_no_connection_is_refused_from_the_line_started_on(tmp_path: Path) -> None:
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(start_and_connect, (tmp_path / str(number) for number in range(STARTS))))


@pytest.mark.parametrize("kind", ["plain", "tls", "several cells"])
def test_port_0_is_one_that_is_free_and_is_said_everywhere(tmp_path: Path, kind: str) -> None:
    options: tuple[str, ...] = ()
    authority = None
    if kind == "tls":
        made = make_certificates(tmp_path)
        options = ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))
        authority = made.authority
    elif kind == "several cells":
        options = ("--cells", "3")
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", 0, options=options, auth="on", authority=authority
    )
    server.start()
    try:
        assert server.port != 0
        assert f" on {server.url}, " in server.greeting
        queue = server.client().create_queue(QueueName="orders")["QueueUrl"]
        assert queue == f"{server.url}/000000000000/orders"
    finally:
        server.stop()
    said = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line["url"] for line in said if line["event"] == "started"] == [server.url]

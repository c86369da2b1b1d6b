"""Spoilt requests over sockets, to a server on the embedded cell: no 5xx, and it goes on."""

import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from data_plane.protocol.http import HttpRequest
from tests.conformance.raw_calls import PROTOCOLS, Bench, json_request
from tests.integration.server_process import ServerProcess
from tests.property.request_corpus import QUEUES, Corpus

REQUESTS = 400
HANDLES = dict.fromkeys([*QUEUES, "task"], "A" * 64)


def written(request: HttpRequest) -> bytes:
    """The request as bytes, whatever its parts are."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    headers = {
        **request.headers,
        "content-length": str(len(request.body)),
        "connection": "close",
    }
    lines = [f"{request.method} {target} HTTP/1.1"]
    lines += [f"{name}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape") + request.body


def status_of(server: ServerProcess, request: HttpRequest) -> int:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(written(request))
        with connection.makefile("rb") as answer:
            version, status, *_ = answer.readline().split()
            answer.read()
    assert version == b"HTTP/1.1"
    return int(status)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """One that goes by the name that the requests have."""
    named = ("--allowed-hosts", "queues.example")
    started = ServerProcess(tmp_path / "data", tmp_path / "log", options=named)
    started.start()
    yield started
    started.kill()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_request_breaks_a_server(server: ServerProcess, protocol: str) -> None:
    for name in QUEUES:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        create = {"QueueName": name, "Attributes": attributes if ".fifo" in name else {}}
        assert status_of(server, json_request("CreateQueue", create)) == 200
    bench = Bench(protocol)
    corpus = Corpus(Random(1), protocol, bench.operations, HANDLES)
    requests = [corpus.wrong() for _ in range(REQUESTS)]
    bench.close()
    statuses = [
        status_of(server, request)
        for request in requests
        if b"WaitTime" not in request.body  # nobody is to wait for a message here
    ]
    assert max(statuses) < 500
    assert len(set(statuses)) > 2
    assert server.get("/health")[0] == 200
    assert server.stop() == 0
    assert '"traceback"' not in server.log.read_text()

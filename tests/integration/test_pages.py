"""Pages beside the API: who gets them, and what is told where one fails."""

import asyncio
import http.client
from collections.abc import Mapping
from typing import Any

import pytest

from data_plane.protocol.http import HttpResponse
from tests.integration.socket_server import SocketServer


async def well(_headers: Mapping[str, str], _client: str) -> HttpResponse:
    return HttpResponse(200, (), b"well")


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/health", 200, b"well"),
        ("HEAD", "/health", 200, b""),
        ("POST", "/health", 404, b"<UnknownOperationException/>"),
        ("GET", "/health/", 404, b"<UnknownOperationException/>"),
        ("GET", "//health", 404, b"<UnknownOperationException/>"),
    ],
)
def test_pages_are_for_who_looks(method: str, path: str, status: int, body: bytes) -> None:
    server = SocketServer({"/health": well})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (status, body)
    connection.close()
    server.close()


async def failing(_headers: Mapping[str, str], _client: str) -> HttpResponse:
    raise ZeroDivisionError("a secret")


def test_a_page_that_fails_is_told_to_whom_the_loop_tells_it() -> None:
    told: list[dict[str, Any]] = []

    async def listen() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    server = SocketServer({"/health": failing})
    server.run(listen())
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (500, b"")
    connection.close()
    server.close()
    (context,) = told
    assert isinstance(context["exception"], ZeroDivisionError)

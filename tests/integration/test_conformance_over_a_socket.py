"""The conformance tests once more, with a real HTTP server and sockets in between."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from data_plane.http.server import HttpServer, HttpSettings
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_message_errors import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_queues import *  # noqa: F403 - its tests are run here

_HOST = "127.0.0.1"
_BODY_BYTES_MAX = 8 << 20


class SocketServer(InProcessServer):
    """The same server behind HTTP, on a port of its own."""

    def __init__(self) -> None:
        super().__init__()
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port = probe.getsockname()[1]
        self.endpoint = f"http://{_HOST}:{port}"
        settings = HttpSettings(_HOST, port, _BODY_BYTES_MAX)
        self._http = HttpServer(self.front_end.answer, {}, settings)
        self._stop: asyncio.Event
        self._serving: asyncio.Task[bool]
        self.run(self._start(port))

    def close(self) -> None:
        self.run(self._end())
        super().close()

    def _connect(self, client: Any) -> None:
        """Clients find the socket by themselves."""

    async def _start(self, port: int) -> None:
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self._http.serve(self._stop))
        while not self._serving.done():
            try:
                _, writer = await asyncio.open_connection(_HOST, port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
        await self._serving

    async def _end(self) -> None:
        self._stop.set()
        await self._serving


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    started = SocketServer()
    yield started
    started.close()
    failures = [served.exception for served in started.served if served.exception]
    assert failures == [], "the server answered with an internal error"


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Iterator[Any]:
    client = server.client(request.param)
    yield client
    client.close()

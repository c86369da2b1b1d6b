"""The conformance tests of FIFO queues once more, over HTTP and a socket."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer
from tests.conformance.test_fifo_order import *  # noqa: F403 - its tests are run here
from tests.conformance.test_fifo_sends import *  # noqa: F403 - its tests are run here
from tests.integration.socket_server import SocketServer


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with SocketServer() as started:
        yield started


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Iterator[Any]:
    client = server.client(request.param)
    yield client
    client.close()

"""The conformance tests once more, with a real HTTP server and sockets in between."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_message_errors import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_queues import *  # noqa: F403 - its tests are run here
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

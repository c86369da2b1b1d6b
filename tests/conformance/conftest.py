"""One server per test, and clients of both protocols."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    started = InProcessServer()
    yield started
    started.close()
    failures = [served.exception for served in started.served if served.exception]
    assert failures == [], "the server answered with an internal error"


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param)

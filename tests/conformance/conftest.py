"""One server per test, on an event loop and on the blocking driver; clients of both protocols."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    if request.param not in RUNNERS:
        pytest.skip(f"for a front end on the {request.param}")
    started = InProcessServer(RUNNERS[request.param])
    yield started
    started.close()
    failures = [served.exception for served in started.served if served.exception]
    assert failures == [], "the server answered with an internal error"


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param)

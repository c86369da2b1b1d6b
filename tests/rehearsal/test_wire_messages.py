"""The message operations through boto3, over a DynamoDB cell on every engine that can be had."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from data_plane.dynamodb.opening import connect
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_two_front_ends import *  # noqa: F403 - its tests are run here
from tests.rehearsal.conftest import EACH_ENGINE, EngineUrl
from tests.rehearsal.emulators import ENGINES, REGION


@pytest.fixture(scope="module")
def client_of(engine_url: EngineUrl) -> Callable[[str], Any]:
    """The cell's client of an engine."""
    return cache(lambda engine: connect(engine_url(engine), REGION, connections_max=1))


@pytest.fixture(params=EACH_ENGINE)
def server(
    request: pytest.FixtureRequest, client_of: Callable[[str], Any]
) -> Iterator[InProcessServer]:
    # A test that wants an event loop says so here; this always is one.
    engine = request.param if request.param in ENGINES else ENGINES[0]
    with serving_on_dynamodb(client_of(engine)) as started:
        yield started


@pytest.fixture
def sqs(server: InProcessServer) -> Any:
    return server.client("json")

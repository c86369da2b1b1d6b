"""The message operations through boto3 once more, over a DynamoDB cell on moto in this process."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_two_front_ends import *  # noqa: F403 - its tests are run here


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield connect("", "us-east-1", connections_max=1)


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest, dynamodb: Any) -> Iterator[InProcessServer]:
    with serving_on_dynamodb(dynamodb, RUNNERS[request.param]) as started:
        yield started
    failures = [served.exception for served in started.served if served.exception]
    assert failures == [], "the server answered with an internal error"


@pytest.fixture
def sqs(server: InProcessServer) -> Any:
    return server.client("json")

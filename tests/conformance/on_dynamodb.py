"""Fixtures for suites that are run once more, on a DynamoDB cell on moto: imported by those.

Under the blocking driver, as a Lambda function has it; other tests have the event loop.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import OneAfterTheOther


@pytest.fixture
def server(dynamodb: Any) -> Iterator[InProcessServer]:
    with serving_on_dynamodb(dynamodb, OneAfterTheOther) as started:
        yield started


@pytest.fixture
def sqs(server: InProcessServer) -> Any:
    return server.client("json")

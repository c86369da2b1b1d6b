"""Clients of both protocols once more, through the doors of Lambda: each through one of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_queues import *  # noqa: F403 - its tests are run here
from tests.conformance.through_a_door import *  # noqa: F403 - its fixture

del test_a_long_poll_ends_with_its_queue  # noqa: F821 - imported; of front ends that serve many calls

PROTOCOLS = {"rest": "query", "url": "json"}


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as started:
        yield started


@pytest.fixture
def sqs(server: InProcessServer, door: str) -> Any:
    return server.client(PROTOCOLS[door])

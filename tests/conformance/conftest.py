"""One server per test, on an event loop and on the blocking driver; clients of both protocols."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import EVERYWHERE, RUNNERS

BESIDE_DOORS = {
    "a_long_poll_ends_with_its_queue": "a sandbox serves one call at a time",
    "broken_escapes": "a gateway decodes queries itself",
    "conditions_see_the_connection": "it signs headers that doors set themselves",
    "has_the_name_under_which_it_is_asked_for": "doors say themselves how they were called",
    "json_is_posted": "a gateway knows seven methods",
    "requests_without_an_action": "as above",
    "the_size_of_a_body": "Lambda takes less than the front end",
    "the_sizes_of_address_and_headers": "doors add headers of their own",
    "targets_that_name_no_operation": "doors refuse headers that are not ASCII, as the server does",
    "test_encryption.py": "an embedded cell is no function's",
}
"""What says nothing about a door, by a part of its name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in BESIDE_DOORS.items():
            if EVERYWHERE and name in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"says nothing about a door: {reason}"))


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    """A client of DynamoDB as moto plays it in this process."""
    with mock_aws():
        yield connect("", "us-east-1", connections_max=1)


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    with InProcessServer(RUNNERS[request.param]) as started:
        yield started


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, server: InProcessServer) -> Any:
    return server.client(request.param)

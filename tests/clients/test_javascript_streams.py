"""Streams by the AWS SDK for JavaScript v3 on Node, unmodified, over HTTP/2."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess

Scenario = Callable[[str], dict[str, Any]]


@pytest.fixture
def run(node: Callable[..., dict[str, Any]], server: ServerProcess, queue_name: str) -> Scenario:
    """Run a scenario on an empty stream of two shards; what it saw."""
    return lambda name: node("javascript_streams.cjs", name, server.url, queue_name)


def test_a_record_comes_back_as_it_was_put(run: Scenario) -> None:
    every_byte = bytes(range(256)).hex()
    assert run("round_trip") == {
        "protocol": "h2",
        "records": 1,
        "same_number": True,
        "key": "schlüssel",
        "data": every_byte,
        "arrived_near": True,
        "behind": 0,
        "since": [every_byte],
    }


def test_five_hundred_records_in_a_call(run: Scenario) -> None:
    seen = run("batch")
    assert (seen["failed"], seen["answered"]) == (0, 500)
    assert seen["found"] == list(range(500))


def test_a_reader_goes_on_in_what_a_shard_became(run: Scenario) -> None:
    assert run("split") == {"moved": True, "texts": ["before", "after"]}


def test_errors_are_instances_of_their_classes(run: Scenario) -> None:
    for name, error in run("errors").items():
        told = (error["class"], error["name"], error["status"], error["fault"], error["attempts"])
        assert told == (name, name, 400, "client", 1)
        assert error["of_the_service"]


def test_a_hundred_calls_share_a_connection(run: Scenario) -> None:
    assert run("at_once") == {"stored": 100}

"""Queues over streams once more, over a DynamoDB cell on moto in this process.

Under the blocking driver, as a Lambda function has it; other tests have the event loop.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import OneAfterTheOther
from tests.conformance.test_queues_over_streams import (  # noqa: F401 - these are run here
    fifo,
    kinesis,
    queue,
    test_a_front_end_that_begins_anew_knows_what_is_deleted,
    test_a_purge_concerns_the_queue_alone,
    test_a_repeated_receive_attempt_gets_the_same,
    test_counts_are_those_of_the_stream_without_what_is_deleted,
    test_it_begins_at_a_time,
    test_it_begins_behind_what_is_there_unless_told_otherwise,
    test_order_holds_over_calls_of_many_records,
    test_parents_come_before_children,
    test_two_front_ends_share_a_queue,
    test_what_is_received_too_often_becomes_a_dead_letter,
    test_what_the_stream_forgets_is_no_message,
)


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield connect("", "us-east-1", connections_max=1)


@pytest.fixture
def server(dynamodb: Any) -> Iterator[InProcessServer]:
    with serving_on_dynamodb(dynamodb, OneAfterTheOther) as started:
        yield started
    failures = [served.exception for served in started.served if served.exception]
    assert failures == [], "the server answered with an internal error"

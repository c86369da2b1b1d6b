"""Consumer groups once more, over a DynamoDB cell on moto in this process.

Under the blocking driver, as a Lambda function has it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import OneAfterTheOther
from tests.conformance.test_consumer_groups import (  # noqa: F401 - these are run here
    group,
    kinesis,
    test_a_call_that_an_sdk_repeats_joins_once,
    test_a_group_is_made_listed_and_removed,
    test_a_member_that_leaves_gives_up_all_at_once,
    test_a_shard_is_handed_over_when_it_is_given_up,
    test_an_instance_comes_back_and_keeps_its_shards,
)
from tests.conformance.test_group_offsets import (  # noqa: F401 - these are run here
    test_a_group_without_members_is_reset,
    test_children_wait_for_their_parents,
    test_commits_do_not_go_back,
    test_expired_records_are_no_lag,
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

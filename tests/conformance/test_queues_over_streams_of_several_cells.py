"""Queues over streams once more, on a service of three cells: a shard is a chain there."""

from collections.abc import Iterator

import pytest

from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS
from tests.conformance.test_queues_over_streams import (  # noqa: F401 - these are run here
    fifo,
    kinesis,
    queue,
    test_a_repeated_receive_attempt_gets_the_same,
    test_counts_are_those_of_the_stream_without_what_is_deleted,
    test_each_record_is_received_once_and_is_gone_when_deleted,
    test_it_begins_at_a_time,
    test_it_begins_behind_what_is_there_unless_told_otherwise,
    test_it_can_be_browsed,
    test_order_holds_over_calls_of_many_records,
    test_parents_come_before_children,
    test_what_is_not_deleted_comes_again,
    test_what_is_received_too_often_becomes_a_dead_letter,
)


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    with InProcessServer(RUNNERS[request.param], cells=3) as started:
        yield started

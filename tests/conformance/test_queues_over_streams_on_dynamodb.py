"""Queues over streams once more, on a DynamoDB cell."""

from tests.conformance.on_dynamodb import *  # noqa: F403 - its fixtures
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

"""Queues of the Kinesis API once more, over a DynamoDB cell on moto in this process.

Under the blocking driver, as a Lambda function has it; other tests have the event loop.
"""

from tests.conformance.on_dynamodb import *  # noqa: F403 - its fixtures
from tests.conformance.test_kinesis_queues import (  # noqa: F401 - these are run here
    kinesis,
    queue,
    strict,
    test_a_record_dies_when_its_last_receive_ends,
    test_a_restored_record_begins_anew,
    test_another_front_end_finds_dead_letters,
    test_each_record_is_delivered_and_is_gone_when_acknowledged,
    test_entries_succeed_and_fail_by_themselves,
    test_records_of_parents_and_children_all_come,
    test_two_front_ends_share_a_queue,
    test_what_the_stream_forgets_is_gone,
    test_what_was_acknowledged_never_comes_back,
)

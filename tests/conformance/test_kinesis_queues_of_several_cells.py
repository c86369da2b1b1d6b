"""Queues of the Kinesis API once more, on a service of three cells: a shard is a chain there."""

from tests.conformance.test_kinesis_queues import (  # noqa: F401 - these are run here
    kinesis,
    queue,
    strict,
    test_a_deleted_queue_delivers_nothing,
    test_a_handle_is_good_until_its_record_is_received_again,
    test_a_record_that_is_shown_dies_at_once,
    test_a_restored_record_begins_anew,
    test_dead_letters_hold_up_nobody,
    test_each_record_is_delivered_and_is_gone_when_acknowledged,
    test_handles_are_of_one_kind,
    test_records_of_parents_and_children_all_come,
    test_what_is_not_acknowledged_comes_again,
)
from tests.conformance.test_queues_over_streams_of_several_cells import server  # noqa: F401

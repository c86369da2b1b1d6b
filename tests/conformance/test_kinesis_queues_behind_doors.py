"""Queues of the Kinesis API once more, through the doors of Lambda."""

from tests.conformance.test_door_clients import server  # noqa: F401 - its fixture
from tests.conformance.test_kinesis_queues import (  # noqa: F401 - these are run here
    kinesis,
    queue,
    strict,
    test_a_receive_waits_for_what_comes,
    test_a_restored_record_begins_anew,
    test_each_record_is_delivered_and_is_gone_when_acknowledged,
    test_entries_succeed_and_fail_by_themselves,
)
from tests.conformance.through_a_door import door  # noqa: F401 - likewise

"""Moto's tests of SQS: what does not hold here is listed with its reason, and nothing else is.

Where moto and AWS differ we do as AWS; where a text of AWS was seen is told in docs/errors.md.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.conformance.moto_tests import FETCHED, holds_or_is_listed, moto_tests

pytestmark = FETCHED

_SPACE: Final = "AWS refuses `VisibilityTimeout ` with its space; moto leaves it out without a word"
_POLICY: Final = "AWS refuses a statement that names no resource"
_FALSE: Final = "AWS refuses FifoQueue on a standard queue, whatever its value"
_URL: Final = "names the hosts of AWS; ours is that of the caller"
_HANDLE: Final = "AWS names the handle that is not valid"
_INNER: Final = "looks into moto's memory"

DIFFERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "sqs.test_change_message_visibility",
            "sqs.test_delete_batch_operation",
            "sqs.test_delete_message_after_visibility_timeout",
            "sqs.test_message_becomes_inflight_when_received",
            "sqs.test_queue_length",
            "sqs.test_receive_message_with_explicit_visibility_timeout",
        ),
        _SPACE,
    ),
    "sqs.test_create_queue_with_policy": _POLICY,
    "sqs.test_set_queue_attribute_empty_policy_removes_attr": _POLICY,
    "sqs.test_create_fifo_queue_with_dlq": _FALSE,
    "sqs.test_create_queue_with_different_attributes_fail": _FALSE,
    "sqs.test_create_queues_in_multiple_region": _URL,
    "sqs.test_get_queue_with_prefix": _URL,
    "sqs.test_change_message_visibility_on_unknown_receipt_handle": _HANDLE,
    "sqs.test_delete_message_errors": _HANDLE,
    **{f"sqs.test_set_attributes_integer_fields_conversion[{n}]": _INNER for n in range(1, 7)},
    "sqs.test_fifo_queue_send_duplicate_messages_after_deduplication_time_limit": (
        "shortens moto's window of deduplication to a second; AWS's is five minutes"
    ),
    "sqs.test_purge_queue_twice_allowed_when_strict_behaviour_disabled": (
        "lets moto purge twice within 60 s; AWS does not"
    ),
    "sqs.test_message_retention_period": "AWS refuses a retention of less than a minute",
    "sqs.test_create_fifo_queue_invalid_name[1]": (
        "an empty name has words of its own; those of AWS were not seen"
    ),
    "sqs.test_message_with_attributes_invalid_datatype": "AWS lists the types in other words",
    "sqs.test_message_with_invalid_attributes": "AWS takes letters of every script in names",
    "sqs.test_add_permission_errors": "AWS says what it could not verify: the principal",
    "sqs.test_remove_permission_errors": "AWS says no more than that it can't find the label",
    "sqs.test_permissions": "AWS writes such policies in the version of 2008",
    "sqs.test_message_delay_is_more_than_15_minutes": (
        "AWS refuses a MessageDeduplicationId on a standard queue"
    ),
    "sqs.test_send_messages_to_fifo_without_message_group_id": (
        "AWS answers InvalidParameterValue to a batch, MissingParameter to a single message"
    ),
}
"""By test, why it does not hold."""

TESTS: Final = moto_tests("sqs")


@pytest.mark.parametrize("name", sorted(TESTS) or [""])
def test_what_moto_expects_holds_or_is_listed(name: str) -> None:
    holds_or_is_listed(name, TESTS[name], DIFFERS)


def test_every_one_that_is_listed_is_there() -> None:
    assert DIFFERS.keys() <= TESTS.keys()
    assert len(TESTS) == 164

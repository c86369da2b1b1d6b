"""Moto's tests of Kinesis: what does not hold here is listed with its reason, and nothing else is.

Where moto and AWS differ we do as AWS (docs/streams.md); what AWS was seen to do is told there.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.conformance.moto_tests import FETCHED, holds_or_is_listed, moto_tests

pytestmark = FETCHED

_NUMBERS: Final = "moto counts 1, 2, 3; AWS's sequence numbers have 56 digits"
_FUTURE: Final = "AWS refuses a time that is to come"
_ORDER: Final = (
    "its splits and merges are other ones; the shards that are open at the end are equal"
)
_NO_MONITORING: Final = "not there yet: enhanced monitoring"
_NO_CONSUMERS: Final = "not there yet: consumers"
_NAMED: Final = "AWS names the stream, not its ARN"
_NO_CLOUDWATCH: Final = "needs moto's CloudWatch"

DIFFERS: Final[Mapping[str, str]] = {
    "kinesis.test_list_many_streams": "moto lists 10 streams a page, AWS 100",
    "kinesis.test_get_invalid_shard_iterator": "AWS names shard 123 shardId-000000000123",
    "kinesis.test_put_records": _NUMBERS,
    "kinesis.test_get_records_after_sequence_number": _NUMBERS,
    "kinesis.test_get_records_latest": "AWS refuses LATEST with a sequence number",
    "kinesis.test_get_records_at_very_new_timestamp": _FUTURE,
    "kinesis.test_invalid_shard_iterator_type": "AWS lists the types that there are",
    "kinesis.test_merge_shards_invalid_arg": "AWS says why, not only which shard",
    "kinesis_boto3.test_list_shards_paging": "AWS refuses a token beside the stream's name",
    "kinesis_boto3.test_split_shard_hashkey_out_of_bounds": "moto prints the end less one",
    "kinesis_boto3.test_update_shard_count[10-13-37]": _ORDER,
    "kinesis_boto3.test_update_shard_count[5-3-7]": _ORDER,
    "kinesis_boto3.test_update_shard_count[10-3-17]": "AWS refuses fewer than half",
    "kinesis_boto3.test_describe_limits": "quotas of accounts are the service's own",
    **dict.fromkeys(
        (
            "kinesis_monitoring.test_enable_enhanced_monitoring_all",
            "kinesis_monitoring.test_enable_enhanced_monitoring_is_persisted",
            "kinesis_monitoring.test_enable_enhanced_monitoring_in_steps",
            "kinesis_monitoring.test_disable_enhanced_monitoring",
            "kinesis_monitoring.test_disable_enhanced_monitoring_all",
        ),
        _NO_MONITORING,
    ),
    "kinesis_monitoring.test_put_record_sends_basic_stream_metrics": _NO_CLOUDWATCH,
    "kinesis_monitoring.test_put_records_sends_aggregated_stream_metrics": _NO_CLOUDWATCH,
    "kinesis_resource_policy.test_get_resource_policy_from_unknown_resource": _NAMED,
    "kinesis_resource_policy.test_delete_resource_policy_from_unknown_resource": _NAMED,
    "kinesis_resource_policy.test_delete_resource_policy_from_resource_without_policy": (
        "the words of AWS were not seen"
    ),
    **dict.fromkeys(
        (
            "kinesis_stream_consumers.test_list_stream_consumers",
            "kinesis_stream_consumers.test_list_stream_consumers_paginated",
            "kinesis_stream_consumers.test_register_stream_consumer",
            "kinesis_stream_consumers.test_describe_stream_consumer_by_name",
            "kinesis_stream_consumers.test_describe_stream_consumer_by_arn",
            "kinesis_stream_consumers.test_describe_stream_consumer_unknown",
            "kinesis_stream_consumers.test_deregister_stream_consumer_by_name",
            "kinesis_stream_consumers.test_deregister_stream_consumer_by_arn",
        ),
        _NO_CONSUMERS,
    ),
    "kinesis_stream_limits.test_total_record_data_exceeds_5mb": "a call may have 10 MiB by now",
    "kinesis_stream_limits.test_too_many_records": "the list stands in the message, as AWS says it",
}
"""By test, why it does not hold."""

TESTS: Final = moto_tests("kinesis")


@pytest.mark.parametrize("name", sorted(TESTS) or [""])
def test_what_moto_expects_holds_or_is_listed(name: str) -> None:
    holds_or_is_listed(name, TESTS[name], DIFFERS)


def test_every_one_that_is_listed_is_there() -> None:
    assert DIFFERS.keys() <= TESTS.keys()
    assert len(TESTS) == 82

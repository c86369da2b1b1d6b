"""Consumer groups once more, on a DynamoDB cell."""

from tests.conformance.on_dynamodb import *  # noqa: F403 - its fixtures
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

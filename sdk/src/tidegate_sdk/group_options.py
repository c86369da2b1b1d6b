"""What a member of a group is made with: a mistake there shows when it is made."""

from typing import Any

from tidegate_sdk.group_reading import RECORDS_MAX
from tidegate_sdk.group_shards import CommitPolicy
from tidegate_sdk.long_poll import WAIT_S_MAX
from tidegate_sdk.option_checks import check_seconds, check_text, check_whole


def check_names(client: Any, group: object, instance_id: object) -> None:
    """Raises TypeError, ValueError."""
    if not hasattr(client, "tidegate_group_heartbeat"):
        raise TypeError('make the client with tidegate_sdk.client(url, "kinesis")')
    check_text("group", group)
    if instance_id is not None:
        check_text("instance_id", instance_id)


def check_work(commits: object, workers: object, records_max: object, wait_s: object) -> None:
    """Raises TypeError, ValueError."""
    check_whole("workers", workers, 1)
    check_whole("records_max", records_max, 1, RECORDS_MAX)
    check_whole("wait_s", wait_s, 0, WAIT_S_MAX)
    if not isinstance(commits, CommitPolicy):
        raise TypeError(f"commits is COMMIT_AFTER, or one of its like, not {commits!r}")
    check_seconds("commits.every_s", commits.every_s)

"""Amazon Resource Names of queues."""

from typing import Final, NamedTuple

from data_plane.core.identifiers import is_account, is_queue_name, is_region
from data_plane.core.partitions import AWS, arn_of

_PARTS: Final = 6


class QueueName(NamedTuple):
    """Where a queue is to be found."""

    account: str
    region: str
    name: str


def read_queue_arn(arn: str) -> QueueName | None:
    """The queue that an ARN names; None where it names none, or not in its region's partition."""
    parts = arn.split(":")
    if len(parts) != _PARTS:
        return None
    _, _, _, region, account, name = parts
    if not (is_region(region) and is_account(account) and is_queue_name(name)):
        return None
    return QueueName(account, region, name) if arn == arn_of("sqs", *parts[3:]) else None


def of_today(arn: str) -> str:
    """An ARN that was kept; before 0.2 they had the partition `aws` in all regions."""
    parts = arn.split(":")
    return arn_of("sqs", *parts[3:]) if len(parts) == _PARTS and parts[1] == AWS else arn

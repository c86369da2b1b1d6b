"""Amazon Resource Names of queues."""

from typing import Final, NamedTuple

from data_plane.core.identifiers import is_account, is_queue_name, is_region

_PARTS: Final = 6


class QueueName(NamedTuple):
    """Where a queue is to be found."""

    account: str
    region: str
    name: str


def read_queue_arn(arn: str) -> QueueName | None:
    """The queue that an ARN names, or None where it names none."""
    parts = arn.split(":")
    if len(parts) != _PARTS or parts[0] != "arn" or parts[2] != "sqs":
        return None
    _, _, _, region, account, name = parts
    if not (is_region(region) and is_account(account) and is_queue_name(name)):
        return None
    return QueueName(account, region, name)

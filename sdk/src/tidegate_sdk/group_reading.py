"""How a member of a consumer group reads a shard, and which failures of that pass by themselves."""

from typing import Any, Final

from tidegate_sdk.failures import code_of, is_passing
from tidegate_sdk.group_shards import HeldShard

RECORDS_MAX: Final = 10_000
"""Of GetRecords: its Limit."""

_PASSING_READS: Final = frozenset({"ExpiredIteratorException", "ResourceNotFoundException"})
_PASSING_ITERATORS: Final = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})


def read(client: Any, shard: HeldShard, records_max: int, wait_s: int) -> dict[str, Any]:
    """The next page of a shard, as GetRecords has it."""
    if not shard.iterator:
        shard.iterator = client.get_shard_iterator(
            StreamARN=shard.name.stream_arn, ShardId=shard.name.shard_id, **shard.position
        )["ShardIterator"]
    page: dict[str, Any] = client.get_records(
        ShardIterator=shard.iterator,
        StreamARN=shard.name.stream_arn,
        Limit=records_max,
        TidegateWaitTimeSeconds=wait_s,
    )
    return page


def behind(number: str) -> dict[str, str]:
    """The position behind a record, as GetShardIterator takes it."""
    return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": number}


def is_passing_read(shard: HeldShard, error: Exception) -> bool:
    """Whether the shard may be read later, as `is_passing` has it, or by what the group tells.

    A stream that is gone, or made anew, the group tells of. Until then there is no iterator at a
    position that the group told, or that a record had.
    """
    passing = _PASSING_READS if shard.iterator else _PASSING_ITERATORS
    return is_passing(error) or code_of(error) in passing

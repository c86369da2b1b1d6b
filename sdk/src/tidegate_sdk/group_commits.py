"""How a member of a consumer group commits, and what the failures of that mean."""

from typing import Any, Final

from botocore.exceptions import ClientError

from tidegate_sdk.group_shards import HeldShard, ShardLostError

_LOST: Final = frozenset(
    {"TidegateStaleAssignment", "ResourceNotFoundException", "InvalidArgumentException"}
)
"""The last two where its stream is gone, or another one by now."""


def commit(client: Any, group: str, member_id: str, shard: HeldShard, number: str) -> None:
    """Raises what the client raises, ShardLostError, or a ClientError of the shard alone."""
    answer = client.tidegate_commit_offsets(
        GroupName=group,
        MemberId=member_id,
        Entries=[{**shard.address, "SequenceNumber": number}],
    )
    for failed in answer.get("Failed", ()):
        code, message = failed["ErrorCode"], failed.get("ErrorMessage", "")
        if code in _LOST:
            raise ShardLostError(f"{code}: {message}")
        said: Any = {"Error": {"Code": code, "Message": message}}
        raise ClientError(said, "TidegateCommitOffsets")

"""Streams and shards as clients see them."""

from typing import Any

from control_plane.core import shard_map
from control_plane.core.stream_definition import ON_DEMAND, StreamDefinition
from data_plane.core import sequence_number
from data_plane.core.stream import NO_SHARD, Shard, Stream
from data_plane.operations.get_records import hash_key_range
from data_plane.operations.stream_address import shard_id


def summary(definition: StreamDefinition, now_us: int, queues: int) -> dict[str, Any]:
    """A StreamDescriptionSummary; so many queues read the stream."""
    distribution = {"RecordDistributionStrategy": strategy(spreads=definition.spreads)}
    return {
        **_common(definition, now_us),
        "OpenShardCount": sum(shard.is_open for shard in definition.shards),
        "ConsumerCount": 0,
        "QueueCount": queues,
        "MaxRecordSizeInKiB": definition.record_kib_max,
        **(distribution if definition.mode == ON_DEMAND else {}),
    }


def description(
    definition: StreamDefinition, shards: list[Shard], now_us: int, *, has_more: bool
) -> dict[str, Any]:
    """A StreamDescription with these of its shards."""
    return {
        **_common(definition, now_us),
        "Shards": [shard_description(shard) for shard in shards],
        "HasMoreShards": has_more,
    }


def _common(definition: StreamDefinition, now_us: int) -> dict[str, Any]:
    key = definition.master_key_id
    return {
        "StreamName": definition.name,
        "StreamARN": definition.arn,
        "StreamStatus": definition.status_at(now_us),
        "StreamModeDetails": {"StreamMode": definition.mode},
        "RetentionPeriodHours": definition.retention_hours,
        "StreamCreationTimestamp": definition.created_ms,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "KMS" if key else "NONE",
        **({"KeyId": key} if key else {}),
    }


def shard_description(shard: Shard) -> dict[str, Any]:
    """A Shard; one that is open has no ending sequence number."""
    numbers = {"StartingSequenceNumber": sequence_number.starting(shard)}
    if not shard.is_open:
        numbers["EndingSequenceNumber"] = sequence_number.ending(shard)
    output: dict[str, Any] = {
        "ShardId": shard_id(shard.number),
        "HashKeyRange": hash_key_range(shard),
        "SequenceNumberRange": numbers,
    }
    if shard.parent != NO_SHARD:
        output["ParentShardId"] = shard_id(shard.parent)
    if shard.adjacent != NO_SHARD:
        output["AdjacentParentShardId"] = shard_id(shard.adjacent)
    return output


def listed(stream: Stream | StreamDefinition, expired_us: int) -> list[Shard]:
    """The shards that have records, or may get some: not those whose records have long expired."""
    return list(shard_map.forgotten(stream.shards, expired_us))


def strategy(*, spreads: bool) -> str:
    """How a stream chooses the shards of its records."""
    return "AUTO" if spreads else "USER_PARTITION_KEY"

"""Calls on streams as they are answered, not only read: what each action begins with."""

import base64
import json
from typing import Any, Final

from tests.conformance.in_process import ACCOUNT, REGION

STREAM: Final = "s"
GROUP: Final = "g"
ARN: Final = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{STREAM}"
FIRST: Final = "shardId-000000000000"
SECOND: Final = "shardId-000000000001"

MADE: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("CreateStream", {"ShardCount": 2, "StreamName": STREAM}),
    ("PutRecord", {"StreamName": STREAM, "PartitionKey": "k", "Data": b"abc"}),
    ("TidegateCreateGroup", {"GroupName": GROUP, "StreamARNs": [ARN]}),
)
"""What is there already."""

_UNIFORM: Final = "UNIFORM_SCALING"
_ENTRY: Final = {"PartitionKey": "k", "Data": b"abc"}
_AT: Final = {"Type": "AT_TIMESTAMP", "Timestamp": 1_790_000_000}
_OF_SHARD: Final = {"StreamARN": ARN, "ShardId": FIRST}

CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    *MADE,
    ("CreateStream", {"StreamName": "t", "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}),
    ("DescribeStream", {"Limit": 3, "StreamName": STREAM}),
    ("DescribeStreamSummary", {"StreamARN": ARN}),
    ("ListStreams", {"Limit": 3}),
    ("ListShards", {"MaxResults": 3, "StreamName": STREAM, "ShardFilter": _AT}),
    ("PutRecords", {"StreamName": STREAM, "Records": [_ENTRY, _ENTRY | {"ExplicitHashKey": "7"}]}),
    (
        "PutRecords",
        {
            "TidegateProducerEpoch": 1,
            "StreamName": STREAM,
            "TidegateProducerId": "p",
            "Records": [_ENTRY | {"TidegateSequence": "5"}],
        },
    ),
    (
        "GetShardIterator",
        {"StreamName": STREAM, "ShardId": FIRST, "ShardIteratorType": "TRIM_HORIZON"},
    ),
    (
        "GetShardIterator",
        {
            "Timestamp": 1_790_000_000,
            "StreamName": STREAM,
            "ShardId": FIRST,
            "ShardIteratorType": "AT_TIMESTAMP",
        },
    ),
    ("GetRecords", {"Limit": 3, "ShardIterator": "AAAA"}),
    (
        "UpdateShardCount",
        {"TargetShardCount": 3, "StreamName": STREAM, "ScalingType": _UNIFORM},
    ),
    (
        "SplitShard",
        {"NewStartingHashKey": "170141183", "StreamName": STREAM, "ShardToSplit": FIRST},
    ),
    (
        "MergeShards",
        {"StreamName": STREAM, "ShardToMerge": FIRST, "AdjacentShardToMerge": SECOND},
    ),
    ("IncreaseStreamRetentionPeriod", {"RetentionPeriodHours": 48, "StreamName": STREAM}),
    ("DecreaseStreamRetentionPeriod", {"RetentionPeriodHours": 24, "StreamName": STREAM}),
    ("UpdateMaxRecordSize", {"MaxRecordSizeInKiB": 2_048, "StreamARN": ARN}),
    ("UpdateStreamMode", {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "PROVISIONED"}}),
    ("AddTagsToStream", {"StreamName": STREAM, "Tags": {"a": "b"}}),
    ("PutResourcePolicy", {"ResourceARN": ARN, "Policy": "{}"}),
    ("DescribeLimits", {}),
    ("DeleteStream", {"StreamName": "t"}),
    ("TidegateGroupHeartbeat", {"MemberEpoch": 0, "GroupName": GROUP}),
    (
        "TidegateGroupHeartbeat",
        {
            "MemberEpoch": 7,
            "GroupName": GROUP,
            "MemberId": "m",
            "OwnedShards": [{**_OF_SHARD, "AssignmentEpoch": 7}],
        },
    ),
    (
        "TidegateCommitOffsets",
        {
            "GroupName": GROUP,
            "MemberId": "m",
            "Entries": [{"AssignmentEpoch": 7, **_OF_SHARD, "SequenceNumber": "SHARD_END"}],
        },
    ),
    ("TidegateResetOffsets", {"GroupName": GROUP, "StartingPosition": _AT}),
    ("TidegateDescribeGroup", {"MaxResults": 3, "GroupName": GROUP}),
    ("TidegateGetOffsets", {"MaxResults": 3, "GroupName": GROUP}),
    (
        "CreateQueue",
        {
            "QueueAttributes": {"VisibilityTimeoutSeconds": 30},
            "QueueName": "q",
            "StreamConfigurationList": [{"StreamARN": ARN, "StartingPosition": _AT}],
        },
    ),
    ("ListQueues", {"MaxResults": 3}),
    (
        "ReceiveQueueRecords",
        {"Limit": 3, "QueueARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:queue/q:0123456789abcdef"},
    ),
)
"""One input or two of each kind; the number that matters comes first."""


def written(params: dict[str, Any]) -> bytes:
    """The parameters in AWS JSON."""
    return json.dumps(params, default=lambda data: base64.b64encode(data).decode()).encode()

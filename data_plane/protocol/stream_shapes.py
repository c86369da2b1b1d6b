"""Shapes of the operations on streams, as botocore's Kinesis model has them, with their bounds.

Patterns and sets of values are as AWS prints them: without anchors, in its order (recorded from AWS
for iterators; others in the model's). Members that begin with `Tidegate` are ours.
"""

from typing import Final

from data_plane.core.limits import (
    GET_RECORDS_MAX,
    PARTITION_KEY_CHARS_MAX,
    PRODUCER_EPOCH_MAX,
    PRODUCER_ID_CHARS_MAX,
    PUT_RECORDS_MAX,
    RECEIVE_WAIT_S_MAX,
    RECORD_KIB_MAX,
    RECORD_KIB_MIN,
    STREAM_NAME_CHARS_MAX,
    STREAM_RETENTION_HOURS_MAX,
    STREAM_RETENTION_HOURS_MIN,
    TAG_KEY_CHARS_MAX,
    TAG_VALUE_CHARS_MAX,
    TAGS_MAX,
)
from data_plane.protocol.shapes import (
    BOOLEAN,
    INTEGER,
    STRING,
    TIMESTAMP,
    Bounds,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Structure,
)

WAIT: Final = "TidegateWaitTimeSeconds"
RETENTION_MAX: Final = "TidegateRetentionHoursMax"
PRODUCER: Final = "TidegateProducerId"
EPOCH: Final = "TidegateProducerEpoch"
SEQUENCE: Final = "TidegateSequence"
BEFORE: Final = "TidegateStoredBefore"

_COUNT_MAX: Final = 1_000_000
_PAGE_MAX: Final = 10_000
_TAGS_LISTED_MAX: Final = 200
_TOKEN_CHARS_MAX: Final = 1_048_576
_ITERATOR_CHARS_MAX: Final = 512
_ARN_CHARS_MAX: Final = 2_048
_METRICS: Final = 7


def _text(least: int | None, most: int | None, pattern: str = "") -> Scalar:
    return Scalar("string", Bounds(least, most, pattern))


def _one_of(*values: str) -> Scalar:
    return Scalar("string", Bounds(values=values))


def _number(least: int, most: int | None = None) -> Scalar:
    return Scalar("integer", Bounds(least, most))


_NAME: Final = _text(1, STREAM_NAME_CHARS_MAX, "[a-zA-Z0-9_.-]+")
_SHARD_ID: Final = _text(1, 128, "[a-zA-Z0-9_.-]+")
_HASH_KEY: Final = _text(None, None, r"0|([1-9]\d{0,38})")
_SEQUENCE_NUMBER: Final = _text(None, None, r"0|([1-9]\d{0,128})")
_PRODUCER: Final = _text(1, PRODUCER_ID_CHARS_MAX)
_PRODUCERS_SEQUENCE: Final = _text(None, None, r"0|([1-9]\d{0,63})")
_EPOCH: Final = _number(0, PRODUCER_EPOCH_MAX)
STREAM_ARN: Final = _text(1, _ARN_CHARS_MAX, r"arn:aws.*:kinesis:.*:\d{12}:stream/\S+")
_RESOURCE_ARN: Final = _text(
    1, _ARN_CHARS_MAX, r"arn:aws.*:kinesis:.*:\d{12}:.*(stream|channel|queue)/\S+"
)
TOKEN: Final = _text(1, _TOKEN_CHARS_MAX)
_ITERATOR: Final = _text(1, _ITERATOR_CHARS_MAX)
_PARTITION_KEY: Final = _text(1, PARTITION_KEY_CHARS_MAX)
_DATA: Final = Scalar("blob", Bounds(0, RECORD_KIB_MAX * 1_024))
_KEY_ID: Final = _text(1, 2_048)
_TAG_KEY: Final = _text(1, TAG_KEY_CHARS_MAX)
_TAG_VALUE: Final = _text(0, TAG_VALUE_CHARS_MAX)
TAGS: Final = MapOf(_TAG_VALUE, key=_TAG_KEY, bounds=Bounds(1, _TAGS_LISTED_MAX))
_TAG_KEYS: Final = ListOf(_TAG_KEY, bounds=Bounds(1, TAGS_MAX))
_TAG_LIST: Final = ListOf(
    Structure({"Key": _TAG_KEY, "Value": _TAG_VALUE}, required=("Key",)),
    bounds=Bounds(0, _TAGS_LISTED_MAX),
)
_ENCRYPTION: Final = _one_of("NONE", "KMS")
_DISTRIBUTION: Final = _one_of("AUTO", "USER_PARTITION_KEY")
_RECORD_KIB: Final = _number(RECORD_KIB_MIN, RECORD_KIB_MAX)
_SOME: Final = _number(1)
_NONE_OR_SOME: Final = _number(0)
_COUNT: Final = _number(0, _COUNT_MAX)
PAGE: Final = _number(1, _PAGE_MAX)
_STATUS: Final = _one_of("CREATING", "DELETING", "ACTIVE", "UPDATING")
_MODE: Final = Structure(
    {"StreamMode": _one_of("PROVISIONED", "ON_DEMAND")}, required=("StreamMode",)
)
_KEPT_HOURS: Final = _number(STREAM_RETENTION_HOURS_MIN, STREAM_RETENTION_HOURS_MAX)

# StreamId, which AWS reserves for future use, is not read: it is ignored, whatever it is.
_BY_ARN: Final[dict[str, Shape]] = {"StreamARN": STREAM_ARN}
_BY_NAME: Final[dict[str, Shape]] = {"StreamName": _NAME, **_BY_ARN}
_DRY: Final[dict[str, Shape]] = {"DryRun": BOOLEAN}
_RESOURCE: Final[dict[str, Shape]] = {"ResourceARN": _RESOURCE_ARN}
_NAMED: Final = ("StreamName", "StreamARN")


def _of_stream(members: dict[str, Shape], *required: str) -> Structure:
    """The input of an operation on the stream that a name or an ARN names."""
    return Structure({**_BY_NAME, **members}, required, one_of=_NAMED)


_HASH_RANGE: Final = Structure(
    {"StartingHashKey": _HASH_KEY, "EndingHashKey": _HASH_KEY},
    required=("StartingHashKey", "EndingHashKey"),
)
_SHARDS: Final = ListOf(
    Structure(
        {
            "ShardId": _SHARD_ID,
            "ParentShardId": _SHARD_ID,
            "AdjacentParentShardId": _SHARD_ID,
            "HashKeyRange": _HASH_RANGE,
            "SequenceNumberRange": Structure(
                {
                    "StartingSequenceNumber": _SEQUENCE_NUMBER,
                    "EndingSequenceNumber": _SEQUENCE_NUMBER,
                },
                required=("StartingSequenceNumber",),
            ),
        },
        required=("ShardId", "HashKeyRange", "SequenceNumberRange"),
    )
)
_MONITORING: Final = ListOf(
    Structure(
        {
            "ShardLevelMetrics": ListOf(
                _one_of(
                    *("IncomingBytes", "IncomingRecords", "OutgoingBytes", "OutgoingRecords"),
                    "WriteProvisionedThroughputExceeded",
                    "ReadProvisionedThroughputExceeded",
                    *("IteratorAgeMilliseconds", "ALL"),
                ),
                bounds=Bounds(1, _METRICS),
            )
        }
    )
)

CREATE_STREAM_INPUT: Final = Structure(
    {
        "StreamName": _NAME,
        "ShardCount": _SOME,
        "StreamModeDetails": _MODE,
        "Tags": TAGS,
        "MaxRecordSizeInKiB": _RECORD_KIB,
        "RecordDistributionStrategy": _DISTRIBUTION,
        RETENTION_MAX: _KEPT_HOURS,
    },
    required=("StreamName",),
)
DELETE_STREAM_INPUT: Final = _of_stream({"EnforceConsumerDeletion": BOOLEAN})
NOTHING: Final = Structure()

_DESCRIBED: Final[dict[str, Shape]] = {
    "StreamName": _NAME,
    "StreamARN": STREAM_ARN,
    "StreamStatus": _STATUS,
    "StreamModeDetails": _MODE,
    "RetentionPeriodHours": INTEGER,
    "StreamCreationTimestamp": TIMESTAMP,
    "EnhancedMonitoring": _MONITORING,
    "EncryptionType": _ENCRYPTION,
    "KeyId": _KEY_ID,
}
_ALWAYS_DESCRIBED: Final = (
    *("StreamName", "StreamARN", "StreamStatus", "RetentionPeriodHours"),
    *("StreamCreationTimestamp", "EnhancedMonitoring"),
)
DESCRIBE_STREAM_INPUT: Final = _of_stream({"Limit": PAGE, "ExclusiveStartShardId": _SHARD_ID})
DESCRIBE_STREAM_OUTPUT: Final = Structure(
    {
        "StreamDescription": Structure(
            {**_DESCRIBED, "Shards": _SHARDS, "HasMoreShards": BOOLEAN},
            required=(*_ALWAYS_DESCRIBED, "Shards", "HasMoreShards"),
        )
    },
    required=("StreamDescription",),
)
DESCRIBE_STREAM_SUMMARY_INPUT: Final = _of_stream({})
DESCRIBE_STREAM_SUMMARY_OUTPUT: Final = Structure(
    {
        "StreamDescriptionSummary": Structure(
            {
                **_DESCRIBED,
                "OpenShardCount": _COUNT,
                "ConsumerCount": _COUNT,
                "QueueCount": _COUNT,
                "MaxRecordSizeInKiB": _RECORD_KIB,
                "RecordDistributionStrategy": _DISTRIBUTION,
            },
            required=(*_ALWAYS_DESCRIBED, "OpenShardCount"),
        )
    },
    required=("StreamDescriptionSummary",),
)

LIST_STREAMS_INPUT: Final = Structure(
    {"Limit": PAGE, "ExclusiveStartStreamName": _NAME, "NextToken": TOKEN}
)
LIST_STREAMS_OUTPUT: Final = Structure(
    {
        "StreamNames": ListOf(_NAME),
        "HasMoreStreams": BOOLEAN,
        "NextToken": TOKEN,
        "StreamSummaries": ListOf(
            Structure(
                {
                    "StreamName": _NAME,
                    "StreamARN": STREAM_ARN,
                    "StreamStatus": _STATUS,
                    "StreamModeDetails": _MODE,
                    "StreamCreationTimestamp": TIMESTAMP,
                },
                required=("StreamName", "StreamARN", "StreamStatus"),
            )
        ),
    },
    required=("StreamNames", "HasMoreStreams"),
)
LIST_SHARDS_INPUT: Final = Structure(
    {
        **_BY_NAME,
        "NextToken": TOKEN,
        "ExclusiveStartShardId": _SHARD_ID,
        "MaxResults": PAGE,
        "StreamCreationTimestamp": TIMESTAMP,
        "ShardFilter": Structure(
            {
                "Type": _one_of(
                    *("AFTER_SHARD_ID", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST"),
                    *("AT_TIMESTAMP", "FROM_TIMESTAMP"),
                ),
                "ShardId": _SHARD_ID,
                "Timestamp": TIMESTAMP,
            },
            required=("Type",),
        ),
    }
)
"""Who names no stream may have a token instead, and is told so in other words."""
LIST_SHARDS_OUTPUT: Final = Structure({"Shards": _SHARDS, "NextToken": TOKEN})

PUT_RECORD_INPUT: Final = _of_stream(
    {
        "Data": _DATA,
        "PartitionKey": _PARTITION_KEY,
        "ExplicitHashKey": _HASH_KEY,
        "SequenceNumberForOrdering": _SEQUENCE_NUMBER,
        **_DRY,
    },
    "Data",
)
PUT_RECORD_OUTPUT: Final = Structure(
    {"ShardId": _SHARD_ID, "SequenceNumber": _SEQUENCE_NUMBER, "EncryptionType": _ENCRYPTION},
    required=("ShardId", "SequenceNumber"),
)
PUT_RECORDS_INPUT: Final = _of_stream(
    {
        "Records": ListOf(
            Structure(
                {
                    "Data": _DATA,
                    "ExplicitHashKey": _HASH_KEY,
                    "PartitionKey": _PARTITION_KEY,
                    SEQUENCE: _PRODUCERS_SEQUENCE,
                },
                required=("Data",),
            ),
            bounds=Bounds(1, PUT_RECORDS_MAX),
        ),
        PRODUCER: _PRODUCER,
        EPOCH: _EPOCH,
        **_DRY,
    },
    "Records",
)
PUT_RECORDS_OUTPUT: Final = Structure(
    {
        "FailedRecordCount": _SOME,
        "Records": ListOf(
            Structure(
                {
                    "SequenceNumber": _SEQUENCE_NUMBER,
                    "ShardId": _SHARD_ID,
                    "ErrorCode": STRING,
                    "ErrorMessage": STRING,
                    BEFORE: BOOLEAN,
                }
            ),
            bounds=Bounds(1, PUT_RECORDS_MAX),
        ),
        "EncryptionType": _ENCRYPTION,
    },
    required=("Records",),
)

GET_SHARD_ITERATOR_INPUT: Final = _of_stream(
    {
        "ShardId": _SHARD_ID,
        "ShardIteratorType": _one_of(
            *("AFTER_SEQUENCE_NUMBER", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER"),
            "TRIM_HORIZON",
        ),
        "StartingSequenceNumber": _SEQUENCE_NUMBER,
        "Timestamp": TIMESTAMP,
        **_DRY,
    },
    "ShardId",
    "ShardIteratorType",
)
GET_SHARD_ITERATOR_OUTPUT: Final = Structure({"ShardIterator": _ITERATOR})
GET_RECORDS_INPUT: Final = Structure(
    {
        "ShardIterator": _ITERATOR,
        "Limit": _number(1, GET_RECORDS_MAX),
        **_BY_ARN,
        **_DRY,
        WAIT: _number(0, RECEIVE_WAIT_S_MAX),
    },
    required=("ShardIterator",),
)
GET_RECORDS_OUTPUT: Final = Structure(
    {
        "Records": ListOf(
            Structure(
                {
                    "SequenceNumber": _SEQUENCE_NUMBER,
                    "ApproximateArrivalTimestamp": TIMESTAMP,
                    "Data": _DATA,
                    "PartitionKey": _PARTITION_KEY,
                    "EncryptionType": _ENCRYPTION,
                },
                required=("SequenceNumber", "Data"),
            )
        ),
        "NextShardIterator": _ITERATOR,
        "MillisBehindLatest": _NONE_OR_SOME,
        "ChildShards": ListOf(
            Structure(
                {
                    "ShardId": _SHARD_ID,
                    "ParentShards": ListOf(_SHARD_ID),
                    "HashKeyRange": _HASH_RANGE,
                },
                required=("ShardId", "ParentShards", "HashKeyRange"),
            )
        ),
    },
    required=("Records",),
)

INCREASE_RETENTION_INPUT: Final = _of_stream(
    {"RetentionPeriodHours": INTEGER, RETENTION_MAX: _KEPT_HOURS}, "RetentionPeriodHours"
)
DECREASE_RETENTION_INPUT: Final = _of_stream(
    {"RetentionPeriodHours": INTEGER}, "RetentionPeriodHours"
)
SPLIT_SHARD_INPUT: Final = _of_stream(
    {"ShardToSplit": _SHARD_ID, "NewStartingHashKey": _HASH_KEY},
    "ShardToSplit",
    "NewStartingHashKey",
)
MERGE_SHARDS_INPUT: Final = _of_stream(
    {"ShardToMerge": _SHARD_ID, "AdjacentShardToMerge": _SHARD_ID},
    "ShardToMerge",
    "AdjacentShardToMerge",
)
UPDATE_SHARD_COUNT_INPUT: Final = _of_stream(
    {"TargetShardCount": _SOME, "ScalingType": _one_of("UNIFORM_SCALING")},
    "TargetShardCount",
    "ScalingType",
)
UPDATE_SHARD_COUNT_OUTPUT: Final = Structure(
    {
        "StreamName": _NAME,
        "CurrentShardCount": _SOME,
        "TargetShardCount": _SOME,
        "StreamARN": STREAM_ARN,
    }
)
UPDATE_STREAM_MODE_INPUT: Final = Structure(
    {**_BY_ARN, "StreamModeDetails": _MODE}, required=("StreamARN", "StreamModeDetails")
)
UPDATE_DISTRIBUTION_INPUT: Final = Structure(
    {**_BY_ARN, "RecordDistributionStrategy": _DISTRIBUTION},
    required=("StreamARN", "RecordDistributionStrategy"),
)
UPDATE_MAX_RECORD_SIZE_INPUT: Final = Structure(
    {**_BY_ARN, "MaxRecordSizeInKiB": _RECORD_KIB},
    required=("MaxRecordSizeInKiB",),
    one_of=("StreamARN",),
)
"""The model does not require the ARN, and has no other name for the stream."""

ADD_TAGS_TO_STREAM_INPUT: Final = _of_stream({"Tags": TAGS}, "Tags")
REMOVE_TAGS_FROM_STREAM_INPUT: Final = _of_stream({"TagKeys": _TAG_KEYS}, "TagKeys")
LIST_TAGS_FOR_STREAM_INPUT: Final = _of_stream(
    {"ExclusiveStartTagKey": _TAG_KEY, "Limit": _number(1, TAGS_MAX)}
)
LIST_TAGS_FOR_STREAM_OUTPUT: Final = Structure(
    {"Tags": _TAG_LIST, "HasMoreTags": BOOLEAN}, required=("Tags", "HasMoreTags")
)
TAG_RESOURCE_INPUT: Final = Structure({**_RESOURCE, "Tags": TAGS}, required=("Tags", "ResourceARN"))
UNTAG_RESOURCE_INPUT: Final = Structure(
    {**_RESOURCE, "TagKeys": _TAG_KEYS}, required=("TagKeys", "ResourceARN")
)
LIST_TAGS_FOR_RESOURCE_INPUT: Final = Structure(_RESOURCE, required=("ResourceARN",))
LIST_TAGS_FOR_RESOURCE_OUTPUT: Final = Structure({"Tags": _TAG_LIST})
PUT_RESOURCE_POLICY_INPUT: Final = Structure(
    {**_RESOURCE, "Policy": STRING}, required=("ResourceARN", "Policy")
)
GET_RESOURCE_POLICY_INPUT: Final = Structure(_RESOURCE, required=("ResourceARN",))
GET_RESOURCE_POLICY_OUTPUT: Final = Structure({"Policy": STRING}, required=("Policy",))
DELETE_RESOURCE_POLICY_INPUT: Final = Structure(_RESOURCE, required=("ResourceARN",))
STREAM_ENCRYPTION_INPUT: Final = _of_stream(
    {"EncryptionType": _ENCRYPTION, "KeyId": _KEY_ID}, "EncryptionType", "KeyId"
)
"""To start, and to stop."""
DESCRIBE_LIMITS_OUTPUT: Final = Structure(
    {
        "ShardLimit": _COUNT,
        "OpenShardCount": _COUNT,
        "OnDemandStreamCount": _COUNT,
        "OnDemandStreamCountLimit": _COUNT,
    },
    required=(
        *("ShardLimit", "OpenShardCount", "OnDemandStreamCount", "OnDemandStreamCountLimit"),
    ),
)

SHAPES: Final = {
    "AddTagsToStream": (ADD_TAGS_TO_STREAM_INPUT, NOTHING),
    "CreateStream": (CREATE_STREAM_INPUT, NOTHING),
    "DecreaseStreamRetentionPeriod": (DECREASE_RETENTION_INPUT, NOTHING),
    "DeleteResourcePolicy": (DELETE_RESOURCE_POLICY_INPUT, NOTHING),
    "DeleteStream": (DELETE_STREAM_INPUT, NOTHING),
    "DescribeLimits": (NOTHING, DESCRIBE_LIMITS_OUTPUT),
    "DescribeStream": (DESCRIBE_STREAM_INPUT, DESCRIBE_STREAM_OUTPUT),
    "DescribeStreamSummary": (DESCRIBE_STREAM_SUMMARY_INPUT, DESCRIBE_STREAM_SUMMARY_OUTPUT),
    "GetRecords": (GET_RECORDS_INPUT, GET_RECORDS_OUTPUT),
    "GetResourcePolicy": (GET_RESOURCE_POLICY_INPUT, GET_RESOURCE_POLICY_OUTPUT),
    "GetShardIterator": (GET_SHARD_ITERATOR_INPUT, GET_SHARD_ITERATOR_OUTPUT),
    "IncreaseStreamRetentionPeriod": (INCREASE_RETENTION_INPUT, NOTHING),
    "ListShards": (LIST_SHARDS_INPUT, LIST_SHARDS_OUTPUT),
    "ListStreams": (LIST_STREAMS_INPUT, LIST_STREAMS_OUTPUT),
    "ListTagsForResource": (LIST_TAGS_FOR_RESOURCE_INPUT, LIST_TAGS_FOR_RESOURCE_OUTPUT),
    "ListTagsForStream": (LIST_TAGS_FOR_STREAM_INPUT, LIST_TAGS_FOR_STREAM_OUTPUT),
    "MergeShards": (MERGE_SHARDS_INPUT, NOTHING),
    "PutRecord": (PUT_RECORD_INPUT, PUT_RECORD_OUTPUT),
    "PutRecords": (PUT_RECORDS_INPUT, PUT_RECORDS_OUTPUT),
    "PutResourcePolicy": (PUT_RESOURCE_POLICY_INPUT, NOTHING),
    "RemoveTagsFromStream": (REMOVE_TAGS_FROM_STREAM_INPUT, NOTHING),
    "SplitShard": (SPLIT_SHARD_INPUT, NOTHING),
    "StartStreamEncryption": (STREAM_ENCRYPTION_INPUT, NOTHING),
    "StopStreamEncryption": (STREAM_ENCRYPTION_INPUT, NOTHING),
    "TagResource": (TAG_RESOURCE_INPUT, NOTHING),
    "UntagResource": (UNTAG_RESOURCE_INPUT, NOTHING),
    "UpdateMaxRecordSize": (UPDATE_MAX_RECORD_SIZE_INPUT, NOTHING),
    "UpdateShardCount": (UPDATE_SHARD_COUNT_INPUT, UPDATE_SHARD_COUNT_OUTPUT),
    "UpdateStreamMode": (UPDATE_STREAM_MODE_INPUT, NOTHING),
    "UpdateStreamRecordDistributionStrategy": (UPDATE_DISTRIBUTION_INPUT, NOTHING),
}
"""Input and output by operation."""

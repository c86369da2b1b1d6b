"""Shapes of the operations on consumer groups, which Kinesis does not have: all of it is ours.

What they have in common with Kinesis, as the names of streams and shards, is spelled as there.
"""

from typing import Final

from data_plane.core.limits import (
    GROUP_COMMITS_MAX,
    GROUP_REBALANCE_S_MAX,
    GROUP_REBALANCE_S_MIN,
    GROUP_SESSION_S_MAX,
    GROUP_SESSION_S_MIN,
    GROUP_SHARDS_MAX,
    GROUP_STREAMS_MAX,
    LONG_MAX,
    OFFSET_METADATA_CHARS_MAX,
    RECEIVE_WAIT_S_MAX,
    STREAM_NAME_CHARS_MAX,
)
from data_plane.protocol.shapes import (
    BOOLEAN,
    INTEGER,
    STRING,
    TIMESTAMP,
    Bounds,
    ListOf,
    Scalar,
    Shape,
    Structure,
)

_NAME_PATTERN: Final = "[a-zA-Z0-9_.-]+"
_GROUP_NAME: Final = Scalar("string", Bounds(1, STREAM_NAME_CHARS_MAX, _NAME_PATTERN))
_MEMBER_ID: Final = Scalar("string", Bounds(1, 64, _NAME_PATTERN))
_INSTANCE_ID: Final = Scalar("string", Bounds(1, 128, _NAME_PATTERN))
_SHARD_ID: Final = Scalar("string", Bounds(1, 128, _NAME_PATTERN))
_STREAM_ARN: Final = Scalar("string", Bounds(1, 2_048, r"arn:aws.*:kinesis:.*:\d{12}:stream/\S+"))
_STREAM_ARNS: Final = ListOf(_STREAM_ARN, bounds=Bounds(1, GROUP_STREAMS_MAX))
_TOKEN: Final = Scalar("string", Bounds(1, 1_048_576))
_PAGE: Final = Scalar("integer", Bounds(1, 100))
_EPOCH: Final = Scalar("integer", Bounds(-2, LONG_MAX))
_ASSIGNMENT_EPOCH: Final = Scalar("integer", Bounds(0, LONG_MAX))
_METADATA: Final = Scalar("string", Bounds(0, OFFSET_METADATA_CHARS_MAX))
_SEQUENCE_NUMBER: Final = Scalar("string", Bounds(None, None, r"SHARD_END|0|([1-9]\d{0,128})"))
_ASSIGNOR: Final = Scalar("string", Bounds(values=("sticky", "range")))
_POSITION_TYPES: Final = ("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP")
_SHARD: Final[dict[str, Shape]] = {"StreamARN": _STREAM_ARN, "ShardId": _SHARD_ID}
_SHARDS: Final = ListOf(
    Structure(_SHARD, required=("StreamARN", "ShardId")), bounds=Bounds(1, GROUP_COMMITS_MAX)
)
_OF_GROUP: Final[dict[str, Shape]] = {"GroupName": _GROUP_NAME}
_PAGED: Final[dict[str, Shape]] = {"MaxResults": _PAGE, "NextToken": _TOKEN}

_GROUP: Final = Structure(
    {
        "GroupName": _GROUP_NAME,
        "GroupARN": STRING,
        "GroupCreationTimestamp": TIMESTAMP,
        "StreamARNs": _STREAM_ARNS,
        "SessionTimeoutSeconds": INTEGER,
        "RebalanceTimeoutSeconds": INTEGER,
        "Assignor": _ASSIGNOR,
        "GroupEpoch": INTEGER,
    }
)
CREATE_GROUP_INPUT: Final = Structure(
    {
        **_OF_GROUP,
        "StreamARNs": _STREAM_ARNS,
        "StartingPosition": Structure(
            {
                "Type": Scalar("string", Bounds(values=_POSITION_TYPES)),
                "Timestamp": TIMESTAMP,
            },
            required=("Type",),
        ),
        "SessionTimeoutSeconds": Scalar(
            "integer", Bounds(GROUP_SESSION_S_MIN, GROUP_SESSION_S_MAX)
        ),
        "RebalanceTimeoutSeconds": Scalar(
            "integer", Bounds(GROUP_REBALANCE_S_MIN, GROUP_REBALANCE_S_MAX)
        ),
        "Assignor": _ASSIGNOR,
    },
    required=("GroupName", "StreamARNs"),
)
CREATE_GROUP_OUTPUT: Final = Structure({"Group": _GROUP})

_POSITION: Final = Structure({"ShardIteratorType": STRING, "StartingSequenceNumber": STRING})
WAIT_S: Final = "WaitTimeSeconds"
HEARTBEAT_INPUT: Final = Structure(
    {
        **_OF_GROUP,
        "MemberEpoch": _EPOCH,
        "MemberId": _MEMBER_ID,
        "InstanceId": _INSTANCE_ID,
        "OwnedShards": ListOf(
            Structure(
                {**_SHARD, "AssignmentEpoch": _ASSIGNMENT_EPOCH},
                required=("StreamARN", "ShardId", "AssignmentEpoch"),
            ),
            bounds=Bounds(0, GROUP_SHARDS_MAX),
        ),
        WAIT_S: Scalar("integer", Bounds(0, RECEIVE_WAIT_S_MAX)),
    },
    required=("GroupName", "MemberEpoch"),
)
HEARTBEAT_OUTPUT: Final = Structure(
    {
        "MemberId": _MEMBER_ID,
        "MemberEpoch": _EPOCH,
        "HeartbeatIntervalMillis": INTEGER,
        "RebalanceTimeoutSeconds": INTEGER,
        "Assignment": ListOf(
            Structure(
                {
                    **_SHARD,
                    "AssignmentEpoch": _ASSIGNMENT_EPOCH,
                    "Position": _POSITION,
                }
            )
        ),
    }
)

_COMMITTED: Final[dict[str, Shape]] = {**_SHARD, "SequenceNumber": _SEQUENCE_NUMBER}
COMMIT_OFFSETS_INPUT: Final = Structure(
    {
        **_OF_GROUP,
        "MemberId": _MEMBER_ID,
        "Entries": ListOf(
            Structure(
                {**_COMMITTED, "AssignmentEpoch": _ASSIGNMENT_EPOCH, "Metadata": _METADATA},
                required=("StreamARN", "ShardId", "SequenceNumber", "AssignmentEpoch"),
            ),
            bounds=Bounds(1, GROUP_COMMITS_MAX),
        ),
    },
    required=("GroupName", "MemberId", "Entries"),
)
COMMIT_OFFSETS_OUTPUT: Final = Structure(
    {
        "Successful": ListOf(Structure(_COMMITTED)),
        "Failed": ListOf(Structure({**_SHARD, "ErrorCode": STRING, "ErrorMessage": STRING})),
    }
)

_OFFSETS: Final = ListOf(
    Structure(
        {
            **_COMMITTED,
            "Metadata": _METADATA,
            "AssignmentEpoch": _ASSIGNMENT_EPOCH,
            "CommitTimestamp": TIMESTAMP,
        }
    )
)
GET_OFFSETS_INPUT: Final = Structure(
    {**_OF_GROUP, "Shards": _SHARDS, **_PAGED}, required=("GroupName",)
)
GET_OFFSETS_OUTPUT: Final = Structure({"Offsets": _OFFSETS, "NextToken": _TOKEN})
RESET_OFFSETS_INPUT: Final = Structure(
    {
        **_OF_GROUP,
        "Shards": _SHARDS,
        "StartingPosition": Structure(
            {
                "Type": Scalar(
                    "string",
                    Bounds(
                        values=(*_POSITION_TYPES, "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
                    ),
                ),
                "Timestamp": TIMESTAMP,
                "SequenceNumber": Scalar("string", Bounds(None, None, r"0|([1-9]\d{0,128})")),
            },
            required=("Type",),
        ),
        "DryRun": BOOLEAN,
    },
    required=("GroupName", "StartingPosition"),
)
RESET_OFFSETS_OUTPUT: Final = Structure(
    {
        "Shards": ListOf(
            Structure(
                {
                    **_COMMITTED,
                    "Position": _POSITION,
                    "LagRecords": INTEGER,
                    "LagRecordsAfter": INTEGER,
                    "MillisBehindLatestAfter": INTEGER,
                }
            )
        )
    }
)

DESCRIBE_GROUP_INPUT: Final = Structure({**_OF_GROUP, **_PAGED}, required=("GroupName",))
DESCRIBE_GROUP_OUTPUT: Final = Structure(
    {
        "Group": _GROUP,
        "State": STRING,
        "Members": ListOf(
            Structure({"MemberId": _MEMBER_ID, "InstanceId": _INSTANCE_ID, "MemberEpoch": _EPOCH})
        ),
        "Shards": ListOf(
            Structure(
                {
                    **_COMMITTED,
                    "OwnerMemberId": _MEMBER_ID,
                    "TargetMemberId": _MEMBER_ID,
                    "AssignmentEpoch": _ASSIGNMENT_EPOCH,
                    "LagRecords": INTEGER,
                    "MillisBehindLatest": INTEGER,
                }
            )
        ),
        "NextToken": _TOKEN,
    }
)
LIST_GROUPS_INPUT: Final = Structure(_PAGED)
LIST_GROUPS_OUTPUT: Final = Structure({"Groups": ListOf(_GROUP), "NextToken": _TOKEN})
DELETE_GROUP_INPUT: Final = Structure(_OF_GROUP, required=("GroupName",))
DELETE_GROUP_OUTPUT: Final = Structure()

GROUP_SHAPES: Final = {
    "TidegateCommitOffsets": (COMMIT_OFFSETS_INPUT, COMMIT_OFFSETS_OUTPUT),
    "TidegateCreateGroup": (CREATE_GROUP_INPUT, CREATE_GROUP_OUTPUT),
    "TidegateDeleteGroup": (DELETE_GROUP_INPUT, DELETE_GROUP_OUTPUT),
    "TidegateDescribeGroup": (DESCRIBE_GROUP_INPUT, DESCRIBE_GROUP_OUTPUT),
    "TidegateGetOffsets": (GET_OFFSETS_INPUT, GET_OFFSETS_OUTPUT),
    "TidegateGroupHeartbeat": (HEARTBEAT_INPUT, HEARTBEAT_OUTPUT),
    "TidegateListGroups": (LIST_GROUPS_INPUT, LIST_GROUPS_OUTPUT),
    "TidegateResetOffsets": (RESET_OFFSETS_INPUT, RESET_OFFSETS_OUTPUT),
}
"""Input and output by operation."""

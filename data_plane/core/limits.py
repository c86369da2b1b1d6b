# ruff: noqa: S101 - the table proves itself when it is imported
"""Every limit of the API in one table, with its unit last; bounds are inclusive.

Source: the SQS developer guide, "Amazon SQS quotas", and the API reference of each action; of
streams botocore's model of Kinesis.
"""

from collections.abc import Mapping
from typing import Final

# Messages
MESSAGE_SIZE_BYTES_MAX: Final = 1_048_576
BATCH_SIZE_BYTES_MAX: Final = 1_048_576
MESSAGE_ATTRIBUTES_MAX: Final = 10
ATTRIBUTE_NAME_BYTES_MAX: Final = 256
ATTRIBUTE_TYPE_BYTES_MAX: Final = 256
NUMBER_DIGITS_MAX: Final = 38
NUMBER_EXPONENT_MIN: Final = -128
NUMBER_EXPONENT_MAX: Final = 126
GROUP_ID_CHARS_MAX: Final = 128
DEDUPLICATION_ID_CHARS_MAX: Final = 128
TRACE_HEADER_BYTES_MAX: Final = 4096
"""Our own: SQS states none, but a system attribute does not count against the message's size."""

# Batches
BATCH_ENTRIES_MAX: Final = 10
BATCH_ENTRY_ID_CHARS_MAX: Final = 80

# Times
DELAY_S_MAX: Final = 900
VISIBILITY_TIMEOUT_S_MAX: Final = 43_200
VISIBILITY_TIMEOUT_S_DEFAULT: Final = 30
RECEIVE_WAIT_S_MAX: Final = 20
RETENTION_S_MIN: Final = 60
RETENTION_S_MAX: Final = 1_209_600
RETENTION_S_DEFAULT: Final = 345_600
PURGE_INTERVAL_S: Final = 60
RECREATE_AFTER_DELETE_S: Final = 60

# Receives
RECEIVE_MESSAGES_MAX: Final = 10
BROWSE_MESSAGES_MAX: Final = 100
"""Our own: SQS cannot browse."""
IN_FLIGHT_MAX: Final = 120_000
"""Approximate. Receives then fail on a standard queue, and are empty on a FIFO queue."""
RECEIVE_ATTEMPT_ID_CHARS_MAX: Final = 128
RECEIVE_ATTRIBUTE_NAMES_MAX: Final = 1000
"""Our own: keeps the cost of choosing attributes bounded."""

# Queues
QUEUE_NAME_CHARS_MAX: Final = 80
QUEUE_MESSAGE_SIZE_BYTES_MIN: Final = 1024
QUEUE_MESSAGE_SIZE_BYTES_DEFAULT: Final = MESSAGE_SIZE_BYTES_MAX
KMS_DATA_KEY_REUSE_S_MIN: Final = 60
KMS_DATA_KEY_REUSE_S_MAX: Final = 86_400
KMS_DATA_KEY_REUSE_S_DEFAULT: Final = 300
KMS_KEY_ID_CHARS_MAX: Final = 2048
"""Of KMS, whatever form the id has."""
MAX_RECEIVE_COUNT_MAX: Final = 1000
REDRIVE_SOURCE_QUEUES_MAX: Final = 10
POLICY_BYTES_MAX: Final = 8192
REPLICATION_FACTOR_MAX: Final = 9
"""Our own: copies of a queue in as many cells; names of placement groups have one digit for it."""
POLICY_STATEMENTS_MAX: Final = 20
POLICY_PRINCIPALS_MAX: Final = 50
POLICY_CONDITIONS_MAX: Final = 10
STATEMENT_ACTIONS_MAX: Final = 7
PERMISSION_LABEL_CHARS_MAX: Final = 80
TAGS_MAX: Final = 50
TAG_KEY_CHARS_MAX: Final = 128
TAG_VALUE_CHARS_MAX: Final = 256
LIST_RESULTS_MAX: Final = 1000
MOVE_TASKS_LISTED_MAX: Final = 10
MOVED_PER_SECOND_MAX: Final = 500

# Streams (Kinesis developer guide, "Quotas and limits"; the first three are our own)
STREAM_SHARDS_MAX: Final = 1_000
"""Open ones."""
STREAM_SHARDS_KEPT_MAX: Final = 5_000
"""With closed ones whose records are kept: a definition with so many is an item of a table still,
at 56 bytes each."""
ACCOUNT_SHARDS_MAX: Final = 10_000
"""In a region, by default: a quota says otherwise (AWS: 200 to 20,000, by region)."""

# Accounts (IAM's: user guide, "IAM and AWS STS quotas"; the second one is our own)
ACCESS_KEYS_MAX: Final = 2
"""Of the root of an account, of a user, of a service."""
SERVICES_WITH_KEYS_MAX: Final = 10
USER_POLICIES_MAX: Final = 10
USER_POLICY_CHARS_MAX: Final = 6144
ACCOUNTS_LISTED_MAX: Final = 100
"""Our own: accounts, or users, on a page."""
USAGE_ROWS_MAX: Final = 1000
"""Our own: rows of usage on a page."""
USAGE_TAGGED_QUEUES_MAX: Final = 1000
"""Our own: queues whose tags are looked up for an answer."""
BUDGETS_MAX: Final = 10
"""Our own: of an account."""
WEBHOOK_URL_CHARS_MAX: Final = 512

# Streams
STREAM_NAME_CHARS_MAX: Final = 128
PARTITION_KEY_CHARS_MAX: Final = 256
PUT_RECORDS_MAX: Final = 500
PRODUCER_ID_CHARS_MAX: Final = 256
PRODUCER_EPOCH_MAX: Final = 2**63 - 1
GET_RECORDS_MAX: Final = 10_000
RECORD_KIB_MIN: Final = 1_024
RECORD_KIB_MAX: Final = 10_240
"""A stream says itself, within these, how big its records may be."""
STREAM_RETENTION_HOURS_MIN: Final = 24
STREAM_RETENTION_HOURS_MAX: Final = 8_760
STREAM_POLICY_BYTES_MAX: Final = 20_480

# Queues of the Kinesis API
STREAM_QUEUES_MAX: Final = 20
"""Consumers of a stream, queues included (AWS)."""
KINESIS_QUEUE_ENTRIES_MAX: Final = 10
KINESIS_QUEUE_WAIT_S_MIN: Final = 1
KINESIS_QUEUE_WAIT_S_DEFAULT: Final = 9
KINESIS_MAX_RECEIVE_COUNT_DEFAULT: Final = 6

# Consumer groups (our own: Kinesis has none)
ACCOUNT_GROUPS_MAX: Final = 1_000
"""In a region, by default: a quota says otherwise."""
STREAM_GROUPS_MAX: Final = 100
"""That read a stream."""
GROUP_STREAMS_MAX: Final = 100
GROUP_MEMBERS_MAX: Final = 250
"""By default: a quota says otherwise."""
GROUP_SHARDS_MAX: Final = 1_000
"""Shards that a group reads at a time; others wait until some of those are read to their end.

No quota allows more members, for whom there would be no shard: so a group is an item of a table.
"""
GROUP_COMMITS_MAX: Final = 100
"""Of one call; also shards that one call asks for."""
GROUP_SESSION_S_MIN: Final = 2
GROUP_SESSION_S_DEFAULT: Final = 10
GROUP_SESSION_S_MAX: Final = 300
GROUP_REBALANCE_S_MIN: Final = 1
GROUP_REBALANCE_S_DEFAULT: Final = 60
GROUP_REBALANCE_S_MAX: Final = 3_600
OFFSET_METADATA_CHARS_MAX: Final = 256

# Requests (our own: SQS states none)
REQUEST_BODY_BYTES_MAX: Final = 12 * 1_048_576
"""Of SQS: so that a batch of messages that each are within their limit is told that it is too long.
"""
PUT_BODY_BYTES_MAX: Final = 15 * 1_048_576
"""Of Kinesis: 10 MiB of records in base64, with their keys and some room."""
BODY_BYTES_MAX: Final = max(REQUEST_BODY_BYTES_MAX, PUT_BODY_BYTES_MAX)
"""Of any operation."""
REQUEST_TARGET_BYTES_MAX: Final = 16_384
REQUEST_HEADERS_MAX: Final = 128
REQUEST_HEADER_BYTES_MAX: Final = 32_768
"""Of their names and values together."""
REQUEST_FORM_FIELDS_MAX: Final = RECEIVE_ATTRIBUTE_NAMES_MAX + 100
"""Those of a receive that names as many attributes as it may; a full batch has 400."""
ACTION_WITHIN_BYTES: Final = 16_384
"""So far into a form its Action is looked for; SDKs write it first."""
JSON_OUTSIDE_BYTES_MAX: Final = 32_768
"""Of a body in JSON, outside of its strings: brackets, commas, numbers, white space."""
JSON_STRINGS_MAX: Final = 2_048
"""Strings of a body in JSON, names of members among them; a full batch has 1,000."""
PUT_OUTSIDE_BYTES_MAX: Final = 262_144
PUT_STRINGS_MAX: Final = 8_192
"""The same of Kinesis, where a full call has 4,500 strings."""
CBOR_ITEMS_MAX: Final = 16_384
"""Values and names in a body in CBOR; a full call has 4,500."""
RECEIVE_BYTES_MAX: Final = 2 * 1_048_576
"""Of the messages that one receive answers on a server; a single one comes whatever its size."""

# Bodies by operation (our own): the longest legal call, each of its characters escaped, and room
# for what every call has: address, version, names of members, white space.
SMALL_BODY_BYTES_MAX: Final = 16_384
"""Of operations that carry neither messages nor long texts. So much is read whoever sends it."""
_CHAR_BYTES_MAX = 12  # outside Unicode's first plane: two \\uXXXX in JSON, four %XX in a form
_BYTE_BYTES_MAX = 6  # a control character in JSON: \\u00XX
_FIELD_BYTES = 64  # the name of a field in a form, with its number
_TAG_KEYS_BYTES = TAGS_MAX * (TAG_KEY_CHARS_MAX * _CHAR_BYTES_MAX + _FIELD_BYTES)
_TAGS_BYTES = _TAG_KEYS_BYTES + TAGS_MAX * (TAG_VALUE_CHARS_MAX * _CHAR_BYTES_MAX + _FIELD_BYTES)
_ATTRIBUTES_BYTES = (POLICY_BYTES_MAX + KMS_KEY_ID_CHARS_MAX) * _BYTE_BYTES_MAX
_NAMES_BYTES = RECEIVE_ATTRIBUTE_NAMES_MAX * (ATTRIBUTE_NAME_BYTES_MAX + _FIELD_BYTES)
_SHARD_BYTES = 512  # a stream's ARN, a shard's id, a number, and their names
_COMMIT_BYTES = _SHARD_BYTES + 256 + OFFSET_METADATA_CHARS_MAX * _CHAR_BYTES_MAX
_POLICIES_BYTES = USER_POLICIES_MAX * USER_POLICY_CHARS_MAX * _CHAR_BYTES_MAX

OPERATION_BODY_BYTES_MAX: Final[Mapping[str, int]] = {
    "SendMessage": REQUEST_BODY_BYTES_MAX,
    "SendMessageBatch": REQUEST_BODY_BYTES_MAX,
    "ReceiveMessage": SMALL_BODY_BYTES_MAX + _NAMES_BYTES,
    "DeleteMessage": SMALL_BODY_BYTES_MAX,
    "DeleteMessageBatch": BATCH_ENTRIES_MAX * SMALL_BODY_BYTES_MAX // 4,
    "ChangeMessageVisibility": SMALL_BODY_BYTES_MAX,
    "ChangeMessageVisibilityBatch": BATCH_ENTRIES_MAX * SMALL_BODY_BYTES_MAX // 4,
    "TidegateBrowseMessages": SMALL_BODY_BYTES_MAX,
    "CreateQueue": SMALL_BODY_BYTES_MAX + _ATTRIBUTES_BYTES + _TAGS_BYTES,
    "SetQueueAttributes": SMALL_BODY_BYTES_MAX + _ATTRIBUTES_BYTES,
    "TagQueue": SMALL_BODY_BYTES_MAX + _TAGS_BYTES,
    "UntagQueue": SMALL_BODY_BYTES_MAX + _TAG_KEYS_BYTES,
    "TidegateCreateUser": SMALL_BODY_BYTES_MAX + _POLICIES_BYTES,
    **dict.fromkeys(
        (
            *("GetQueueUrl", "ListQueues", "DeleteQueue", "GetQueueAttributes", "PurgeQueue"),
            *("ListQueueTags", "ListDeadLetterSourceQueues", "AddPermission", "RemovePermission"),
            *("StartMessageMoveTask", "ListMessageMoveTasks", "CancelMessageMoveTask"),
            *("TidegateCreateAccount", "TidegateListAccounts", "TidegateCloseAccount"),
            *("TidegateSetQuotas", "TidegateListUsers", "TidegateDeleteUser"),
            *("TidegateCreateAccessKey", "TidegateListAccessKeys", "TidegateRevokeAccessKey"),
            *("TidegateListCells", "TidegateAddCell", "TidegateDrainCell", "TidegateRemoveCell"),
            *("TidegateFailCell", "TidegateRestoreCell", "TidegateMoveQueue"),
            *("TidegateGetUsage", "TidegateSetBudgets"),
        ),
        SMALL_BODY_BYTES_MAX,
    ),
}
"""Of SQS. An operation that is missing here is not served: what builds a front end fails."""

STREAM_BODY_BYTES_MAX: Final[Mapping[str, int]] = {
    "PutRecord": PUT_BODY_BYTES_MAX,
    "PutRecords": PUT_BODY_BYTES_MAX,
    "CreateStream": SMALL_BODY_BYTES_MAX + _TAGS_BYTES,
    "AddTagsToStream": SMALL_BODY_BYTES_MAX + _TAGS_BYTES,
    "TagResource": SMALL_BODY_BYTES_MAX + _TAGS_BYTES,
    "RemoveTagsFromStream": SMALL_BODY_BYTES_MAX + _TAG_KEYS_BYTES,
    "UntagResource": SMALL_BODY_BYTES_MAX + _TAG_KEYS_BYTES,
    "CreateQueue": SMALL_BODY_BYTES_MAX + _TAGS_BYTES,
    "PutResourcePolicy": SMALL_BODY_BYTES_MAX + STREAM_POLICY_BYTES_MAX * _BYTE_BYTES_MAX,
    "TidegateCreateGroup": SMALL_BODY_BYTES_MAX + GROUP_STREAMS_MAX * _SHARD_BYTES,
    "TidegateGroupHeartbeat": SMALL_BODY_BYTES_MAX + GROUP_SHARDS_MAX * _SHARD_BYTES,
    "TidegateCommitOffsets": SMALL_BODY_BYTES_MAX + GROUP_COMMITS_MAX * _COMMIT_BYTES,
    "TidegateGetOffsets": SMALL_BODY_BYTES_MAX + GROUP_COMMITS_MAX * _SHARD_BYTES,
    "TidegateResetOffsets": SMALL_BODY_BYTES_MAX + GROUP_COMMITS_MAX * _SHARD_BYTES,
    **dict.fromkeys(
        (
            *("DeleteStream", "DescribeStream", "DescribeStreamSummary", "ListStreams"),
            *("ListShards", "GetShardIterator", "GetRecords", "SplitShard", "MergeShards"),
            *("IncreaseStreamRetentionPeriod", "DecreaseStreamRetentionPeriod"),
            *("UpdateShardCount", "UpdateStreamMode", "UpdateMaxRecordSize"),
            *("UpdateStreamRecordDistributionStrategy", "ListTagsForStream"),
            *("ListTagsForResource", "GetResourcePolicy", "DeleteResourcePolicy"),
            *("StartStreamEncryption", "StopStreamEncryption", "DescribeLimits"),
            *("TidegateDescribeGroup", "TidegateListGroups", "TidegateDeleteGroup"),
            *("UpdateQueue", "DescribeQueue", "DeleteQueue", "ListQueues"),
            *("ReceiveQueueRecords", "ReceiveDeadLetterQueueRecords"),
        ),
        SMALL_BODY_BYTES_MAX,
    ),
    **dict.fromkeys(
        (
            *("AcknowledgeQueueRecords", "UpdateQueueRecordsVisibility"),
            *("AcknowledgeDeadLetterQueueRecords", "UpdateDeadLetterQueueRecordsVisibility"),
            "RestoreDeadLetterQueueRecords",
        ),
        SMALL_BODY_BYTES_MAX + KINESIS_QUEUE_ENTRIES_MAX * 1_024 * _CHAR_BYTES_MAX,
    ),
}
"""Of Kinesis, as above."""

# What one server holds at a time (our own)
BODIES_HELD_BYTES_MAX: Final = 64 * 1_048_576
"""Bodies above SMALL_BODY_BYTES_MAX, from their first byte until their call is answered."""
ANSWERS_HELD_BYTES_MAX: Final = 64 * 1_048_576
"""Long answers that nobody has taken yet."""
ANSWERS_MADE_BYTES_MAX: Final = 2 * 1_048_576
"""Messages of one account, read for long answers that are still to be encoded."""

# What one server does at a time, by default (our own; docs/benchmarks.md, Overload)
CALLS_MAX_DEFAULT: Final = 2048
LONG_POLLS_MAX_DEFAULT: Final = 10_000
DROP_ITEMS_PER_S_MAX: Final = 1_000
"""Of what was purged, from a table: about as many as one front end gets done."""

# Quotas of a new account on one server (our own: SQS's are far above what one server does).
# Chosen so that it takes about six accounts that send as much as they may, one message a call with
# everything on, to fill a server of two cores (docs/benchmarks.md). A queue has what SQS gives a
# FIFO queue for each action.
QUOTA_MESSAGE_CALLS_PER_S_DEFAULT: Final = 500
"""Of each class: sends, receives, deletes and changes. A batch of ten is one call."""
QUOTA_CONTROL_PER_S_DEFAULT: Final = 100
QUOTA_QUEUE_MESSAGE_CALLS_PER_S_DEFAULT: Final = 300
QUOTA_QUEUE_CONTROL_PER_S_DEFAULT: Final = 50
QUOTA_LONG_POLLS_DEFAULT: Final = 1000
QUOTA_SENT_BYTES_PER_S_DEFAULT: Final = 32 * 1_048_576
QUOTA_STORED_PERCENT_DEFAULT: Final = 50
"""Of an embedded cell: so one account cannot fill the disk for all."""
QUOTA_RECEIVED_BYTES_PER_S_DEFAULT: Final = 32 * 1_048_576
QUOTA_QUEUES_DEFAULT: Final = 100_000
QUOTA_DEFINITION_BYTES_DEFAULT: Final = 256 * 1_048_576
"""Of queues with 2 KB of tags and policies each, more than the former."""
QUOTA_STREAMS_DEFAULT: Final = 1_000
"""AWS: 50 on demand in a region, more for who asks, and any number of provisioned ones."""

# Numbers of members in forms (recorded from AWS, which reads them so in all its Query services)
FORM_INDEX_MAX: Final = 214_748_369
FORM_INDEX_SKIP_MAX: Final = 10

INTEGER_MIN: Final = -(2**31)
INTEGER_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_ESCAPED_BYTES_PER_BYTE_MAX = 6  # a control character in JSON: one byte as \u00XX

assert MESSAGE_SIZE_BYTES_MAX <= BATCH_SIZE_BYTES_MAX
assert BATCH_ENTRIES_MAX * MESSAGE_SIZE_BYTES_MAX < REQUEST_BODY_BYTES_MAX
assert BATCH_SIZE_BYTES_MAX * _ESCAPED_BYTES_PER_BYTE_MAX < REQUEST_BODY_BYTES_MAX
assert min(OPERATION_BODY_BYTES_MAX.values()) == SMALL_BODY_BYTES_MAX
assert max(OPERATION_BODY_BYTES_MAX.values()) == REQUEST_BODY_BYTES_MAX
assert max(STREAM_BODY_BYTES_MAX.values()) == PUT_BODY_BYTES_MAX
assert RECORD_KIB_MAX * 1_024 * 4 / 3 < PUT_BODY_BYTES_MAX  # in base64
assert ACTION_WITHIN_BYTES <= SMALL_BODY_BYTES_MAX
assert QUOTA_SENT_BYTES_PER_S_DEFAULT >= BODY_BYTES_MAX
assert QUOTA_QUEUE_MESSAGE_CALLS_PER_S_DEFAULT <= QUOTA_MESSAGE_CALLS_PER_S_DEFAULT
assert QUEUE_MESSAGE_SIZE_BYTES_MIN < QUEUE_MESSAGE_SIZE_BYTES_DEFAULT <= MESSAGE_SIZE_BYTES_MAX
assert RETENTION_S_MIN <= RETENTION_S_DEFAULT <= RETENTION_S_MAX
assert VISIBILITY_TIMEOUT_S_DEFAULT <= VISIBILITY_TIMEOUT_S_MAX < RETENTION_S_MAX
assert DELAY_S_MAX <= VISIBILITY_TIMEOUT_S_MAX
assert RECEIVE_MESSAGES_MAX <= BATCH_ENTRIES_MAX  # one batch can delete what one receive returned
assert VISIBILITY_TIMEOUT_S_MAX <= INTEGER_MAX
assert RETENTION_S_MAX <= INTEGER_MAX
assert KMS_DATA_KEY_REUSE_S_MIN <= KMS_DATA_KEY_REUSE_S_DEFAULT <= KMS_DATA_KEY_REUSE_S_MAX

"""What Tidegate can do beyond Amazon SQS and Kinesis, for boto3's clients, and what uses them.

The service model of a session made here has more members and operations, all of whose names
begin with `Tidegate`. boto3 without this package does not know of them. Producer puts records into
streams, GroupConsumer reads them as a member of a consumer group, and QueueConsumer handles the
messages of a queue.
"""

from tidegate_sdk.group_consumer import GroupConsumer
from tidegate_sdk.group_shards import (
    COMMIT_AFTER,
    COMMIT_BEFORE,
    COMMIT_MANUALLY,
    CommitPolicy,
    GroupShard,
    RecordBatch,
    ShardLostError,
    commit_every,
)
from tidegate_sdk.outbox import StoredRecord
from tidegate_sdk.producer import Producer
from tidegate_sdk.put_errors import BufferFullError, DeliveryError, ProducerClosedError
from tidegate_sdk.queue_consumer import QueueConsumer
from tidegate_sdk.received_message import ReceivedMessage, RejectError, RetryError
from tidegate_sdk.session import MODELS, client, extend, session

__all__ = [
    "COMMIT_AFTER",
    "COMMIT_BEFORE",
    "COMMIT_MANUALLY",
    "MODELS",
    "BufferFullError",
    "CommitPolicy",
    "DeliveryError",
    "GroupConsumer",
    "GroupShard",
    "Producer",
    "ProducerClosedError",
    "QueueConsumer",
    "ReceivedMessage",
    "RecordBatch",
    "RejectError",
    "RetryError",
    "ShardLostError",
    "StoredRecord",
    "client",
    "commit_every",
    "extend",
    "session",
]

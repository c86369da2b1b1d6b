"""What Tidegate can do beyond Amazon SQS and Kinesis, for boto3's clients, and what uses them.

The service model of a session made here has more members and operations, all of whose names
begin with `Tidegate`. boto3 without this package does not know of them. Producer puts records into
streams; QueueConsumer handles the messages of a queue.
"""

from tidegate_sdk.outbox import StoredRecord
from tidegate_sdk.producer import (
    BufferFullError,
    DeliveryError,
    Producer,
    ProducerClosedError,
)
from tidegate_sdk.queue_consumer import QueueConsumer
from tidegate_sdk.received_message import ReceivedMessage, RejectError, RetryError
from tidegate_sdk.session import MODELS, client, extend, session

__all__ = [
    "MODELS",
    "BufferFullError",
    "DeliveryError",
    "Producer",
    "ProducerClosedError",
    "QueueConsumer",
    "ReceivedMessage",
    "RejectError",
    "RetryError",
    "StoredRecord",
    "client",
    "extend",
    "session",
]

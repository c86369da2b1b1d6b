"""ReceiveQueueRecords and ReceiveDeadLetterQueueRecords."""

import base64
from collections.abc import Generator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Protocol

from data_plane.core.limits import KINESIS_QUEUE_WAIT_S_DEFAULT, RECEIVE_MESSAGES_MAX
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue
from data_plane.core.turns import InTurns, at_once
from data_plane.operations.kinesis_queue import (
    KnownKinesisQueues,
    permission,
    queue_of,
    while_there,
)
from data_plane.protocol.operation import Call, Operation, Params, Work
from data_plane.protocol.queue_shapes import RECEIVE_INPUT, RECEIVE_OUTPUT, WAIT

_US_PER_S: Final = 1_000_000
_ID_BYTES: Final = 16


class ReceivesRecords(Protocol):
    """The engine, as far as it delivers records."""

    async def receive_records(
        self, queue: Queue, *, count: int, visibility_s: int, until_us: int
    ) -> list[Delivery]:
        """Lease up to `count` records for `visibility_s`, waiting for a first one."""
        ...


def receive_queue_records(
    engine: ReceivesRecords, queues: KnownKinesisQueues, in_turns: InTurns = at_once
) -> Operation:
    """The operation over these queues: records that are no dead letters."""
    return _receiving("ReceiveQueueRecords", engine, queues, in_turns, of_dead=False)


def receive_dead_letter_queue_records(
    engine: ReceivesRecords, queues: KnownKinesisQueues, in_turns: InTurns = at_once
) -> Operation:
    """The operation over these queues: dead letters, which stay in their queue."""
    return _receiving("ReceiveDeadLetterQueueRecords", engine, queues, in_turns, of_dead=True)


def _receiving(
    name: str,
    engine: ReceivesRecords,
    queues: KnownKinesisQueues,
    in_turns: InTurns,
    *,
    of_dead: bool,
) -> Operation:
    async def perform(call: Call) -> Params:
        params = call.params
        queue = replace(await queue_of(queues, call, params["QueueARN"]), of_dead=of_dead)
        wait_s = params.get(WAIT, KINESIS_QUEUE_WAIT_S_DEFAULT)
        receiving = engine.receive_records(
            queue,
            count=params.get("Limit", RECEIVE_MESSAGES_MAX),
            visibility_s=params.get("VisibilityTimeoutSeconds", queue.visibility_timeout_s),
            until_us=call.now_us + wait_s * _US_PER_S,
        )
        deliveries = await while_there(queue, receiving)
        return await in_turns(_rendered(queue, deliveries))

    return Operation(
        name,
        RECEIVE_INPUT,
        RECEIVE_OUTPUT,
        perform,
        on_queue=False,
        measure=_measure,
        permissions=permission(name),
        wait_member=WAIT,
        wait_default_s=KINESIS_QUEUE_WAIT_S_DEFAULT,
    )


def _rendered(
    queue: Queue, deliveries: Sequence[Delivery]
) -> Generator[None, None, dict[str, Any]]:
    """The records, one at a time: each may be long."""
    records: list[dict[str, Any]] = []
    for delivery in deliveries:
        message = delivery.message
        # A record that was put without a key has its sequence number as its group.
        has_key = message.group != message.deduplication_id
        records.append(
            {
                "ReceiptHandle": delivery.receipt_handle,
                "RecordId": _record_id(queue, message),
                **({"PartitionKey": message.group} if has_key else {}),
                "Data": _data(message),
                "ApproximateArrivalTimestamp": message.sent_ms,
                "FirstReceiveTimestamp": delivery.first_received_ms,
                "ReceiveCount": delivery.receive_count,
            }
        )
        yield
    return {"QueueRecords": records}


def _record_id(queue: Queue, message: Message) -> str:
    """The same in every queue over the stream, and in every delivery."""
    record = f"{queue.stream_uid}|{message.deduplication_id}"
    return blake2b(record.encode(), digest_size=_ID_BYTES).hexdigest()


def _data(message: Message) -> bytes:
    """What was put: a message has it in base64 where it is no text, and says so."""
    return base64.b64decode(message.body) if message.attributes else message.body.encode()


def _measure(_params: Params, output: Params) -> Work:
    records = output["QueueRecords"]
    size_bytes = sum(
        len(record["Data"]) + len(record.get("PartitionKey", "").encode()) for record in records
    )
    return Work(len(records), size_bytes)

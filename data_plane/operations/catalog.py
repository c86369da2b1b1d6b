"""The message operations that every entry point serves."""

from typing import Protocol

from data_plane.core.sealing import TokenSeal
from data_plane.core.turns import InTurns, at_once
from data_plane.operations.browse_messages import browse_messages
from data_plane.operations.change_message_visibility import (
    change_message_visibility,
    change_message_visibility_batch,
)
from data_plane.operations.delete_message import delete_message, delete_message_batch
from data_plane.operations.get_records import get_records
from data_plane.operations.get_shard_iterator import get_shard_iterator
from data_plane.operations.kinesis_queue import KnownKinesisQueues
from data_plane.operations.message_engine import MessageEngine
from data_plane.operations.put_records import CheckRoom, Puts, put_record, put_records
from data_plane.operations.receive_message import receive_message
from data_plane.operations.receive_queue_records import (
    ReceivesRecords,
    receive_dead_letter_queue_records,
    receive_queue_records,
)
from data_plane.operations.send_message import send_message, send_message_batch
from data_plane.operations.settle_queue_records import (
    SettlesRecords,
    acknowledge_dead_letter_queue_records,
    acknowledge_queue_records,
    restore_dead_letter_queue_records,
    update_dead_letter_queue_records_visibility,
    update_queue_records_visibility,
)
from data_plane.operations.stream_address import KnownStreams
from data_plane.operations.strict_streams import StrictStreams
from data_plane.ports import Waits
from data_plane.protocol.operation import Operation
from data_plane.streams.engine import Streams


class MovesRecords(ReceivesRecords, SettlesRecords, Protocol):
    """The engine of queues of the Kinesis API."""


def extension_operations(engine: MessageEngine) -> tuple[Operation, ...]:
    """Actions on messages that SQS does not have."""
    return (browse_messages(engine),)


def message_operations(engine: MessageEngine, in_turns: InTurns = at_once) -> tuple[Operation, ...]:
    """All actions of SQS on messages, over one engine. Long work is done in turns."""
    return (
        send_message(engine, in_turns),
        send_message_batch(engine, in_turns),
        receive_message(engine, in_turns),
        delete_message(engine),
        delete_message_batch(engine),
        change_message_visibility(engine),
        change_message_visibility_batch(engine),
    )


def queue_record_operations(
    engine: MovesRecords, queues: KnownKinesisQueues, in_turns: InTurns = at_once
) -> tuple[Operation, ...]:
    """All actions of Kinesis on records that queues deliver, over one engine."""
    return (
        receive_queue_records(engine, queues, in_turns),
        acknowledge_queue_records(engine, queues),
        update_queue_records_visibility(engine, queues),
        receive_dead_letter_queue_records(engine, queues, in_turns),
        acknowledge_dead_letter_queue_records(engine, queues),
        update_dead_letter_queue_records_visibility(engine, queues),
        restore_dead_letter_queue_records(engine, queues),
    )


def record_operations(  # noqa: PLR0913, PLR0917 - ports, and what its server decides
    engine: Streams,
    streams: KnownStreams,
    seal: TokenSeal,
    waits: Waits,
    check_room: CheckRoom | None = None,
    strict: StrictStreams | None = None,
) -> tuple[Operation, ...]:
    """All actions of Kinesis on records, over one engine, as far as there is room."""
    puts = Puts(engine, streams, waits, check_room, strict)
    return (
        put_record(puts),
        put_records(puts),
        get_shard_iterator(engine, streams, seal, strict),
        get_records(engine, streams, seal, waits.in_turns, strict),
    )

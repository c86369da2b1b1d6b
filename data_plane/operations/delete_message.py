"""DeleteMessage and DeleteMessageBatch."""

from typing import Final

from data_plane.core import receipt_handle
from data_plane.operations.batch import (
    DONE,
    batch_output,
    checked_entries,
    entries_done,
    outcomes_of,
    queue_of,
)
from data_plane.operations.message_engine import MessageEngine
from data_plane.protocol.message_shapes import (
    DELETE_MESSAGE_BATCH_INPUT,
    DELETE_MESSAGE_BATCH_OUTPUT,
    DELETE_MESSAGE_INPUT,
    NOTHING,
)
from data_plane.protocol.operation import Call, Operation, Params, Work

ENTRY_NAME: Final = "DeleteMessageBatchRequestEntry"


def delete_message(engine: MessageEngine) -> Operation:
    """DeleteMessage: also with an old handle, and more than once."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        handle = receipt_handle.decode(call.params["ReceiptHandle"], queue)
        (refusal,) = await engine.delete(queue, [handle])
        if refusal is not None:
            raise refusal
        return DONE

    return Operation(
        "DeleteMessage", DELETE_MESSAGE_INPUT, NOTHING, perform, measure=_measure_delete
    )


def delete_message_batch(engine: MessageEngine) -> Operation:
    """DeleteMessageBatch: an entry with a wrong handle fails alone."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        entries = checked_entries(call.params, ENTRY_NAME)
        outcomes = await outcomes_of(
            entries,
            ENTRY_NAME,
            ("ReceiptHandle",),
            lambda entry: receipt_handle.decode(entry["ReceiptHandle"], queue),
            lambda handles: engine.delete(queue, handles),
        )
        return batch_output(entries, outcomes)

    return Operation(
        "DeleteMessageBatch",
        DELETE_MESSAGE_BATCH_INPUT,
        DELETE_MESSAGE_BATCH_OUTPUT,
        perform,
        measure=entries_done,
        action="DeleteMessage",
    )


def _measure_delete(_params: Params, _output: Params) -> Work:
    return Work(messages=1)

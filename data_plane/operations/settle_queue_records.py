"""What becomes of records that were received from a queue: acknowledged, hidden, restored.

AcknowledgeQueueRecords, UpdateQueueRecordsVisibility, the same two of dead letters, and
RestoreDeadLetterQueueRecords. Each entry succeeds or fails by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from data_plane.core import receipt_handle
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.settling import ACKNOWLEDGE, HIDE, RESTORE, Wish
from data_plane.operations.kinesis_queue import (
    KnownKinesisQueues,
    operation,
    queue_of,
    while_there,
)
from data_plane.ports import CellUnavailableError
from data_plane.protocol.operation import Call, Operation, Params, Work
from data_plane.protocol.queue_shapes import ENTRIES_OUTPUT, HANDLES_INPUT, VISIBILITY_INPUT

Outcome = RefusedError | CellUnavailableError | None

_INTERNAL_FAILURE: Final = {
    "ErrorCode": "InternalFailureException",
    "ErrorMessage": "Internal Service Failure",
}


class SettlesRecords(Protocol):
    """The engine, as far as records are settled that it has delivered."""

    async def settle(self, queue: Queue, wishes: Sequence[Wish]) -> list[Outcome]:
        """Of each wish: why it cannot be fulfilled, or was not."""
        ...


def acknowledge_queue_records(engine: SettlesRecords, queues: KnownKinesisQueues) -> Operation:
    """The operation over these queues: records are not received any more."""
    return _settling("AcknowledgeQueueRecords", ACKNOWLEDGE, engine, queues)


def update_queue_records_visibility(
    engine: SettlesRecords, queues: KnownKinesisQueues
) -> Operation:
    """The operation over these queues: records are hidden for so long from now; 0 shows them."""
    return _settling("UpdateQueueRecordsVisibility", HIDE, engine, queues)


def acknowledge_dead_letter_queue_records(
    engine: SettlesRecords, queues: KnownKinesisQueues
) -> Operation:
    """The operation over these queues: dead letters are not received any more."""
    return _settling("AcknowledgeDeadLetterQueueRecords", ACKNOWLEDGE, engine, queues, of_dead=True)


def update_dead_letter_queue_records_visibility(
    engine: SettlesRecords, queues: KnownKinesisQueues
) -> Operation:
    """The operation over these queues: dead letters are hidden for so long from now."""
    return _settling("UpdateDeadLetterQueueRecordsVisibility", HIDE, engine, queues, of_dead=True)


def restore_dead_letter_queue_records(
    engine: SettlesRecords, queues: KnownKinesisQueues
) -> Operation:
    """The operation over these queues: dead letters are received again, as if never before."""
    return _settling("RestoreDeadLetterQueueRecords", RESTORE, engine, queues, of_dead=True)


def _settling(
    name: str,
    act: str,
    engine: SettlesRecords,
    queues: KnownKinesisQueues,
    *,
    of_dead: bool = False,
) -> Operation:
    async def perform(call: Call) -> Params:
        params = call.params
        queue = replace(await queue_of(queues, call, params["QueueARN"]), of_dead=of_dead)
        return _told(params["Entries"], await _outcomes(engine, queue, act, params["Entries"]))

    given = VISIBILITY_INPUT if act == HIDE else HANDLES_INPUT
    return operation(name, given, ENTRIES_OUTPUT, perform, _measure)


async def _outcomes(
    engine: SettlesRecords, queue: Queue, act: str, entries: Sequence[Params]
) -> list[Outcome]:
    """What became of each entry. Raises CellUnavailableError where nothing could be done."""
    outcomes: list[Outcome] = []
    readable: list[tuple[int, Wish]] = []
    for position, entry in enumerate(entries):
        try:
            handle = receipt_handle.decode(entry["ReceiptHandle"], queue)
        except RefusedError:
            outcomes.append(
                RefusedError(INVALID_ARGUMENT, "The receipt handle is not one of this queue.")
            )
            continue
        outcomes.append(None)
        wish = Wish(handle, act, entry.get("VisibilityTimeoutSeconds", 0))
        readable.append((position, wish))
    if not readable:
        return outcomes
    found = await while_there(queue, engine.settle(queue, [wish for _, wish in readable]))
    away = [one for one in found if isinstance(one, CellUnavailableError)]
    if len(away) == len(found):
        raise away[0]
    for (position, _), outcome in zip(readable, found, strict=True):
        outcomes[position] = outcome
    return outcomes


def _told(entries: Sequence[Params], outcomes: Sequence[Outcome]) -> Params:
    successful: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry, outcome in zip(entries, outcomes, strict=True):
        told = {"ReceiptHandle": entry["ReceiptHandle"]}
        match outcome:
            case None:
                successful.append(told)
            case RefusedError():
                why = {"ErrorCode": outcome.fault.code, "ErrorMessage": outcome.message}
                failed.append(told | why)
            case _:
                failed.append(told | _INTERNAL_FAILURE)
    return {"Successful": successful, "Failed": failed}


def _measure(_params: Params, output: Params) -> Work:
    return Work(messages=len(output["Successful"]), failed_entries=len(output["Failed"]))

"""ChangeMessageVisibility and ChangeMessageVisibilityBatch."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from data_plane.core import receipt_handle
from data_plane.core.errors import RefusedError, invalid_parameter
from data_plane.core.extended_times import extended_visibility_s
from data_plane.core.limits import VISIBILITY_TIMEOUT_S_MAX
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.operations.batch import (
    DONE,
    Entry,
    batch_output,
    checked_entries,
    entries_done,
    outcomes_of,
    queue_of,
)
from data_plane.operations.message_engine import MessageEngine
from data_plane.protocol.message_shapes import (
    CHANGE_MESSAGE_VISIBILITY_BATCH_INPUT,
    CHANGE_MESSAGE_VISIBILITY_BATCH_OUTPUT,
    CHANGE_MESSAGE_VISIBILITY_INPUT,
    NOTHING,
)
from data_plane.protocol.operation import Call, Operation, Params

ENTRY_NAME: Final = "ChangeMessageVisibilityBatchRequestEntry"


def check_visibility_timeout(timeout_s: int) -> None:
    """Raise RefusedError unless a message may be hidden for so long."""
    if not 0 <= timeout_s <= VISIBILITY_TIMEOUT_S_MAX:
        raise invalid_parameter(
            "VisibilityTimeout",
            timeout_s,
            f"Must be >= 0 and <= {VISIBILITY_TIMEOUT_S_MAX}, if provided.",
        )


def change_message_visibility(engine: MessageEngine) -> Operation:
    """ChangeMessageVisibility: hide a message for so long from now; 0 shows it at once."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        change = _read_change(call.params, queue)
        (refusal,) = await _change(engine, queue, [change], repeated=call.attempt > 1)
        if refusal is not None:
            raise refusal
        return DONE

    return Operation("ChangeMessageVisibility", CHANGE_MESSAGE_VISIBILITY_INPUT, NOTHING, perform)


def change_message_visibility_batch(engine: MessageEngine) -> Operation:
    """ChangeMessageVisibilityBatch: an entry that breaks a rule fails alone."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        entries = checked_entries(call.params, ENTRY_NAME)
        outcomes = await outcomes_of(
            entries,
            ENTRY_NAME,
            ("ReceiptHandle", "VisibilityTimeout"),
            lambda entry: _read_change(entry, queue),
            lambda changes: _change(engine, queue, changes, repeated=call.attempt > 1),
        )
        return batch_output(entries, outcomes)

    return Operation(
        "ChangeMessageVisibilityBatch",
        CHANGE_MESSAGE_VISIBILITY_BATCH_INPUT,
        CHANGE_MESSAGE_VISIBILITY_BATCH_OUTPUT,
        perform,
        measure=entries_done,
        action="ChangeMessageVisibility",
    )


class _Change(NamedTuple):
    """`extended`: the caller has asked for it beyond the bounds of SQS."""

    handle: ReceiptHandle
    timeout_s: int
    extended: bool


def _read_change(params: Entry, queue: Queue) -> _Change:
    timeout_s = extended_visibility_s(params, queue)
    extended = timeout_s is not None
    if timeout_s is None:
        timeout_s = params["VisibilityTimeout"]
        check_visibility_timeout(timeout_s)
    return _Change(receipt_handle.decode(params["ReceiptHandle"], queue), timeout_s, extended)


async def _change(
    engine: MessageEngine, queue: Queue, changes: Sequence[_Change], *, repeated: bool
) -> Sequence[RefusedError | None]:
    """Change all of them, those within the bounds of SQS first: one outcome for each."""
    outcomes: list[RefusedError | None] = [None] * len(changes)
    for extended in (False, True):
        places = [place for place, change in enumerate(changes) if change.extended == extended]
        wanted = [(changes[place].handle, changes[place].timeout_s) for place in places]
        if wanted:
            found = await engine.change_visibility(
                queue, wanted, extended=extended, repeated=repeated
            )
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
    return outcomes

"""What all batches share: rules about entries, and answers in two lists."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from data_plane.core.errors import (
    BATCH_ENTRY_IDS_NOT_DISTINCT,
    EMPTY_BATCH_REQUEST,
    INVALID_BATCH_ENTRY_ID,
    TOO_MANY_ENTRIES,
    RefusedError,
    missing_parameter,
    of_entry,
)
from data_plane.core.identifiers import is_batch_entry_id
from data_plane.core.limits import BATCH_ENTRIES_MAX, BATCH_ENTRY_ID_CHARS_MAX
from data_plane.core.queue import Queue
from data_plane.protocol.extension_shapes import is_given
from data_plane.protocol.operation import Call, Params, Work

T = TypeVar("T")

Entry = Mapping[str, Any]
Outcome = Entry | RefusedError
"""What became of an entry: its members in the answer beside the Id, or why it was refused."""

DONE: Final[Entry] = {}


def queue_of(call: Call) -> Queue:
    """The queue of a call to an operation that names one."""
    if call.queue is None:
        raise TypeError("the front end resolves the queue before it calls an operation on one")
    return call.queue


def checked_entries(params: Params, entry_name: str) -> Sequence[Entry]:
    """The entries of a batch, once the rules that concern the whole batch hold.

    Raises RefusedError for the whole call: no entry or too many, ids that are missing, malformed or
    repeated. What else is wrong with an entry is its own affair (docs/promises.md, "Batches").
    """
    entries: Sequence[Entry] = params["Entries"]
    if not entries:
        raise RefusedError(
            EMPTY_BATCH_REQUEST, f"There should be at least one {entry_name} in the request."
        )
    if len(entries) > BATCH_ENTRIES_MAX:
        raise RefusedError(
            TOO_MANY_ENTRIES,
            f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}. "
            f"You have sent {len(entries)}.",
        )
    seen: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        entry_id = entry.get("Id")
        if entry_id is None:
            raise missing_parameter(f"{entry_name}.{number}.Id")
        if not is_batch_entry_id(entry_id):
            raise RefusedError(
                INVALID_BATCH_ENTRY_ID,
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                f"underscores. It can be at most {BATCH_ENTRY_ID_CHARS_MAX} letters long.",
            )
        if entry_id in seen:
            raise RefusedError(BATCH_ENTRY_IDS_NOT_DISTINCT, f"Id {entry_id} repeated.")
        seen.add(entry_id)
    return entries


def check_given(entry: Entry, entry_name: str, number: int, required: Sequence[str]) -> None:
    """Raise RefusedError for the first of these members that is missing or empty."""
    for name in required:
        if not is_given(entry, name):
            raise missing_parameter(f"{entry_name}.{number}.{name}")


async def outcomes_of(
    entries: Sequence[Entry],
    entry_name: str,
    required: Sequence[str],
    read: Callable[[Entry], T],
    perform: Callable[[Sequence[T]], Awaitable[Sequence[RefusedError | None]]],
) -> Sequence[Outcome]:
    """Perform what could be read of the entries in one call, and say what became of each.

    One without a required member fails alone (aws/aws-sdk-go-v2 #2250 saw it of a timeout).
    """
    outcomes: list[Outcome] = []
    readable: list[tuple[int, T]] = []
    for position, entry in enumerate(entries):
        try:
            check_given(entry, entry_name, position + 1, required)
            readable.append((position, read(entry)))
            outcomes.append(DONE)
        except RefusedError as refusal:
            outcomes.append(refusal)
    if readable:
        refusals = await perform([read_entry for _, read_entry in readable])
        for (position, _), refused in zip(readable, refusals, strict=True):
            if refused is not None:
                outcomes[position] = refused
    return outcomes


def batch_output(entries: Sequence[Entry], outcomes: Sequence[Outcome]) -> Params:
    """The answer of a batch; a list without members is left out."""
    successful: list[Entry] = []
    failed: list[Entry] = []
    for entry, outcome in zip(entries, outcomes, strict=True):
        if isinstance(outcome, RefusedError):
            refusal = of_entry(outcome)
            failed.append(
                {
                    "Id": entry["Id"],
                    "Code": refusal.fault.code,
                    "Message": refusal.message,
                    "SenderFault": refusal.fault.sender,
                }
            )
        else:
            successful.append({"Id": entry["Id"], **outcome})
    output = {}
    if successful:
        output["Successful"] = successful
    if failed:
        output["Failed"] = failed
    return output


def entries_done(_params: Params, output: Params) -> Work:
    """Work of a batch whose messages' sizes do not count."""
    return Work(
        messages=len(output.get("Successful", ())), failed_entries=len(output.get("Failed", ()))
    )

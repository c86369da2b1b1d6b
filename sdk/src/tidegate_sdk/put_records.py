"""One PutRecords: what it has of each record, and what the futures of its records are told."""

from collections.abc import Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any

from tidegate_sdk.outbox import PutBatch, StoredRecord, WaitingRecord


def is_wanted(record: WaitingRecord) -> bool:
    """Whether nobody has cancelled it; from now on nobody can."""
    stored = record.stored
    if stored.running() or (stored.done() and not stored.cancelled()):
        return False
    # Where another thread is as far, it does what is to do.
    with suppress(RuntimeError):
        return stored.set_running_or_notify_cancel()
    return False


def entry(record: WaitingRecord) -> dict[str, Any]:
    """The record as PutRecords has it."""
    members: dict[str, Any] = {"Data": record.data}
    if record.partition_key is not None:
        members["PartitionKey"] = record.partition_key
    if record.explicit_hash_key is not None:
        members["ExplicitHashKey"] = str(record.explicit_hash_key)
    return members


def settle(batch: PutBatch, results: Sequence[dict[str, Any]]) -> None:
    """Tell those that are stored where they are."""
    for record, result in zip(batch.records, results, strict=True):
        if "SequenceNumber" in result:
            # It is told already by an earlier attempt, or because the producer was closed.
            with suppress(InvalidStateError):
                record.stored.set_result(StoredRecord(result["ShardId"], result["SequenceNumber"]))


def fail(records: Sequence[WaitingRecord], error: Exception) -> None:
    """Tell those that are not told yet why they are not stored."""
    for record in records:
        with suppress(InvalidStateError):
            record.stored.set_exception(error)

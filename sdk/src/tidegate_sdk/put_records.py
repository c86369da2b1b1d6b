"""One PutRecords: what it has of each record, and what the futures of its records are told."""

from collections.abc import Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any, Final

from tidegate_sdk.future_callbacks import FutureCallbacks
from tidegate_sdk.outbox import HASH_KEY_MAX, PutBatch, StoredRecord, WaitingRecord
from tidegate_sdk.put_errors import DeliveryError, PartlyStoredError, like
from tidegate_sdk.steady_future import SteadyFuture

KEY_CHARS_MAX: Final = 256

_TOO_FAST: Final = "ProvisionedThroughputExceededException"
"""Of a record: it is not stored. After an InternalFailure nobody knows."""


def new_record(
    data: bytes,
    partition_key: str | None,
    explicit_hash_key: int | None,
    bytes_max: int,
    callbacks: FutureCallbacks,
) -> WaitingRecord:
    """A record that a stream takes, with a future that hands its callbacks on.

    Raises TypeError, ValueError.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data is bytes, not {type(data).__name__}: encode a text first")
    if not isinstance(partition_key, str | None):
        raise TypeError(f"a partition key is a text or None, not {type(partition_key).__name__}")
    if partition_key is not None and not 0 < len(partition_key) <= KEY_CHARS_MAX:
        raise ValueError(f"a partition key has 1 to {KEY_CHARS_MAX} characters")
    if not isinstance(explicit_hash_key, int | None):
        raise TypeError(f"a hash key is an int or None, not {type(explicit_hash_key).__name__}")
    if explicit_hash_key is not None and not 0 <= explicit_hash_key <= HASH_KEY_MAX:
        raise ValueError("a hash key is from 0 to 2**128 - 1")
    body = bytes(data)
    size_bytes = len(body) + len((partition_key or "").encode())
    if size_bytes > bytes_max:
        raise ValueError(f"a record of {size_bytes} bytes with its key: {bytes_max} are allowed")
    # An empty one counts, too: what is there is there by its bytes.
    size_bytes = max(1, size_bytes)
    future = SteadyFuture(callbacks)
    return WaitingRecord(body, partition_key, explicit_hash_key, size_bytes, future)


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


def partly_stored(results: Sequence[dict[str, Any]]) -> PartlyStoredError:
    """What an answer says in which records failed."""
    failed = [result for result in results if "ErrorCode" in result]
    return PartlyStoredError(
        f"{failed[0]['ErrorCode']}: {failed[0].get('ErrorMessage')}",
        may_be_stored=any(result["ErrorCode"] != _TOO_FAST for result in failed),
    )


def fail_sent(records: Sequence[WaitingRecord], why: str, cause: Exception | None) -> None:
    """Tell those that are not told yet that nobody knows whether they are stored."""
    late = DeliveryError(f"{why}: it may be stored or not", may_be_stored=True)
    late.__cause__ = cause
    fail(records, late)


def fail_unsent(records: Sequence[WaitingRecord], why: str, cause: Exception | None) -> None:
    """Tell those that are not told yet that they were never sent."""
    late = DeliveryError(why, may_be_stored=False)
    late.__cause__ = cause
    for record in records:
        is_wanted(record)
    fail(records, late)


def fail(records: Sequence[WaitingRecord], error: Exception) -> None:
    """Tell those that are not told yet why they are not stored, each by an error of its own."""
    for record in records:
        with suppress(InvalidStateError):
            record.stored.set_exception(like(error))

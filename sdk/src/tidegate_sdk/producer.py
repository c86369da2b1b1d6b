"""A producer of records: it gathers them, puts them in batches, and repeats what fails."""

import atexit
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tidegate_sdk import named_calls
from tidegate_sdk.clock import SYSTEM_CLOCK, Backoff, Clock, Spawn, start_thread
from tidegate_sdk.failures import is_passing
from tidegate_sdk.outbox import (
    HASH_KEY_MAX,
    WHOLE,
    HashRange,
    Outbox,
    RecordBatch,
    StoredRecord,
    WaitingRecord,
)

DELIVERY_S_MAX: Final = 150
"""Tidegate finds a repeated call for five minutes, and boto3 may take two for one call."""

RECORD_BYTES_MAX: Final = 1024 * 1024
KEY_CHARS_MAX: Final = 256

_REMAP_S_MIN: Final = 1.0
"""Between two looks at the shards."""

_log = logging.getLogger("tidegate_sdk")


class ProducerClosedError(RuntimeError):
    """The producer was closed, and takes no more records."""


class BufferFullError(TimeoutError):
    """The producer's buffer had no room for a record for as long as the caller would wait."""


class _PartlyStoredError(Exception):
    """Some records of a call failed."""


class DeliveryError(TimeoutError):
    """A record was not acknowledged in time.

    Where it `may_be_stored` it was sent, and no answer says what came of it: it may be stored, or
    be stored yet. Otherwise it was never sent. The last failure is the error's cause.
    """

    def __init__(self, message: str, *, may_be_stored: bool) -> None:
        super().__init__(message)
        self.may_be_stored = may_be_stored


def _new_name() -> str:
    return str(uuid.uuid4())  # noqa: TID251 - as botocore names its calls


class Producer:
    """Puts records into a stream, in the background, in order of each partition key.

    `client` is one that `tidegate_sdk.client(url, "kinesis")` makes, or boto3's; `stream` a name or
    an ARN. Records wait for others for up to `linger_s`, and go out by shard, 500 or
    `batch_bytes_max` at a time. Unacknowledged records take `buffer_bytes_max` at most; with more,
    `put` waits for up to `put_s_max`. What is not acknowledged `delivery_s_max` after its put fails
    with DeliveryError.

    `senders` is how many calls there are at a time, each for other shards. `clock`, `backoff`,
    `new_name` and `spawn` are for tests.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by its name
        self,
        client: Any,
        stream: str,
        *,
        linger_s: float = 0.05,
        batch_bytes_max: int = RECORD_BYTES_MAX,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        record_bytes_max: int = RECORD_BYTES_MAX,
        put_s_max: float = 60,
        delivery_s_max: float = 120,
        senders: int = 4,
        clock: Clock = SYSTEM_CLOCK,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        new_name: Callable[[], str] = _new_name,
        spawn: Spawn = start_thread,
    ) -> None:
        if not 0 < delivery_s_max <= DELIVERY_S_MAX:
            raise ValueError(f"delivery_s_max is above 0, and {DELIVERY_S_MAX} at most")
        named_calls.let_name(client, "PutRecords")
        self._client = client
        self._stream = {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}
        self._record_bytes_max = record_bytes_max
        self._put_s_max, self._delivery_s_max = put_s_max, delivery_s_max
        self._clock, self._backoff, self._new_name = clock, backoff, new_name
        lock = threading.RLock()
        self._work, self._settled = threading.Condition(lock), threading.Condition(lock)
        self._outbox = Outbox(
            linger_s=linger_s, batch_bytes_max=batch_bytes_max, bytes_max=buffer_bytes_max
        )
        self._remap_s: float | None = (now_s := clock.now_s())
        self._remap_failures = 0
        self._remapped_s = now_s - _REMAP_S_MIN
        self._last_failure: Exception | None = None
        self._closing = self._ended = False
        atexit.register(self.close)
        self._threads = [spawn(self._send, f"tidegate-producer-{n}") for n in range(senders)]

    def put(
        self,
        data: bytes,
        partition_key: str | None,
        *,
        explicit_hash_key: int | None = None,
        timeout_s: float | None = None,
    ) -> "Future[StoredRecord]":
        """Take a record in; the future tells where it is stored, or why it is not.

        Waits while the buffer is full, `put_s_max` or `timeout_s`. A partition key of None is for
        streams that spread their records by themselves. What a future's callbacks do holds up a
        sender. Raises ValueError, BufferFullError, ProducerClosedError.
        """
        record = self._record(data, partition_key, explicit_hash_key)
        limit_s = self._put_s_max if timeout_s is None else timeout_s
        with self._settled:
            if not self._wait_for(lambda: self._closing or self._has_room(record), limit_s):
                raise BufferFullError(f"no room in the buffer within {limit_s} s")
            if self._closing:
                raise ProducerClosedError("the producer is closed")
            record.put_s = self._clock.now_s()
            if self._outbox.add(record):
                self._work.notify()
        return record.stored

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is there now without lingering; whether all of it is settled.

        Settled is what is stored, or has failed, as its future tells.
        """
        with self._settled:
            order = self._outbox.last_order
            self._outbox.flush(order)
            self._work.notify_all()
            return self._wait_for(lambda: self._outbox.is_stored(order), timeout_s)

    def close(self, timeout_s: float = 30) -> None:
        """Take no more, send what is there, and fail what is not acknowledged in time.

        May be called again, from any thread, also from a handler of signals' main program. A
        program that ends without it calls it at its exit.
        """
        with self._settled:
            self._closing = True
            self._settled.notify_all()
        is_settled = self.flush(timeout_s)
        with self._settled:
            self._ended = True
            waiting = self._outbox.take_older(self._clock.now_s())
            batches = self._outbox.take_batches()
            self._work.notify_all()
            self._settled.notify_all()
        self._fail_unsent(waiting, "the producer was closed before it could be sent")
        for batch in batches:
            self._settle_late(batch, "the producer was closed before an answer came")
        atexit.unregister(self.close)
        for thread in self._threads if is_settled else ():
            if isinstance(thread, threading.Thread) and thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _record(
        self, data: bytes, partition_key: str | None, explicit_hash_key: int | None
    ) -> WaitingRecord:
        if partition_key is not None and not 0 < len(partition_key) <= KEY_CHARS_MAX:
            raise ValueError(f"a partition key has 1 to {KEY_CHARS_MAX} characters")
        if explicit_hash_key is not None and not 0 <= explicit_hash_key <= HASH_KEY_MAX:
            raise ValueError("a hash key is from 0 to 2**128 - 1")
        size_bytes = len(data) + len((partition_key or "").encode())
        if size_bytes > self._record_bytes_max:
            raise ValueError(
                f"a record of {size_bytes} bytes with its key: {self._record_bytes_max} are allowed"
            )
        return WaitingRecord(bytes(data), partition_key, explicit_hash_key, size_bytes, 0.0)

    def _has_room(self, record: WaitingRecord) -> bool:
        """Whether the record may come in; where it may not, senders stop lingering."""
        has_room = self._outbox.has_room(record.size_bytes)
        if not has_room:
            self._work.notify_all()
        return has_room

    def _wait_for(self, is_so: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until something is so, or for so long; whether it is. The condition is held."""
        until_s = None if timeout_s is None else self._clock.now_s() + timeout_s
        while not is_so():
            left_s = None if until_s is None else until_s - self._clock.now_s()
            if left_s is not None and left_s <= 0:
                return False
            self._clock.wait(self._settled, left_s)
        return True

    def _send(self) -> None:
        """What a sender does until the end."""
        while not self._ended:
            if not self.do_next():
                with self._work:
                    if not self._ended:
                        self._clock.wait(self._work, self._idle_s())

    def do_next(self) -> bool:
        """Do what is due now: look at the shards, give up what is late, send a batch.

        Whether anything was due. The senders call it.
        """
        now_s = self._clock.now_s()
        batch = None
        with self._work:
            remaps = self._remap_s is not None and self._remap_s <= now_s
            remaps = remaps and self._outbox.size_bytes > 0
            if remaps:
                self._remap_s = None
            late = self._outbox.take_older(now_s - self._delivery_s_max)
            if not remaps and not self._ended:
                batch = self._outbox.next_batch(now_s, self._new_name)
            if late:
                self._settled.notify_all()
        self._fail_unsent(late, f"not sent within {self._delivery_s_max} s")
        if remaps:
            self._look_at_shards()
        if batch is not None:
            self._put(batch)
        return bool(remaps or late or batch)

    def _idle_s(self) -> float | None:
        """For how long nothing is due."""
        now_s = self._clock.now_s()
        times_s = [self._outbox.next_s()]
        if self._outbox.size_bytes:
            times_s.append(self._remap_s)
            times_s.append(now_s + self._delivery_s_max)
        known_s = [time_s for time_s in times_s if time_s is not None]
        return max(0.0, min(known_s) - now_s) if known_s else None

    def _look_at_shards(self) -> None:
        try:
            ranges = list(self._open_shards())
        except Exception as error:  # noqa: BLE001 - the server places records by itself
            self._remap_failures += 1
            pause_s = self._backoff.pause_s(self._remap_failures)
            if is_passing(error):
                with self._work:
                    self._remap_s = self._clock.now_s() + pause_s
            else:
                _log.warning("Batches are not cut by shards, which cannot be listed: %s", error)
            return
        with self._work:
            self._remap_failures = 0
            self._remapped_s = self._clock.now_s()
            self._outbox.recut(ranges)
            self._work.notify_all()

    def _open_shards(self) -> Iterable[HashRange]:
        asked: dict[str, Any] = {**self._stream, "ShardFilter": {"Type": "AT_LATEST"}}
        while asked:
            page = self._client.list_shards(**asked)
            for shard in page["Shards"]:
                keys = shard["HashKeyRange"]
                if "EndingSequenceNumber" not in shard["SequenceNumberRange"]:
                    yield HashRange(
                        int(keys["StartingHashKey"]), int(keys["EndingHashKey"]), shard["ShardId"]
                    )
            token = page.get("NextToken")
            asked = {"NextToken": token} if token else {}

    def _put(self, batch: RecordBatch) -> None:
        """Send a batch, once more if it was sent before, and note what came of it."""
        batch.attempts += 1
        params = {**self._stream, "Records": [_entry(record) for record in batch.records]}
        try:
            answer = named_calls.call(
                self._client.put_records, batch.name, batch.attempts - 1, params
            )
        except Exception as error:  # noqa: BLE001 - the futures tell it
            self._note_failure(batch, error)
            return
        results = answer["Records"]
        _settle(batch, results)
        if answer.get("FailedRecordCount", 0):
            said = next(result for result in results if "ErrorCode" in result)
            text = f"{said['ErrorCode']}: {said.get('ErrorMessage')}"
            self._note_failure(batch, _PartlyStoredError(text))
            return
        self._note_stored(batch, {result["ShardId"] for result in results})

    def _note_stored(self, batch: RecordBatch, shard_ids: set[str]) -> None:
        with self._work:
            if self._ended:
                return
            known = self._outbox.shard_ids
            if WHOLE.shard_id not in known and not shard_ids <= known and self._remap_s is None:
                self._remap_s = max(self._clock.now_s(), self._remapped_s + _REMAP_S_MIN)
            self._done(batch)

    def _done(self, batch: RecordBatch) -> None:
        """The batch is settled: others may follow. The lock is held."""
        self._outbox.done(batch)
        self._work.notify_all()
        self._settled.notify_all()

    def _note_failure(self, batch: RecordBatch, error: Exception) -> None:
        """Repeat the batch later, or give it up."""
        is_refused = not isinstance(error, _PartlyStoredError) and not is_passing(error)
        now_s = self._clock.now_s()
        until_s = batch.put_s + self._delivery_s_max
        again_s = min(until_s, now_s + self._backoff.pause_s(batch.attempts))
        with self._work:
            if self._ended:
                return
            self._last_failure = error
            if not is_refused and now_s < until_s:
                self._outbox.put_again(batch, again_s)
                self._work.notify()
                return
        # Its futures tell before others may overtake it.
        if is_refused:
            _fail(batch.records, error)
        else:
            self._settle_late(batch, f"not acknowledged within {self._delivery_s_max} s")
        with self._work:
            if not self._ended:
                self._done(batch)

    def _settle_late(self, batch: RecordBatch, why: str) -> None:
        late = DeliveryError(f"{why}: it may be stored or not", may_be_stored=True)
        late.__cause__ = self._last_failure
        _fail(batch.records, late)

    def _fail_unsent(self, records: Sequence[WaitingRecord], why: str) -> None:
        for record in records:
            if record.stored.set_running_or_notify_cancel():
                late = DeliveryError(why, may_be_stored=False)
                late.__cause__ = self._last_failure
                record.stored.set_exception(late)


def _entry(record: WaitingRecord) -> dict[str, Any]:
    entry: dict[str, Any] = {"Data": record.data}
    if record.partition_key is not None:
        entry["PartitionKey"] = record.partition_key
    if record.explicit_hash_key is not None:
        entry["ExplicitHashKey"] = str(record.explicit_hash_key)
    return entry


def _settle(batch: RecordBatch, results: Sequence[dict[str, Any]]) -> None:
    """Tell those that are stored where they are."""
    for record, result in zip(batch.records, results, strict=True):
        if "SequenceNumber" in result:
            # It is told already by an earlier attempt, or because the producer was closed.
            with suppress(InvalidStateError):
                record.stored.set_result(StoredRecord(result["ShardId"], result["SequenceNumber"]))


def _fail(records: Sequence[WaitingRecord], error: Exception) -> None:
    for record in records:
        with suppress(InvalidStateError):
            record.stored.set_exception(error)

"""A producer of records: it gathers them, puts them in batches, and repeats what fails.

An exception of a signal's handler (Ctrl-C) may come between any two steps of who calls. Who holds a
lock then may hold it for ever. So no thread of a producer takes a lock that callers take: one
thread, the keeper, has the outbox for itself, and all others hand it what it is to do by a
SimpleQueue, whose `put` happens whole or not at all.

What a program does in callbacks of futures may take any time. It has a thread of its own.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

from tidegate_sdk import named_calls
from tidegate_sdk.batch_sending import BatchSending, Step
from tidegate_sdk.clock import SYSTEM_CLOCK, Backoff, Clock, Spawn, in_bounds, start_thread
from tidegate_sdk.failures import is_over_once_taken, is_passing
from tidegate_sdk.future_callbacks import FutureCallbacks
from tidegate_sdk.open_shards import open_shards
from tidegate_sdk.option_checks import check_seconds, check_text, check_timeout, check_whole
from tidegate_sdk.outbox import (
    WHOLE,
    HashRange,
    Outbox,
    PutBatch,
    StoredRecord,
    WaitingRecord,
)
from tidegate_sdk.producer_options import check_client, check_delivery
from tidegate_sdk.put_errors import BufferFullError, ProducerClosedError
from tidegate_sdk.put_records import fail_sent, fail_unsent, is_wanted, new_record

RECORD_BYTES_MAX: Final = 1024 * 1024

_REMAP_S_MIN: Final = 1.0
"""Between two looks at the shards."""

_KEEPER_S_MAX: Final = 5.0
"""The keeper, which waits for nobody, answers within milliseconds."""

_CALLBACKS_PART: Final = 0.1
"""Of the time of `close`: what it gives up then is told to callbacks within this."""

_log = logging.getLogger("tidegate_sdk")

_Told = SimpleQueue[bool]


class Producer:
    """Puts records into a stream, in the background, in order of each partition key.

    `client` is one that `tidegate_sdk.client(url, "kinesis")` makes, or boto3's; `stream` a name or
    an ARN. Records wait for others for up to `linger_s`, and go out by shard, 500 or
    `batch_bytes_max` at a time. Unacknowledged records take `buffer_bytes_max` of memory at
    most, counted with what Python takes for each (RECORD_OVERHEAD_BYTES); with more, `put` waits
    for up to `put_s_max`. What is not acknowledged `delivery_s_max` after its put fails with
    DeliveryError.

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
        new_name: Callable[[], str] = named_calls.new_name,
        spawn: Spawn = start_thread,
    ) -> None:
        check_client(client)
        check_text("stream", stream)
        check_seconds("linger_s", linger_s)
        check_seconds("put_s_max", put_s_max)
        check_delivery(delivery_s_max)
        check_whole("batch_bytes_max", batch_bytes_max, 1)
        check_whole("buffer_bytes_max", buffer_bytes_max, 1)
        check_whole("record_bytes_max", record_bytes_max, 1)
        check_whole("senders", senders, 1)
        named_calls.let_name(client, "PutRecords")
        self._client = client
        self._stream_name = stream
        self._stream = {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}
        self._record_bytes_max = record_bytes_max
        self._put_s_max, self._delivery_s_max = put_s_max, delivery_s_max
        self._clock, self._backoff, self._new_name = clock, backoff, new_name
        self._process_id = os.getpid()
        # Of callers: no thread of the producer takes it.
        self._gate = threading.RLock()
        self._put_bytes, self._bytes_max = 0, buffer_bytes_max
        self._events: SimpleQueue[Step] = SimpleQueue()
        self._calls: SimpleQueue[Step | None] = SimpleQueue()
        self._tellings: SimpleQueue[Step | None] = SimpleQueue()
        self._callbacks = FutureCallbacks(stream)
        # What follows is the keeper's.
        self._outbox = Outbox(linger_s=linger_s, batch_bytes_max=batch_bytes_max)
        self._wait_for_room: list[_Told] = []
        self._flushes: list[tuple[int, _Told]] = []
        self._senders = self._idle_senders = senders
        self._remap_s: float | None = (now_s := clock.now_s())
        self._remap_failures = 0
        self._remaps_once_stored = False
        self._remapped_s = now_s - _REMAP_S_MIN
        self._sending = BatchSending(
            client,
            stream,
            self._stream,
            self._outbox,
            note_stored=self._note_stored,
            delivery_s_max=delivery_s_max,
            clock=clock,
            backoff=backoff,
            new_name=new_name,
        )
        # Each is written by one step, and read by any thread.
        self._closing = self._ended = False
        self._free_bytes = 0
        """Of memory: of all records that came in, those that are settled and called back."""
        prefix = f"tidegate-producer-{stream.rpartition('/')[2]}"
        self._threads = [spawn(work, f"{prefix}-{name}") for name, work in self._works()]
        atexit.register(self.close)

    def _works(self) -> Iterator[tuple[str, Step]]:
        """What each thread does, by its name."""
        yield "keeper", self._keep
        yield "teller", partial(_work_off, self._tellings)
        yield "callbacks", partial(_work_off, self._callbacks.steps)
        for number in range(self._senders):
            yield f"{number}", partial(_work_off, self._calls)

    def put(
        self,
        data: bytes,
        partition_key: str | None,
        *,
        explicit_hash_key: int | None = None,
        timeout_s: float | None = None,
    ) -> "Future[StoredRecord]":
        """Take a record in; the future tells where it is stored, or why it is not.

        Waits while the buffer is full, `put_s_max` or `timeout_s`; not in a future's callback. A
        partition key of None is for streams that spread their records by themselves. Raises
        TypeError, ValueError, BufferFullError, ProducerClosedError.
        """
        check_timeout(timeout_s)
        self._refuse_fork()
        record = new_record(
            data,
            partition_key,
            explicit_hash_key,
            self._record_bytes_max,
            self._callbacks,
        )
        limit_s = self._put_s_max if timeout_s is None else timeout_s
        until_s = self._clock.now_s() + limit_s
        while (free_bytes := self._hand_over(record)) is not None:
            left_s = until_s - self._clock.now_s()
            if left_s <= 0:
                raise BufferFullError(f"no room in the buffer within {limit_s} s")
            told: _Told = SimpleQueue()
            self._tell_keeper(partial(self._note_full, told, free_bytes))
            self._clock.take(told, left_s)
        return record.stored

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is there now without lingering; whether all of it is settled.

        Settled is what is stored, or has failed, as its future tells. Raises TypeError, ValueError.
        """
        check_timeout(timeout_s)
        self._refuse_fork()
        told: _Told = SimpleQueue()
        self._tell_keeper(partial(self._note_flush, told))
        is_settled = self._clock.take(told, _KEEPER_S_MAX)
        if is_settled is False:
            is_settled = self._clock.take(told, timeout_s)
        return bool(is_settled)

    def close(self, timeout_s: float | None = 30) -> None:
        """Take no more, send what is there, and fail what is not acknowledged in time.

        None: it waits until all is settled, and callbacks have returned.
        May be called again, from any thread, also from a handler of signals' main program. A
        program that ends without it calls it at its exit. Threads whose calls or callbacks hang are
        left behind; they do not keep the program from ending. Raises TypeError, ValueError.
        """
        check_timeout(timeout_s)
        until_s = None if timeout_s is None else self._clock.now_s() + timeout_s
        self._closing = True
        if os.getpid() != self._process_id:
            return  # The threads are those of the process that this one is a fork of.
        self._tell_keeper(self._wake_puts)
        self.flush(None if timeout_s is None else timeout_s * (1 - _CALLBACKS_PART))
        told: _Told = SimpleQueue()
        self._tell_keeper(partial(self._end, told))
        self._clock.take(told, _KEEPER_S_MAX)
        atexit.unregister(self.close)
        for thread in self._threads:
            if isinstance(thread, threading.Thread) and thread is not threading.current_thread():
                left_s = None if until_s is None else until_s - self._clock.now_s()
                thread.join(in_bounds(left_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What callers do.

    def _refuse_fork(self) -> None:
        """A process that forks takes no thread along."""
        if os.getpid() != self._process_id:
            raise RuntimeError("this process is a fork of the producer's: make a producer here")

    def _hand_over(self, record: WaitingRecord) -> int | None:
        """Give a record to the keeper; where there is no room, how much was free by then.

        An exception may come between any two lines: where the record is handed over and not
        counted, it counts from when the keeper has it.
        """
        with self._gate:
            if self._closing:
                raise ProducerClosedError("the producer is closed")
            free_bytes = self._free_bytes
            held_bytes = self._held_bytes()
            is_full = held_bytes > 0 and held_bytes + record.held_bytes > self._bytes_max
            # Who makes room cannot wait for it.
            if is_full and not self._callbacks.is_running_here():
                return free_bytes
            record.put_s = self._clock.now_s()
            put_bytes = max(self._put_bytes, self._outbox.taken_bytes) + record.held_bytes
            self._events.put(partial(self._note_record, record))
            self._put_bytes = put_bytes
        if self._ended:
            self._take_in()
        return None

    def _held_bytes(self) -> int:
        """Of records that have no room again, those on their way to the keeper too."""
        free_bytes = self._free_bytes
        return max(self._put_bytes, self._outbox.taken_bytes) - free_bytes

    def _tell_keeper(self, event: Step) -> None:
        self._events.put(event)
        if self._ended:
            self._take_in()

    # What the keeper does.

    def _keep(self) -> None:
        """Until the end: take in what comes, and give out what is due."""
        while not self._ended:
            event = self._clock.take(self._events, self._idle_s())
            if event is not None:
                event()
            while self.do_next():
                pass
        self._take_in()

    def do_next(self) -> bool:
        """Take in what has come, and give out one thing that is due. Whether there was one."""
        self._take_in()
        now_s = self._clock.now_s()
        late = self._outbox.take_older(now_s - self._delivery_s_max)
        if late:
            self._tellings.put(partial(self._give_up, late))
            return True
        call = self._next_call(now_s) if self._idle_senders and not self._ended else None
        if call is not None:
            self._idle_senders -= 1
            self._calls.put(call)
        return call is not None

    def _take_in(self) -> None:
        """What has come by now. After the keeper's end whoever comes too late does it."""
        for _ in range(self._events.qsize()):
            with suppress(Empty):
                self._events.get_nowait()()

    def _next_call(self, now_s: float) -> Step | None:
        if self._remap_s is not None and self._remap_s <= now_s and self._outbox.held_bytes:
            self._remap_s = None
            return self._look_at_shards
        batch = self._outbox.next_batch(now_s, self._new_name)
        return None if batch is None else partial(self._put, batch)

    def _idle_s(self) -> float | None:
        """For how long nothing is due."""
        times_s = []
        if self._idle_senders:
            times_s.append(self._outbox.next_s())
            times_s.append(self._remap_s if self._outbox.held_bytes else None)
        if (oldest_s := self._outbox.oldest_s()) is not None:
            times_s.append(oldest_s + self._delivery_s_max)
        known_s = [time_s for time_s in times_s if time_s is not None]
        return max(0.0, min(known_s) - self._clock.now_s()) if known_s else None

    def _note_record(self, record: WaitingRecord) -> None:
        if self._ended:
            fail_unsent(
                [record],
                "the producer was closed before it could be sent",
                self._sending.last_failure,
            )
        else:
            self._outbox.add(record)

    def _note_full(self, told: _Told, free_bytes: int) -> None:
        """Somebody found no room when so much was free."""
        if self._closing or free_bytes != self._free_bytes:
            told.put(item=True)
        else:
            self._outbox.hurry()
            self._wait_for_room.append(told)

    def _note_room(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes
        self._wake_puts()

    def _wake_puts(self) -> None:
        waiting, self._wait_for_room = self._wait_for_room, []
        for told in waiting:
            told.put(item=True)

    def _note_flush(self, told: _Told) -> None:
        """Say whether all is settled now; if not, say later when it is."""
        order = self._outbox.last_order
        is_settled = self._ended or self._outbox.is_stored(order)
        told.put(is_settled)
        if not is_settled:
            self._outbox.flush(order)
            self._flushes.append((order, told))

    def _note_flushed(self) -> None:
        flushes, self._flushes = self._flushes, []
        for order, told in flushes:
            if self._outbox.is_stored(order):
                told.put(item=True)
            else:
                self._flushes.append((order, told))

    def _note_settled(self, settle: Step) -> None:
        if not self._ended:
            settle()
            # Slow callbacks slow puts down; so what waits for them is bounded, too.
            called_back = partial(self._note_room, self._outbox.settled_bytes)
            self._callbacks.steps.put(partial(self._tell_keeper, called_back))
            self._note_flushed()

    def _note_stored(self, batch: PutBatch, shard_ids: set[str]) -> None:
        known = self._outbox.shard_ids
        has_changed = WHOLE.shard_id not in known and not shard_ids <= known
        if (has_changed or self._remaps_once_stored) and self._remap_s is None:
            self._remaps_once_stored = False
            self._remap_s = max(self._clock.now_s(), self._remapped_s + _REMAP_S_MIN)
        self._outbox.done(batch)

    def _note_sender(self, outcome: Step) -> None:
        """A sender's call is over."""
        outcome()
        self._idle_senders += 1

    def _note_shards(self, ranges: Sequence[HashRange]) -> None:
        self._remap_failures = 0
        self._remapped_s = self._clock.now_s()
        self._outbox.recut(ranges)

    def _note_unlisted(self, *, is_passing: bool, is_over_once_stored: bool) -> None:
        self._remap_failures += 1
        self._remapped_s = self._clock.now_s()
        self._remaps_once_stored = is_over_once_stored
        if is_passing:
            pause_s = self._backoff.pause_s(self._remap_failures)
            self._remap_s = self._clock.now_s() + pause_s

    def _end(self, told: _Told) -> None:
        """Have given up what is left, and let the threads end."""
        if self._ended:
            told.put(item=True)
            return
        waiting = self._outbox.take_older(self._clock.now_s())
        tolds = [*(flush_told for _, flush_told in self._flushes), told]
        self._ended = True
        self._tellings.put(partial(self._give_up_left, waiting, self._outbox.take_batches(), tolds))
        self._tellings.put(None)
        for _ in range(self._senders):
            self._calls.put(None)

    # What senders do, and who tells what is given up.

    def _look_at_shards(self) -> None:
        outcome: Step
        try:
            outcome = partial(self._note_shards, list(open_shards(self._client, self._stream)))
        except Exception as error:  # noqa: BLE001 - the server places records by itself
            passes = is_passing(error)
            is_over = is_over_once_taken(error)
            outcome = partial(self._note_unlisted, is_passing=passes, is_over_once_stored=is_over)
            if not passes:
                text = "Batches for %s are not cut by shards, which cannot be listed: %s"
                _log.warning(text, self._stream_name, error)
        self._tell_keeper(partial(self._note_sender, outcome))

    def _put(self, batch: PutBatch) -> None:
        """Send a batch, once more if it was sent before, and note what came of it."""
        if self._ended:
            return
        if not batch.attempts:
            batch.records = [
                record for record in batch.records if record.stored.running() or is_wanted(record)
            ]
        outcome = self._sending.send(batch) if batch.records else partial(self._outbox.done, batch)
        self._tell_keeper(partial(self._note_sender, partial(self._note_settled, outcome)))

    def _give_up(self, late: Sequence[WaitingRecord]) -> None:
        fail_unsent(late, f"not sent within {self._delivery_s_max} s", self._sending.last_failure)
        self._tell_keeper(partial(self._note_settled, partial(self._outbox.forget, late)))

    def _give_up_left(
        self,
        waiting: Sequence[WaitingRecord],
        batches: Sequence[PutBatch],
        tolds: Sequence[_Told],
    ) -> None:
        """What is there when the producer is closed."""
        batched = [record for batch in batches for record in batch.records]
        left = sum(not record.stored.done() for record in (*waiting, *batched))
        fail_unsent(
            waiting, "the producer was closed before it could be sent", self._sending.last_failure
        )
        for batch in batches:
            self._sending.log_refused(batch)
            fail_sent(
                batch.records,
                "the producer was closed before an answer came",
                self._sending.last_failure,
            )
        self._callbacks.steps.put(None)
        if left:
            _log.warning(
                "%d records for %s are not acknowledged, and the producer is closed: %s",
                left,
                self._stream_name,
                type(self._sending.last_failure).__name__
                if self._sending.last_failure
                else "there was no time",
            )
        for told in tolds:
            told.put(item=True)


def _work_off(steps: "SimpleQueue[Step | None]") -> None:
    """Do one after the other, until there is a None."""
    while (step := steps.get()) is not None:
        step()

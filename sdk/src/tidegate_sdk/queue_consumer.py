"""A consumer of a queue: it receives, lets handlers work, extends messages, and deletes them."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any, Final

from tidegate_sdk.clock import SYSTEM_CLOCK, Backoff, Clock, Spawn, guarded, start_thread
from tidegate_sdk.failures import code_of, is_passing
from tidegate_sdk.held_messages import (
    BATCH_MAX,
    VISIBILITY_S_MAX,
    DeleteCall,
    HeldMessage,
    HeldMessages,
    QueueCall,
)
from tidegate_sdk.long_poll import WAIT_S_MAX, wait_s_max, wait_s_within
from tidegate_sdk.option_checks import check_seconds, check_text, check_whole
from tidegate_sdk.program_functions import that_ends
from tidegate_sdk.received_message import ReceivedMessage, RejectError, RetryError
from tidegate_sdk.stopping import STOP_SIGNALS, run_to_end, stopped_by

Handler = Callable[[ReceivedMessage], object]
"""What it returns means nothing; that it returns means that the message is done."""

_IDLE_S_MAX: Final = 1.0
"""Between polls of an empty queue that do not wait for messages."""

_POLL_LATE_S: Final = 5.0
"""A poll that has not ended so long after its wait hangs: a stop gives back what it holds."""

_STOPS_APART_S: Final = 1.0
"""Consumers that stop within it do not receive what the others give back."""

_CALLERS: Final = 2
"""A call that hangs is not to keep messages from being extended."""

_log = logging.getLogger("tidegate_sdk")


class QueueConsumer:
    """Receives the messages of a queue and lets `handler` work on them, in threads.

    `client` is one that `tidegate_sdk.client(url)` makes, or boto3's. At most `workers` handlers
    are at work, and `prefetch` more messages wait for them. While a message waits or is handled it
    stays hidden: for `visibility_s`, over and over. When the handler returns, it is deleted,
    together with others that are done within `linger_s`. When it raises, the message comes again
    after `retry_first_s`, and twice as long each further time, up to `retry_s_max`.

    `stop` ends it: nothing more is received, handlers finish, what they have done is deleted, and
    what they have not begun is given back. It gives up waiting after `stop_s_max`; None: never.
    `clock`, `backoff` and `spawn` are for tests.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, by its name
        self,
        client: Any,
        queue_url: str,
        handler: Handler,
        *,
        workers: int = 4,
        prefetch: int = 10,
        wait_s: int = 10,
        visibility_s: int = 30,
        linger_s: float = 0.1,
        retry_first_s: float = 2,
        retry_s_max: float = 900,
        stop_s_max: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        spawn: Spawn = start_thread,
    ) -> None:
        if not hasattr(client, "receive_message"):
            raise TypeError("make the client with tidegate_sdk.client(url)")
        check_text("queue_url", queue_url)
        check_whole("workers", workers, 1)
        check_whole("prefetch", prefetch, 0)
        check_whole("wait_s", wait_s, 0, WAIT_S_MAX)
        check_whole("visibility_s", visibility_s, 1, VISIBILITY_S_MAX)
        check_seconds("linger_s", linger_s)
        check_seconds("retry_first_s", retry_first_s)
        check_seconds("retry_s_max", retry_s_max)
        if stop_s_max is not None:
            check_seconds("stop_s_max", stop_s_max)
        self._client, self._queue_url = client, queue_url
        self._handler = that_ends("handler", handler)
        self._workers = workers
        self._wait_s = wait_s_within(min(wait_s, wait_s_max(client)), stop_s_max)
        self._visibility_s = visibility_s
        self._retry_first_s, self._retry_s_max = retry_first_s, retry_s_max
        self._stop_s_max = stop_s_max
        # For the log, and names of threads.
        self._queue = queue_url.rpartition("/")[2]
        self._clock, self._backoff, self._spawn = clock, backoff, spawn
        # `run` and `stop` take the lock itself: a signal that interrupts the taking of a condition,
        # which is written in Python, would leave it taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._held = HeldMessages(
            is_fifo=queue_url.endswith(".fifo"),
            held_max=workers + prefetch,
            visibility_s=visibility_s,
            linger_s=linger_s,
        )
        self._stopped_s: float | None = None
        self._receives = self._has_run = self._ended = False
        self._failure: BaseException | None = None
        self._failures_in_row = self._empty_in_row = 0

    def run(self, *, signals: Sequence[int] = STOP_SIGNALS) -> None:
        """Work until `stop` is called or one of the signals comes (in the main thread alone).

        Raises what ended it otherwise: an error of the queue that does not pass by itself, as where
        it does not exist or access is denied. Networks and servers that fail are waited for. What
        interrupts it, as Ctrl-C may without signals, stops it as `stop` does and is raised then.
        """
        with self._lock:
            if self._has_run:
                raise RuntimeError("a consumer runs once: make another one")
            self._has_run = True
        with stopped_by(signals, self.stop):
            try:
                run_to_end(self._start_all, self._wait_until_over, self.stop)
            finally:
                self._ended = True
                with self._lock:
                    self._changed.notify_all()
        if self._failure is not None:
            raise self._failure

    def _start_all(self) -> None:
        for number in range(_CALLERS):
            self._start(self._call, f"caller-{number}")
        for number in range(self._workers):
            self._start(self._handle, f"handler-{number}")
        # Last: what it takes, the others give back. If one of them cannot be started, there is
        # nothing to give back.
        self._start(self._receive, "receiver")

    def _wait_until_over(self) -> None:
        with self._lock:
            while not self._is_over():
                self._clock.wait(self._changed, self._patience_s())

    def _start(self, loop: Callable[[], None], name: str) -> None:
        self._spawn(guarded(loop, self._fail), f"tidegate-{name}-{self._queue}")

    def stop(self) -> None:
        """Let it end as soon as it may; returns at once. May be called from anywhere, and again."""
        with self._lock:
            if self._stopped_s is None:
                now_s = self._stopped_s = self._clock.now_s()
                over_s = inf if self._stop_s_max is None else now_s + self._stop_s_max
                poll_s = self._poll_ends_within_s() if self._receives else 0
                polls_end_s = now_s + self._wait_s + _STOPS_APART_S
                self._held.stop(now_s, over_s, now_s + poll_s, polls_end_s)
            self._changed.notify_all()

    def _poll_ends_within_s(self) -> float:
        """So long a stop waits for the poll that may be under way, with what nobody has begun."""
        late_s = self._wait_s + _POLL_LATE_S
        return late_s if self._stop_s_max is None else min(late_s, self._stop_s_max * 3 / 4)

    def _is_stopped(self) -> bool:
        return self._stopped_s is not None

    def _is_over(self) -> bool:
        if self._stopped_s is None:
            return False
        if not self._receives and not len(self._held):
            return True
        is_late = self._patience_s() == 0
        if is_late:
            text = "Stopped, and left %d messages of %s as they are"
            _log.warning(text, len(self._held), self._queue)
        return is_late

    def _patience_s(self) -> float | None:
        """For how long to wait for what is held."""
        if self._stopped_s is None or self._stop_s_max is None:
            return None
        return max(0.0, self._stopped_s + self._stop_s_max - self._clock.now_s())

    def _fail(self, error: BaseException) -> None:
        """End because of this."""
        with self._changed:
            if self._failure is None:
                self._failure = error
                # Errors of queues do not name them.
                error.add_note(f"It ended the consumer of {self._queue_url}")
            self.stop()

    def _fail_of_queue(self, text: str, error: Exception) -> None:
        """End because of what a call said: one line in the log, whichever calls say so, too."""
        with self._changed:
            known = self._failure
            self._fail(error)
        if type(known) is not type(error) or code_of(known) != code_of(error):
            _log.error(text, self._queue, error)

    def _receive(self) -> None:
        """What the receiver does until it is stopped."""
        with self._changed:
            self._receives = not self._is_stopped()
        try:
            while not self._is_stopped():
                if not self.receive_next():
                    with self._changed:
                        if not self._is_stopped() and self._held.room < 1:
                            self._clock.wait(self._changed, None)
            with self._changed:
                self._held.poll_has_ended(self._clock.now_s())
                self._changed.notify_all()
            # `run` may have given up waiting for the last poll: then nobody else gives back what
            # it brought.
            while self.call_next():
                pass
        finally:
            with self._changed:
                self._receives = False
                self._changed.notify_all()

    def receive_next(self) -> bool:
        """Receive once, if there is room; whether there was. The receiver calls it."""
        with self._changed:
            room = min(BATCH_MAX, self._held.room)
        if room < 1 or self._is_stopped():
            return False
        asked_s = self._clock.now_s()
        try:
            answer = self._client.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=room,
                WaitTimeSeconds=self._wait_s,
                VisibilityTimeout=self._visibility_s,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except Exception as error:  # noqa: BLE001 - it ends the consumer, or passes
            self._note_failed_receive(error)
            return True
        messages = [ReceivedMessage.of(raw) for raw in answer.get("Messages", ())]
        with self._changed:
            self._failures_in_row = 0
            self._held.take(messages, asked_s, self._clock.now_s())
            self._changed.notify_all()
        self._empty_in_row = 0 if messages else self._empty_in_row + 1
        if self._empty_in_row and not self._wait_s:
            self._pause(min(_IDLE_S_MAX, self._backoff.pause_s(self._empty_in_row)))
        return True

    def _note_failed_receive(self, error: Exception) -> None:
        if not is_passing(error):
            self._fail_of_queue("Cannot receive from %s, which ends the consumer: %s", error)
            return
        self._failures_in_row += 1
        pause_s = self._backoff.pause_s(self._failures_in_row)
        text = "Cannot receive from %s, will try again in %.1f s: %s"
        _log.warning(text, self._queue, pause_s, error)
        self._pause(pause_s)

    def _pause(self, pause_s: float) -> None:
        """Let time pass; a stop ends it."""
        until_s = self._clock.now_s() + pause_s
        with self._changed:
            while not self._is_stopped() and (left_s := until_s - self._clock.now_s()) > 0:
                self._clock.wait(self._changed, left_s)

    def _handle(self) -> None:
        """What a worker does until the end."""
        while not self._ended:
            if not self.handle_next():
                with self._changed:
                    # One may have come since the look: nobody would tell of it again.
                    if not (self._held.has_next(self._clock.now_s()) or self._ended):
                        self._clock.wait(self._changed, None)

    def handle_next(self) -> bool:
        """Let the handler work on the next message; whether there was one. The workers call it."""
        with self._changed:
            held = self._held.next_to_handle(self._let_go())
        if held is None:
            return False
        hide_s: int | None = 0
        try:
            hide_s = self._work_on(held.message)
        finally:  # It goes back in any case: nobody would end with what is never done.
            self._settle(held, hide_s)
        return True

    def _let_go(self) -> float:
        """Lose what may be somebody else's by now, which is returned. The lock is held."""
        now_s = self._clock.now_s()
        if self._held.let_go(now_s):
            self._changed.notify_all()
        return now_s

    def _settle(self, held: HeldMessage, hide_s: int | None) -> None:
        """A handler is done with it, or it is to come again after so many seconds."""
        with self._changed:
            now_s = self._clock.now_s()
            if hide_s is None:
                self._held.delete(held, now_s)
            else:
                self._held.hide(held, hide_s, now_s)
            self._changed.notify_all()

    def _work_on(self, message: ReceivedMessage) -> int | None:
        """Call the handler; after how many seconds the message is to come again, None: never."""
        try:
            self._handler(message)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the message comes again
            return self._hide_s_after(message, error)
        except BaseException as error:  # noqa: BLE001 - what ends a thread ends the consumer
            self._fail(error)
            return 0
        return None

    def _hide_s_after(self, message: ReceivedMessage, error: Exception) -> int | None:
        """What a failure of the handler means for the message, as `_work_on` says it."""
        which = f"Message {message.id} of {self._queue}"
        try:
            if isinstance(error, RejectError):
                _log.warning("%s is rejected: %s", which, error)
                return None if error.delete else 0
            if isinstance(error, RetryError):
                return ceil(min(max(0, error.after_s), VISIBILITY_S_MAX))
            retry_s = self._retry_s(message)
        except Exception:  # noqa: BLE001 - an error that is not as it should be ends nothing either
            retry_s = self._visibility_s
            _log.exception("%s failed, and so did finding out when it is due", which)
        _log.error("%s failed, and comes again in %d s", which, retry_s, exc_info=error)
        return retry_s

    def _retry_s(self, message: ReceivedMessage) -> int:
        doublings = min(message.receive_count - 1, VISIBILITY_S_MAX.bit_length())
        retry_s = self._retry_first_s * (1 << doublings)
        return ceil(min(retry_s, self._retry_s_max, VISIBILITY_S_MAX))

    def _call(self) -> None:
        """What a caller does until the end."""
        while not self._ended:
            if not self.call_next():
                with self._changed:
                    if not self._ended:
                        next_s = self._held.next_s()
                        idle_s = None if next_s is None else next_s - self._clock.now_s()
                        self._clock.wait(self._changed, idle_s)

    def call_next(self) -> bool:
        """Extend, give back or delete what is due; whether anything was. The callers call it."""
        with self._changed:
            called_s = self._let_go()
            call = self._held.next_call(called_s)
        if call is None:
            return False
        try:
            answer = self._send(call)
        except Exception as error:  # noqa: BLE001 - it ends the consumer, or passes
            self._note_failed_call(call, error)
            return True
        said = {entry["Id"]: entry for entry in answer.get("Failed", ())}
        self._log_failed(call, said)
        failed = [held for n, held in enumerate(call.held) if str(n) in said]
        passing = [held for n, held in enumerate(call.held) if _passes(said.get(str(n)))]
        with self._changed:
            now_s = self._clock.now_s()
            self._held.has_been_called(call, failed, passing, called_s, now_s)
            self._held.has_failed(passing, now_s, self._backoff.pause_s)
            self._changed.notify_all()
        return True

    def _send(self, call: QueueCall) -> Any:
        entries: list[dict[str, Any]] = [
            {"Id": str(number), "ReceiptHandle": held.message.receipt_handle}
            for number, held in enumerate(call.held)
        ]
        if isinstance(call, DeleteCall):
            return self._client.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
        for entry, seconds in zip(entries, call.seconds, strict=True):
            entry["VisibilityTimeout"] = seconds
        return self._client.change_message_visibility_batch(
            QueueUrl=self._queue_url, Entries=entries
        )

    def _log_failed(self, call: QueueCall, said: Mapping[str, Any]) -> None:
        for number, held in enumerate(call.held):
            if (entry := said.get(str(number))) is not None:
                why = f"{entry['Code']}: {entry.get('Message', '')}"
                _log.warning(
                    "Cannot %s message %s of %s: %s", _what(call), held.message.id, self._queue, why
                )

    def _note_failed_call(self, call: QueueCall, error: Exception) -> None:
        if not is_passing(error):
            what = _what(call)
            self._fail_of_queue(f"Cannot {what} messages of %s, which ends the consumer: %s", error)
            with self._changed:
                now_s = self._clock.now_s()
                self._held.has_been_called(call, call.held, (), now_s, now_s)
                self._changed.notify_all()
            return
        with self._changed:
            pause_s = self._held.has_failed(call.held, self._clock.now_s(), self._backoff.pause_s)
            self._changed.notify_all()
        text = "Cannot %s messages of %s, will try again in %.1f s: %s"
        _log.warning(text, _what(call), self._queue, pause_s, error)


def _what(call: QueueCall) -> str:
    return "delete" if isinstance(call, DeleteCall) else "extend or give back"


def _passes(failed: dict[str, Any] | None) -> bool:
    """Whether an entry failed by the server's fault, so that it may be repeated."""
    return failed is not None and not failed["SenderFault"]

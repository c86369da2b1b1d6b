"""Clients of one queue, which send, receive, delete and hide messages by a seed."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from random import Random
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from tests.rehearsal import emulators
from tests.rehearsal.ledger import Failure, Held, Ledger

VISIBILITY_S: Final = 3
"""Of the queue: for so long a message is hidden that was leased for an answer that got lost."""

HELD_VISIBILITY_S: Final = 3600
_REPEATING_ATTEMPTS: Final = 4
_PROMPT_S: Final = 1.5
_BATCH_MAX: Final = 5
_RECEIVED_MAX: Final = 4
_TAGS_MAX: Final = 20
"""Of one client; a queue may have 50."""

_ANSWER_S_MAX: Final = 60
_DRAIN_VISIBILITY_S: Final = 20
"""Longer than it takes to receive everything, each message once."""

_BIG_BYTES: Final = 20_000


class Client:
    """One SDK client and its randomness; it notes in the ledger what it is told."""

    def __init__(
        self, url: str, queue: str, ledger: Ledger, name: str, *, attempts: int = 1
    ) -> None:
        self.name = name
        self._sqs = emulators.client("sqs", url, timeout_s=_ANSWER_S_MAX, attempts=attempts)
        self._queue = queue
        self._ledger = ledger
        self._random = Random(name)
        self._repeats = attempts > 1
        self._bodies = self._tags = 0

    def send(self) -> None:
        """One message, or a batch."""
        count = self._random.choice((1, 1, self._random.randint(2, _BATCH_MAX)))
        bodies = [self._body() for _ in range(count)]
        self._ledger.tried.update(bodies)
        if count == 1:
            sent = self._call("send_message", MessageBody=bodies[0])
            if sent is not None:
                self._ledger.sent[bodies[0]] = sent["MessageId"]
            return
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        for entry in self._batch("send_message_batch", entries):
            self._ledger.sent[bodies[int(entry["Id"])]] = entry["MessageId"]

    def work(self) -> None:
        """Receive some, and delete, hide or give back what came; now and then tag the queue."""
        if self._tags < _TAGS_MAX and self._random.random() < 0.2:
            self._tag()
        messages = self.receive(_RECEIVED_MAX, wait_s=1)
        to_delete: list[tuple[str, str]] = []
        for message_id, handle, asked_s in messages:
            choice = self._random.random()
            if choice < 0.5:
                to_delete.append((message_id, handle))
            elif choice < 0.7:
                self._hold(message_id, handle, asked_s)
            elif choice < 0.8:
                self._call("change_message_visibility", ReceiptHandle=handle, VisibilityTimeout=0)
        self._delete(to_delete)

    def receive(
        self, count: int, *, wait_s: int, visibility_s: int = VISIBILITY_S
    ) -> list[tuple[str, str, float]]:
        """Message ids, handles and when they were asked for."""
        asked_s = time.monotonic()
        answer = self._call(
            "receive_message",
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=visibility_s,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        answered_s = time.monotonic()
        messages = (answer or {}).get("Messages", [])
        for message in messages:
            self._ledger.received(message, asked_s, answered_s)
        return [(m["MessageId"], m["ReceiptHandle"], asked_s) for m in messages]

    def release(self, handle: str) -> None:
        """Show a message again that was hidden."""
        self._call("change_message_visibility", ReceiptHandle=handle, VisibilityTimeout=0)

    def tags(self) -> set[str]:
        """Those that the queue has."""
        return set((self._call("list_queue_tags") or {}).get("Tags", {}))

    def delete_queue(self) -> None:
        """Delete the queue, with all that is in it."""
        self._call("delete_queue")

    def _tag(self) -> None:
        self._tags += 1
        tag = f"{self.name} {self._tags}"
        if self._call("tag_queue", Tags={tag: "set"}) is not None:
            self._ledger.tags.add(tag)

    def _hold(self, message_id: str, handle: str, asked_s: float) -> None:
        """Hide it for good; what comes too late for the lease may have no effect."""
        changed = self._call(
            "change_message_visibility",
            ReceiptHandle=handle,
            VisibilityTimeout=HELD_VISIBILITY_S,
        )
        now_s = time.monotonic()
        in_time = changed is not None and now_s < asked_s + _PROMPT_S
        self._ledger.held[message_id] = Held(handle, now_s if in_time else float("inf"))

    def _delete(self, messages: list[tuple[str, str]]) -> None:
        """One call for one message, a batch for more."""
        self._ledger.deletes_tried.update(message_id for message_id, _ in messages)
        done: list[str] = []
        if len(messages) == 1:
            ((message_id, handle),) = messages
            if self._call("delete_message", ReceiptHandle=handle) is not None:
                done = [message_id]
        elif messages:
            entries = [{"Id": str(n), "ReceiptHandle": h} for n, (_, h) in enumerate(messages)]
            answered = self._batch("delete_message_batch", entries)
            done = [messages[int(entry["Id"])][0] for entry in answered]
        now_s = time.monotonic()
        for message_id in done:
            self._ledger.deleted_s.setdefault(message_id, now_s)

    def _body(self) -> str:
        self._bodies += 1
        body = f"{self.name} {self._bodies}"
        if self._random.random() < 0.1:
            body += " " + self._random.randbytes(_BIG_BYTES // 2).hex()
        return body

    def _batch(self, operation: str, entries: list[dict[str, str]]) -> list[dict[str, Any]]:
        """The entries that were done."""
        answer = self._call(operation, Entries=entries) or {}
        for failed in answer.get("Failed", []):
            self._ledger.failures[Failure(operation, failed["Code"], 200)] += 1
        done: list[dict[str, Any]] = answer.get("Successful", [])
        return done

    def _call(self, operation: str, **params: Any) -> dict[str, Any] | None:
        """The answer, or None where it failed."""
        began_s = time.monotonic()
        try:
            answer: dict[str, Any] = getattr(self._sqs, operation)(QueueUrl=self._queue, **params)
            return answer
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            failure = Failure(operation, error.response["Error"]["Code"], status)
        except BotoCoreError as error:
            failure = Failure(operation, type(error).__name__, 0)
        finally:
            if not self._repeats:
                took_s = time.monotonic() - began_s
                self._ledger.slowest_s = max(self._ledger.slowest_s, took_s)
        self._ledger.failures[failure] += 1
        return None


class Workload:
    """Senders and workers of one queue, each a thread; half of them repeat what failed.

    They share the servers, which share the queue.
    """

    def __init__(self, urls: Sequence[str], seed: int) -> None:
        self.ledger = Ledger()
        asking = emulators.client("sqs", urls[0], attempts=_REPEATING_ATTEMPTS)
        self.queue = asking.create_queue(
            QueueName=f"storm-{seed}-{time.monotonic_ns()}",
            Attributes={"VisibilityTimeout": str(VISIBILITY_S)},
        )["QueueUrl"]
        self._stop = threading.Event()
        self._urls, self.seed = cycle(urls), seed
        self._threads: list[threading.Thread] = []
        self._raised: list[BaseException] = []

    def begin(self) -> None:
        for name, attempts in (("once", 1), ("again", _REPEATING_ATTEMPTS)):
            self._run(self._client(f"sender {name} {self.seed}", attempts).send)
        for name, attempts in (("once", 1), ("again", _REPEATING_ATTEMPTS)):
            self._run(self._client(f"worker {name} {self.seed}", attempts).work)

    def end(self) -> None:
        """No further calls; those under way are answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._raised:
            raise self._raised[0]

    def drain(self, servers: int, patience_s: float) -> float:
        """In calm: receive all there is, show what was hidden, receive that. When it began.

        What is missing is waited for, for `patience_s`. The queue is deleted in the end.
        """
        ledger = self.ledger
        clients = [
            self._client(f"drain {number} {self.seed}", _REPEATING_ATTEMPTS)
            for number in range(servers)
        ]
        began_s = time.monotonic()
        # Leases whose answers got lost have ended then; what comes back wrongly has come, too.
        leases_end_s = began_s + VISIBILITY_S + 1
        _receive_until(clients, lambda: time.monotonic() > leases_end_s)
        ledger.released_s = time.monotonic()
        for message_id, held in ledger.held.items():
            if message_id not in ledger.deletes_tried:
                clients[0].release(held.handle)
        give_up_s = time.monotonic() + patience_s
        _receive_until(clients, lambda: not ledger.missing(began_s) or time.monotonic() > give_up_s)
        ledger.tags_found = clients[0].tags()
        clients[-1].delete_queue()
        return began_s

    def _client(self, name: str, attempts: int) -> Client:
        return Client(next(self._urls), self.queue, self.ledger, name, attempts=attempts)

    def _run(self, step: Callable[[], None]) -> None:
        def steps() -> None:
            try:
                while not self._stop.is_set():
                    step()
            except BaseException as error:  # noqa: BLE001 - raised again by end()
                self._raised.append(error)

        thread = threading.Thread(target=steps, daemon=True)
        self._threads.append(thread)
        thread.start()


def _receive_until(clients: Sequence[Client], is_enough: Callable[[], bool]) -> None:
    """Receive everything, each message once, until no client gets any more and that is enough."""
    while True:
        came = [
            message
            for client in clients
            for message in client.receive(10, wait_s=1, visibility_s=_DRAIN_VISIBILITY_S)
        ]
        if not came and is_enough():
            return

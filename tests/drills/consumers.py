"""Clients of a standard and of a FIFO queue, boto3's, which note what they are told in books."""

import threading
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import Book, FifoBook, StandardBook
from tests.drills.content import content_of, number_in

VISIBILITY_S: Final = 20
REGION: Final = "us-east-1"
GROUPS: Final = ("a", "b", "c")
_BATCH_MAX: Final = 10
_WAIT_S: Final = 1
_SIZES: Final = ((20, 2_000, 9), (2_000, 20_000, 1))
_READ_S_MAX: Final = 20
_ATTEMPTS: Final = 3
_UNAVAILABLE: Final = 503
_NAP_S: Final = 0.05
_JOIN_S_MAX: Final = 200.0
_DRAIN_S_MAX: Final = 10.0 * VISIBILITY_S
LATE: Final = ("ReceiptHandleIsInvalid", "InvalidParameterValue")
"""What a FIFO queue says of a delete after the lease has ended."""


def new_client(port: int, service: str = "sqs") -> Any:
    """One as applications have them: it repeats calls that failed."""
    connect: Any = boto3.client
    return connect(
        service,
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name=REGION,
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            connect_timeout=2,
            read_timeout=_READ_S_MAX,
            max_pool_connections=1,
        ),
    )


class Worker:
    """A client that does the same over and over. What fails is noted and tried again."""

    def __init__(self, port: int, url: str, book: Book, stopping: threading.Event) -> None:
        self.sqs = new_client(port)
        self.url = url
        self.book = book
        self.stopping = stopping
        self.pause_s = 0.0

    def run(self) -> None:
        """Work until it is told to stop."""
        while not self.stopping.is_set():
            self.step()
            if self.pause_s:
                self.stopping.wait(self.pause_s)  # that is the load: so many sends a second

    def step(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def call(self, operation: str, **params: object) -> dict[str, Any] | None:
        """The answer; None: nobody knows what was done. Raises ClientError for a refusal."""
        try:
            answer: dict[str, Any] = getattr(self.sqs, operation)(QueueUrl=self.url, **params)
        except (NoConnectionError, HTTPClientError):
            self.book.note("unanswered")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != _UNAVAILABLE:
                raise
            self.book.note("unavailable")
        else:
            return answer
        self.stopping.wait(_NAP_S)  # between two tries of somebody who does not give up
        return None


class Consumer(Worker):
    """Leaves a stock of messages where they are, until no more are sent."""

    def __init__(
        self, port: int, url: str, book: Book, stopping: threading.Event, last: threading.Event
    ) -> None:
        super().__init__(port, url, book, stopping)
        self._last = last
        self._asking_since_s = 0.0

    def run(self) -> None:
        """Work until it is told to stop."""
        while not self.stopping.is_set():
            if self._last.is_set() or len(self.book.left()) > self.book.stock:
                self.step()
            else:
                self.stopping.wait(_NAP_S)  # between two looks at what there is

    def receive(self, what: str, asked_s: float, **params: object) -> list[Any] | None:
        """Up to ten messages; None: nobody knows. The book is told of waits that brought some."""
        self._asking_since_s = self._asking_since_s or asked_s
        answer = self.call(
            "receive_message",
            MaxNumberOfMessages=_BATCH_MAX,
            VisibilityTimeout=VISIBILITY_S,
            WaitTimeSeconds=_WAIT_S,
            **params,
        )
        if answer is None:
            return None
        since_s, self._asking_since_s = self._asking_since_s, 0.0
        messages: list[Any] = answer.get("Messages", [])
        if messages:
            self.book.waited(what, since_s, time.time())
        return messages


class StandardSender(Worker):
    """Sends batches, of new messages each time."""

    book: StandardBook

    def step(self) -> None:
        """Send a message, or ten."""
        if not self.book.has_room():
            return
        began_s = time.time()
        count = _BATCH_MAX if self.book.tally["sends"] % 3 else 1
        while not self.stopping.is_set():
            # Whether those are stored that were not acknowledged, nobody knows.
            numbers = [self.book.send_asked() for _ in range(count)]
            answer = self.call("send_message_batch", Entries=[_sent(each) for each in numbers])
            if answer is None:
                continue
            for entry in answer.get("Successful", ()):
                self.book.send_answered(int(entry["Id"]), entry["MessageId"])
            for entry in answer.get("Failed", ()):
                self.book.note("unavailable")
                if entry["Code"] != "ServiceUnavailable":
                    self.book.accuse("answer", f"an entry of a batch was answered {entry}")
            if answer.get("Successful"):
                self.book.waited("send, standard", began_s, time.time())
                return


class StandardConsumer(Consumer):
    """Receives and deletes."""

    book: StandardBook

    def step(self) -> None:
        """Receive up to ten messages and delete them."""
        asked_s = time.time()
        messages = self.receive("receive, standard", asked_s)
        answered_s = time.time()
        handles: dict[int, str] = {}
        for message in messages or ():
            number = number_in(message) or 0
            if message["Body"] != content_of(number, _SIZES).body:
                self.book.accuse("altered", f"message {number} came with another body")
            identity = message["MessageId"]
            self.book.delivered(number, identity, asked_s, answered_s, VISIBILITY_S)
            handles[number] = message["ReceiptHandle"]
        if not handles:
            return
        for number in handles:
            self.book.delete_asked(number)
        self._delete(handles)

    def _delete(self, handles: dict[int, str]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": text} for number, text in handles.items()]
        began_s = time.time()
        while not self.stopping.is_set() and time.time() < began_s + VISIBILITY_S / 2:
            answer = self.call("delete_message_batch", Entries=entries)
            if answer is None:
                continue
            for entry in answer.get("Successful", ()):
                self.book.delete_answered(int(entry["Id"]), time.time())
            if not answer.get("Failed"):
                self.book.waited("delete, standard", began_s, time.time())
                return
            failed = {entry["Id"] for entry in answer["Failed"]}
            entries = [entry for entry in entries if entry["Id"] in failed]
        self.book.waited("delete, standard", began_s, time.time())


class FifoSender(Worker):
    """Sends to one group, each message again until it is acknowledged."""

    book: FifoBook

    def __init__(
        self, port: int, url: str, book: FifoBook, stopping: threading.Event, group: str
    ) -> None:
        super().__init__(port, url, book, stopping)
        self.group = group

    def step(self) -> None:
        """Send the group's next message."""
        if not self.book.has_room():
            return
        number = self.book.send_asked(self.group)
        began_s = time.time()
        while not self.stopping.is_set():
            answer = self.call(
                "send_message",
                MessageBody=f"{self.group}{number}",
                MessageGroupId=self.group,
                MessageDeduplicationId=f"{self.group}{number}",
            )
            if answer is not None:
                identity = (answer["MessageId"], answer["SequenceNumber"])
                self.book.send_answered(self.group, number, identity)
                self.book.waited("send, FIFO", began_s, time.time())
                return


class FifoConsumer(Consumer):
    """Receives, and deletes in order."""

    book: FifoBook

    def step(self) -> None:
        """Receive up to ten messages and delete them, one after the other."""
        asked_s = time.time()
        named = ["SequenceNumber"]
        messages = self.receive("receive, FIFO", asked_s, MessageSystemAttributeNames=named)
        by_group: dict[str, list[Any]] = {}
        for message in messages or ():
            by_group.setdefault(message["Body"][0], []).append(message)
        for group, received in by_group.items():
            numbers = [(int(message["Body"][1:]), _identity(message)) for message in received]
            self.book.delivered(group, numbers)
        for group, received in by_group.items():
            for message in received:
                if time.time() > asked_s + VISIBILITY_S / 2:
                    return
                if not self._delete(group, int(message["Body"][1:]), message["ReceiptHandle"]):
                    break

    def _delete(self, group: str, number: int, handle: str) -> bool:
        self.book.delete_asked(group, number)
        began_s, is_deleted = time.time(), False
        while not self.stopping.is_set() and time.time() < began_s + VISIBILITY_S / 2:
            try:
                answer = self.call("delete_message", ReceiptHandle=handle)
            except ClientError as error:
                if error.response["Error"]["Code"] not in LATE:
                    raise
                break  # an earlier try of this delete was stored, or the lease has ended
            if answer is not None:
                self.book.delete_answered(group, number)
                is_deleted = True
                break
        self.book.waited("delete, FIFO", began_s, time.time())
        return is_deleted


def _sent(number: int) -> dict[str, Any]:
    """An entry of a batch."""
    return {"Id": str(number), "MessageBody": content_of(number, _SIZES).body}


def _identity(message: dict[str, Any]) -> tuple[str, str]:
    return message["MessageId"], message["Attributes"]["SequenceNumber"]


class Workers:
    """Senders and consumers of queues, each in a thread of its own, until `drain`.

    They take turns at choosing one of the servers, and the queues have the names of the books.
    Senders pause for `pause_s` after each send.
    """

    def __init__(
        self,
        servers: Sequence[ServerProcess],
        books: Sequence[StandardBook | FifoBook],
        pause_s: float = 0.0,
    ) -> None:
        turns = cycle(servers)

        def at(book: Book) -> tuple[int, str, Any]:
            server = next(turns)
            return server.port, server.queue_url(book.name), book

        standard = [book for book in books if isinstance(book, StandardBook)]
        fifo = [book for book in books if isinstance(book, FifoBook)]
        self._books = books
        self._failures: list[BaseException] = []
        self._full = threading.Event()
        self._done = threading.Event()
        self._ends = (self._done, self._full)
        senders: list[Worker] = [
            *(StandardSender(*at(book), self._full) for book in standard),
            *(FifoSender(*at(book), self._full, group) for book in fifo for group in book.groups),
        ]
        consumers: list[Worker] = [
            *(StandardConsumer(*at(book), *self._ends) for book in standard for _ in range(2)),
            *(FifoConsumer(*at(book), *self._ends) for book in fifo for _ in range(2)),
        ]
        for sender in senders:
            sender.pause_s = pause_s if sender.book.pause_s is None else sender.book.pause_s
        self._senders = self._started(senders)
        self._consumers = self._started(consumers)

    def drain(self) -> None:
        """Send no more; return when consumers have deleted everything, or nothing for very long.

        Ten times as long as a lease hides a message. Raises what one of the clients died of.
        """
        self._full.set()
        _join(self._senders)
        for book in self._books:
            left = len(book.left())
            while left and not self._failures and self._has_less(book, left):
                left = len(book.left())
        self.stop()

    def _has_less(self, book: Book, left: int) -> bool:
        """Return when less is left of a book; False: not for very long."""
        with book.changed:
            return book.changed.wait_for(
                lambda: len(book.left()) < left or bool(self._failures), _DRAIN_S_MAX
            )

    def stop(self) -> None:
        """End everybody. Raises what one of them died of."""
        self._full.set()
        self._done.set()
        _join([*self._senders, *self._consumers])
        if self._failures:
            raise self._failures[0]

    def _started(self, workers: Sequence[Worker]) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._work, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, worker: Worker) -> None:
        try:
            worker.run()
        except BaseException as failure:  # noqa: BLE001 - raised again, to the one who stops all
            self._failures.append(failure)
            worker.book.accuse("answer", f"a client ended: {failure!r}")


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(_JOIN_S_MAX)
        if thread.is_alive():
            raise AssertionError("a client does not end")

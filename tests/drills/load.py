"""Clients that send, receive, delete and change visibility, and note all of it."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from tests.drills.caller import REPLY_S_MAX, UNAVAILABLE, Caller, LostConnectionError, RefusedError
from tests.drills.content import Content
from tests.drills.ledger import Change, Ledger
from tests.drills.subject import Subject

STORED_MAX: Final = 300
"""With more messages stored, clients delete more than they send."""

NO_ROOM: Final = "The service has no room for more messages."
_NO_QUEUE: Final = "QueueDoesNotExist"
PARKED_S: Final = 3600
_VISIBILITIES_S: Final = (1, 2, 4)
_DELAYS_S: Final = (0, 0, 0, 0, 0, 0, 0, 1, 3)
_BATCH_MAX: Final = 10
_JOIN_S_MAX: Final = 300.0


def _params_of(content: Content, delay_s: int) -> dict[str, Any]:
    """How a message is sent."""
    params: dict[str, Any] = {"MessageBody": content.body, "DelaySeconds": delay_s}
    if content.attributes:
        params["MessageAttributes"] = content.attributes
    return params


class Client:
    """One connection and what it does, one step after the other.

    Whatever the server answers but 200 and 503 is a violation. When the server or the queue is
    gone, `lost` is set, `lost_by` says what tells so, and nothing is asked any more.
    """

    def __init__(self, subject: Subject, seed: str) -> None:
        self.lost = False
        self.lost_by = ""
        self.caller = Caller(subject.server.port)
        self._subject = subject
        self._ledger: Ledger = subject.ledger
        self._url = subject.queue_url
        self._random = Random(seed)

    def step(self) -> None:
        """Send something, or receive and do something with it."""
        crowded = len(self._ledger.entries) > STORED_MAX
        if self._random.random() < (0.2 if crowded else 0.5):
            self.send()
        else:
            self.receive(delete_share=0.9 if crowded else 0.6)

    def send(self) -> None:
        """Send a message, or a batch."""
        count = self._random.choice((1, 1, self._random.randint(2, _BATCH_MAX)))
        delay_s = self._random.choice(_DELAYS_S)
        asked_s = time.time()
        numbers = [self._ledger.send_asked(delay_s, asked_s) for _ in range(count)]
        if count == 1:
            answer = self._call(
                "SendMessage", **_params_of(self._ledger.content_of(numbers[0]), delay_s)
            )
            answers = {} if answer is None else {numbers[0]: answer}
        else:
            entries = {
                str(number): _params_of(self._ledger.content_of(number), delay_s)
                for number in numbers
            }
            answers = self._batch("SendMessageBatch", entries)
        answered_s = time.time()
        for number in numbers:
            if number in answers:
                self._ledger.send_answered(number, answers[number], delay_s, answered_s)
            else:
                self._ledger.send_failed(number, delay_s, answered_s)

    def receive(self, delete_share: float) -> None:
        """Receive, then delete most and change the visibility of some."""
        visibility_s = self._random.choice(_VISIBILITIES_S)
        handles, asked_s = self.receive_some(visibility_s)
        if time.time() > asked_s + visibility_s / 2:
            return  # held up: its leases may end before it has done anything about them
        deletes: dict[int, str] = {}
        for number, handle in handles.items():
            chance = self._random.random()
            if chance < delete_share:
                deletes[number] = handle
            elif chance > 0.995:
                self._subject.parked[number] = handle
                self.change(number, handle, PARKED_S)
            elif chance > 0.95:
                self.change(number, handle, self._random.choice((0, *_VISIBILITIES_S)))
        if len(deletes) > 1 and self._random.random() < 0.5:
            self._delete_batch(deletes)
        else:
            for number, handle in deletes.items():
                self._delete(number, handle)

    def receive_some(
        self, visibility_s: int, *, auditing: bool = False
    ) -> tuple[dict[int, str], float]:
        """Receive up to ten messages: their numbers and receipt handles, and when it was asked."""
        asked_s = time.time()
        answer = self._call(
            "ReceiveMessage",
            MaxNumberOfMessages=_BATCH_MAX,
            VisibilityTimeout=visibility_s,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        answered_s = time.time()
        if answer is None:
            self._ledger.receive_failed(_BATCH_MAX, visibility_s, answered_s)
            return {}, asked_s
        handles: dict[int, str] = {}
        for message in answer.get("Messages", ()):
            number = self._ledger.delivered(
                message, visibility_s, asked_s, answered_s, auditing=auditing
            )
            if number is not None:
                handles[number] = message["ReceiptHandle"]
        return handles, asked_s

    def change(self, number: int, handle: str, visibility_s: int) -> None:
        """Change the visibility of one message, which may have ended meanwhile."""
        change = self._ledger.change_asked(number, visibility_s, time.time())
        answer = self._call(
            "ChangeMessageVisibility",
            may_be_refused=partial(self._ledger.change_refused, change),
            ReceiptHandle=handle,
            VisibilityTimeout=visibility_s,
        )
        self._note_change(change, time.time(), is_made=answer is not None)

    def release(self, handles: dict[int, str], visibilities_s: Sequence[int]) -> None:
        """Change the visibility of many messages, in batches, each to one of these."""
        numbers = list(handles)
        for start in range(0, len(numbers), _BATCH_MAX):
            batch = numbers[start : start + _BATCH_MAX]
            visibility_s = self._random.choice(visibilities_s)
            asked_s = time.time()
            changes = [self._ledger.change_asked(one, visibility_s, asked_s) for one in batch]
            entries = {
                str(number): {"ReceiptHandle": handles[number], "VisibilityTimeout": visibility_s}
                for number in batch
            }
            answers = self._batch("ChangeMessageVisibilityBatch", entries)
            answered_s = time.time()
            for change in changes:
                self._note_change(change, answered_s, is_made=change.number in answers)

    def _note_change(self, change: Change, answered_s: float, *, is_made: bool) -> None:
        if is_made:
            self._ledger.change_answered(change, answered_s)
        else:
            self._ledger.change_failed(change, answered_s)

    def _delete(self, number: int, handle: str) -> None:
        self._ledger.delete_asked(number)
        if self._call("DeleteMessage", ReceiptHandle=handle) is not None:
            self._ledger.delete_answered(number, time.time())

    def _delete_batch(self, handles: dict[int, str]) -> None:
        for number in handles:
            self._ledger.delete_asked(number)
        entries = {str(number): {"ReceiptHandle": handle} for number, handle in handles.items()}
        for number in self._batch("DeleteMessageBatch", entries):
            self._ledger.delete_answered(number, time.time())

    def _batch(self, operation: str, entries: dict[str, dict[str, Any]]) -> dict[int, Any]:
        """The answers of the entries that succeeded, by number."""
        listed = [{"Id": name, **params} for name, params in entries.items()]
        answer = self._call(operation, Entries=listed)
        if answer is None:
            return {}
        for failed in answer.get("Failed", ()):
            expected = failed["Code"] == "ServiceUnavailable"
            self._refused(f"an entry of {operation}", failed, expected=expected)
        return {int(entry["Id"]): entry for entry in answer.get("Successful", ())}

    def _call(
        self,
        operation: str,
        may_be_refused: Callable[[str, float], bool] | None = None,
        **params: object,
    ) -> dict[str, Any] | None:
        """The answer; None: there is none that says what was done."""
        if self.lost:
            return None
        try:
            return self.caller.call(operation, QueueUrl=self._url, **params)
        except RefusedError as error:
            if _NO_QUEUE in error.text:
                self._end(error)
                self._ledger.queue_lost()
                return None
            expected = error.status == UNAVAILABLE or (
                may_be_refused is not None and may_be_refused(error.text, time.time())
            )
            self._refused(operation, error, expected=expected)
        except LostConnectionError as error:
            self._end(error)
            if isinstance(error.__cause__, TimeoutError):
                self._ledger.accuse("answer", f"{operation} was not answered in {REPLY_S_MAX} s")
        return None

    def _end(self, error: Exception) -> None:
        self.lost, self.lost_by = True, str(error) or repr(error.__cause__)

    def _refused(self, operation: str, answer: object, *, expected: bool) -> None:
        self._ledger.note("refused")
        self._ledger.note("no room" if NO_ROOM in str(answer) else "unavailable")
        if not expected:
            self._ledger.accuse("answer", f"{operation} was answered {answer}")


class Load:
    """Clients at work, each in a thread of its own, until `stop` or until the server is gone."""

    def __init__(self, subject: Subject, seed: str, connections: int) -> None:
        self._stopping = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(Client(subject, f"{seed} {at}"),))
            for at in range(connections)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let everybody finish the step they are at."""
        self._stopping.set()
        self.join()

    def join(self) -> None:
        """Return when everybody has ended. Raises what one of them died of."""
        for thread in self._threads:
            thread.join(_JOIN_S_MAX)
            if thread.is_alive():
                raise AssertionError("a client does not end")
        if self._failures:
            raise self._failures[0]

    def _work(self, client: Client) -> None:
        try:
            with client.caller:
                while not client.lost and not self._stopping.is_set():
                    client.step()
        except BaseException as failure:  # noqa: BLE001 - raised again, to the one who joins
            self._failures.append(failure)

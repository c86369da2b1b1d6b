"""A history sorted by message: what was sent, delivered, changed and deleted, and when."""

import base64
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.history import Attempt, Call, History

NEVER_US = 1 << 62


@dataclass(slots=True)
class Sent:
    """A message of a send, known by its body.

    `promised` has the ids that were answered for it, and the attempts that were answered so.
    """

    call: Call
    entry: Mapping[str, Any]
    delay_s: int | None
    acknowledged_us: int = NEVER_US
    promised: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ids(self) -> set[str]:
        """Those that were answered for it."""
        return set(self.promised)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message in an answered receive; `visibility_s` is None where the queue's own counts."""

    attempt: Attempt
    message: Mapping[str, Any]
    visibility_s: int | None

    @property
    def id(self) -> str:
        """The message's id."""
        text: str = self.message["MessageId"]
        return text

    @property
    def receive_count(self) -> int:
        """As the receiver was told."""
        return int(self.message["Attributes"]["ApproximateReceiveCount"])

    @property
    def answered_us(self) -> int:
        """When it was handed out."""
        assert self.attempt.answered_us is not None
        return self.attempt.answered_us


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of a message's visibility that was asked for, and maybe answered."""

    attempt: Attempt
    visibility_s: int
    ok: bool


@dataclass(slots=True)
class Ledger:
    """Sends by body; deliveries, changes and deletes by message id, in the order of the answers.

    `deletes_asked` also has those whose outcome nobody knows, `deletes` who answered the others.
    """

    sent: dict[str, Sent] = field(default_factory=dict)
    deliveries: dict[str, list[Delivered]] = field(default_factory=lambda: defaultdict(list))
    changes: dict[str, list[Changed]] = field(default_factory=lambda: defaultdict(list))
    deletes_asked: set[str] = field(default_factory=set)
    deleted_us: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    purges: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))


def make_ledger(history: History) -> Ledger:
    """Sort a history."""
    ledger = Ledger()
    ids: dict[str, str] = {}
    answered = sorted(
        (attempt for attempt in history.attempts if attempt.answered_us is not None),
        key=lambda attempt: attempt.answered_us or 0,
    )
    for attempt in answered:
        if attempt.ok and attempt.call.operation == "ReceiveMessage":
            for message in attempt.output.get("Messages", ()):
                ids[message["ReceiptHandle"]] = message["MessageId"]
                visibility_s = attempt.call.params.get("VisibilityTimeout")
                delivered = Delivered(attempt, message, visibility_s)
                ledger.deliveries[delivered.id].append(delivered)
    for attempt in history.attempts:
        match attempt.call.operation:
            case "SendMessage" | "SendMessageBatch":
                _note_send(ledger, attempt)
            case "DeleteMessage" | "DeleteMessageBatch":
                _note_delete(ledger, attempt, ids)
            case "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch":
                _note_change(ledger, attempt, ids)
            case "PurgeQueue":
                ledger.purges[attempt.call.queue].append(attempt)
    return ledger


def _entries(attempt: Attempt) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """The entries of a batch, or the one call as an entry, each with its answer if it was done."""
    params = attempt.call.params
    if "Entries" not in params:
        return [(params, attempt.output if attempt.ok else None)]
    done = {entry["Id"]: entry for entry in attempt.output.get("Successful", ())}
    return [(entry, done.get(entry["Id"]) if attempt.ok else None) for entry in params["Entries"]]


def _note_send(ledger: Ledger, attempt: Attempt) -> None:
    for entry, answer in _entries(attempt):
        body = entry["MessageBody"]
        sent = ledger.sent.get(body)
        if sent is None:
            sent = ledger.sent[body] = Sent(attempt.call, entry, entry.get("DelaySeconds"))
        if answer is not None and attempt.answered_us is not None:
            sent.acknowledged_us = min(sent.acknowledged_us, attempt.answered_us)
            sent.promised[answer["MessageId"]].append(attempt)


def _note_delete(ledger: Ledger, attempt: Attempt, ids: Mapping[str, str]) -> None:
    for entry, answer in _entries(attempt):
        message_id = ids[entry["ReceiptHandle"]]
        ledger.deletes_asked.add(message_id)
        if answer is not None and attempt.answered_us is not None:
            before_us = ledger.deleted_us.get(message_id, NEVER_US)
            ledger.deleted_us[message_id] = min(before_us, attempt.answered_us)
            ledger.deletes[message_id].append(attempt)


def _note_change(ledger: Ledger, attempt: Attempt, ids: Mapping[str, str]) -> None:
    for entry, answer in _entries(attempt):
        message_id = ids[entry["ReceiptHandle"]]
        changed = Changed(attempt, entry["VisibilityTimeout"], answer is not None)
        ledger.changes[message_id].append(changed)


def attributes_of(message: Mapping[str, Any]) -> dict[str, tuple[str, bytes]]:
    """Message attributes of a request or an answer, in one form."""
    return {
        name: (
            value["DataType"],
            base64.b64decode(value["BinaryValue"])
            if "BinaryValue" in value
            else value["StringValue"].encode(),
        )
        for name, value in message.get("MessageAttributes", {}).items()
    }

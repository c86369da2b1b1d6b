"""A history of FIFO queues sorted by message: what was answered, by which handles, and when."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.simulation.history import OK, Attempt, History

SERVER_FAULT = 500
SENDS = ("SendMessage", "SendMessageBatch")
DELETES = ("DeleteMessage", "DeleteMessageBatch")


@dataclass(frozen=True, slots=True)
class SentEntry:
    """A message of one attempt of a send; `id` and `sequence` are empty if it was not answered."""

    attempt: Attempt
    entry: Mapping[str, Any]
    position: int
    id: str = ""
    sequence: str = ""

    @property
    def queue(self) -> str:
        """Where it was sent."""
        return self.attempt.call.queue

    @property
    def answered_us(self) -> int:
        """When it was acknowledged."""
        assert self.attempt.answered_us is not None
        return self.attempt.answered_us


class Outcome(Enum):
    """What is known of a request that concerns a handle."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Use:
    """A handle that was used in one attempt: to delete, or to change the visibility."""

    attempt: Attempt
    handle: str
    outcome: Outcome
    deletes: bool


def sent_entries(history: History) -> list[SentEntry]:
    """All messages of all attempts, in the order in which the attempts began."""
    return [sent for attempt in history.attempts for sent in _sent_in(attempt)]


def _sent_in(attempt: Attempt) -> Iterator[SentEntry]:
    if attempt.call.operation not in SENDS:
        return
    params = attempt.call.params
    answers = {answer["Id"]: answer for answer in attempt.output.get("Successful", ())}
    for position, entry in enumerate(params.get("Entries", [params])):
        answer = answers.get(entry["Id"], {}) if "Entries" in params else attempt.output
        if attempt.ok and answer:
            yield SentEntry(attempt, entry, position, answer["MessageId"], answer["SequenceNumber"])
        else:
            yield SentEntry(attempt, entry, position)


def uses_of_handles(history: History) -> list[Use]:
    """All handles that were used, in the order in which the attempts began."""
    return [use for attempt in history.attempts for use in _uses_in(attempt)]


def _uses_in(attempt: Attempt) -> Iterator[Use]:
    params = attempt.call.params
    deletes = attempt.call.operation in DELETES
    if not deletes and attempt.call.operation != "ChangeMessageVisibility":
        return
    if "Entries" not in params:
        yield Use(attempt, params["ReceiptHandle"], _outcome(attempt), deletes)
        return
    failed = {entry["Id"] for entry in attempt.output.get("Failed", ())}
    for entry in params["Entries"]:
        outcome = Outcome.REFUSED if entry["Id"] in failed else _outcome(attempt)
        yield Use(attempt, entry["ReceiptHandle"], outcome, deletes)


def _outcome(attempt: Attempt) -> Outcome:
    if attempt.answered_us is None or attempt.status >= SERVER_FAULT:
        return Outcome.UNKNOWN
    return Outcome.DONE if attempt.status == OK else Outcome.REFUSED

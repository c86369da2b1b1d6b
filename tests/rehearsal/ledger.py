"""What clients of one queue asked for and what they were told, and what must follow from it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

UNAVAILABLE: Final = ("ServiceUnavailable", 503)
"""The only failure that a client may be told of when the store cannot be reached."""

REFUSALS_OF_CHANGES: Final = frozenset(
    {"AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue"}
)
"""A change of visibility that comes too late is refused: SQS's words for it."""


class Delivery(NamedTuple):
    """A message as a receive answered it; the times are those of the call."""

    body: str
    receive_count: int
    handle: str
    asked_s: float
    answered_s: float


class Held(NamedTuple):
    """A visibility that was set, and when that was acknowledged."""

    handle: str
    acknowledged_s: float


class Failure(NamedTuple):
    """A call that failed, as the SDK tells it; no status where there was no answer."""

    operation: str
    code: str
    status: int


@dataclass
class Ledger:
    """Times are seconds of one clock. A body is sent by one call only, however often repeated."""

    sent: dict[str, str] = field(default_factory=dict)
    """Message id by body, of sends that were acknowledged."""
    tried: set[str] = field(default_factory=set)
    """Bodies of all sends."""
    deliveries: dict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    """By message id."""
    deleted_s: dict[str, float] = field(default_factory=dict)
    """When a delete was acknowledged first, by message id."""
    deletes_tried: set[str] = field(default_factory=set)
    held: dict[str, Held] = field(default_factory=dict)
    """Messages that nobody may be given until `released_s`."""
    released_s: float = float("inf")
    tags: set[str] = field(default_factory=set)
    """Of the queue: those whose setting was acknowledged, each by a call of its own."""
    tags_found: set[str] = field(default_factory=set)
    """What the queue had in the end."""
    failures: Counter[Failure] = field(default_factory=Counter)
    slowest_s: float = 0.0
    """The longest that an attempt of a client took that makes one attempt of each call."""

    def received(self, message: dict[str, Any], asked_s: float, answered_s: float) -> Delivery:
        """Note a message of an answer."""
        count = int(message["Attributes"]["ApproximateReceiveCount"])
        delivery = Delivery(message["Body"], count, message["ReceiptHandle"], asked_s, answered_s)
        self.deliveries[message["MessageId"]].append(delivery)
        return delivery

    def missing(self, since_s: float) -> set[str]:
        """Messages that are stored and were not delivered since: nobody asked to delete them."""
        came = {
            message_id
            for message_id, deliveries in self.deliveries.items()
            if any(delivery.asked_s >= since_s for delivery in deliveries)
        }
        return set(self.sent.values()) - self.deletes_tried - came


def violations(ledger: Ledger, final_s: float, answer_s_max: float) -> Iterator[str]:
    """What is wrong. From `final_s` on there were no faults, and everything was received."""
    for message_id in ledger.missing(final_s):
        yield f"lost: {message_id} was acknowledged and is not there"
    yield from _comebacks(ledger)
    yield from _identities(ledger)
    for message_id, deliveries in ledger.deliveries.items():
        counts = sorted(delivery.receive_count for delivery in deliveries)
        if len(set(counts)) < len(counts) or any(
            count < number for number, count in enumerate(counts, start=1)
        ):
            yield f"receive counts: {message_id} was delivered {len(counts)} times, as {counts}"
    for tag in ledger.tags - ledger.tags_found:
        yield f"forgotten: the queue does not have the tag {tag!r}"
    for failure in ledger.failures:
        if not _is_fair(failure):
            yield f"failure: {failure}"
    if ledger.slowest_s > answer_s_max:
        yield f"slow: an attempt took {ledger.slowest_s:.1f} s, {answer_s_max:.1f} s are allowed"


def _comebacks(ledger: Ledger) -> Iterator[str]:
    for message_id, deliveries in ledger.deliveries.items():
        for delivery in deliveries:
            if delivery.asked_s > ledger.deleted_s.get(message_id, float("inf")):
                yield f"undeleted: {message_id} was delivered after its delete was acknowledged"
            held = ledger.held.get(message_id)
            if held and held.acknowledged_s < delivery.asked_s < ledger.released_s:
                yield f"unhidden: {message_id} was delivered while it was hidden"


def _identities(ledger: Ledger) -> Iterator[str]:
    ids: dict[str, set[str]] = defaultdict(set)
    for body, message_id in ledger.sent.items():
        ids[body].add(message_id)
    for message_id, deliveries in ledger.deliveries.items():
        for body in {delivery.body for delivery in deliveries}:
            ids[body].add(message_id)
    for body, of_body in ids.items():
        if len(of_body) > 1:
            yield f"twice: {body[:40]!r} is stored as {sorted(of_body)}"
        if body not in ledger.tried:
            yield f"garbage: {body[:40]!r} was sent by nobody"


def _is_fair(failure: Failure) -> bool:
    late_change = failure.code in REFUSALS_OF_CHANGES and "visibility" in failure.operation
    return (failure.code, failure.status) == UNAVAILABLE or late_change

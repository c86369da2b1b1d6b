"""The invariants of universes with dead letters.

A message is the same one in its queue and in the dead-letter queue, and another one when it was
redriven. A *place* is a message in one queue; the places of a body in the order in which cells got
them are its *way*, which it goes once and in one direction.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from data_plane.core.identifiers import uuid_text
from tests.simulation import oracle
from tests.simulation.fifo.oracle import answers_in_order
from tests.simulation.history import Attempt, Call, History
from tests.simulation.ledger import NEVER_US, Delivered, Ledger, attributes_of, make_ledger
from tests.simulation.oracle import SECOND_US, Violation
from tests.simulation.plan import QueuePlan
from tests.simulation.redrive.universe import RETENTION_S, DeadLetterPlan, arn
from tests.simulation.world import World


class Place(NamedTuple):
    """A message in a queue."""

    id: str
    queue: str


class Case(oracle.Case):
    """A universe before the oracle. In its ledger, ids of messages have their queue with them."""

    plan: DeadLetterPlan

    def __init__(self, plan: DeadLetterPlan, world: World) -> None:
        queues = [QueuePlan(name, plan.visibility_s, 0, RETENTION_S) for name in plan.queues]
        super().__init__(plan, queues, world)
        self.ledger: Ledger = make_ledger(_with_places(world.history))
        self.tried_us: dict[str, list[int]] = defaultdict(list)
        for attempt in self.history.attempts:
            if receive := attempt.call.params.get("ReceiveRequestAttemptId"):
                self.tried_us[receive].append(attempt.invoked_us)
        self.stamps_us: dict[str, list[int]] = defaultdict(list)
        self.stored_at: dict[str, int] = {}
        everything = (one for store in world.stores for one in store.stored)
        for one in sorted(everything, key=lambda stored: stored.time_us):
            message_id = uuid_text(one.message_id)
            if plan.fifo or not one.dead:
                # A dead letter of a FIFO queue is sent anew.
                self.stamps_us[f"{message_id}{'+' * one.dead}"].append(one.stamp_us)
            self.stored_at.setdefault(message_id, one.time_us)
        self.deliveries: list[tuple[Place, Delivered]] = [
            (place_of(text), delivered)
            for text, group in self.ledger.deliveries.items()
            for delivered in group
        ]

    def may_ignore_leases(self, delivered: Delivered) -> bool:
        """Also whether a receive got again, under the same handle, what it had taken before."""
        return super().may_ignore_leases(delivered) or any(
            other.message["ReceiptHandle"] == delivered.message["ReceiptHandle"]
            and other.receive_count < delivered.receive_count
            for other in self.ledger.deliveries[delivered.id]
        )

    def repetitions(self, delivered: Delivered) -> int:
        """How often at most this receive had got again, under its id, what it had taken before.

        Of two attempts that are under way, the one that was tried first may be the one that gets it
        again: so all count that were tried before this answer, but for the one that took it.
        """
        receive = delivered.attempt.call.params.get("ReceiveRequestAttemptId", "")
        tried = [at_us for at_us in self.tried_us[receive] if at_us <= delivered.answered_us]
        return max(0, len(tried) - 1)

    def sent_us(self, place: Place) -> list[int]:
        """When the message in this place was sent: more than once if there are copies."""
        is_anew = self.plan.fifo and place.queue == self.plan.dead
        return self.stamps_us[f"{place.id}{'+' * is_anew}"]

    def time_of(self, text: str) -> int:
        """When something was noted."""
        return next((t for t, noted in self.history.events if noted == text), NEVER_US)


def place_of(text: str) -> Place:
    """From an id in the ledger."""
    message_id, _, queue = text.partition("@")
    return Place(message_id, queue)


def _with_places(history: History) -> History:
    """The same history, in which messages in different queues have different ids."""
    changed = History()
    for call in history.calls:
        copy = Call(call.number, call.client, call.operation, call.queue, call.params)
        copy.attempts = [_with_place(copy, attempt) for attempt in call.attempts]
        changed.calls.append(copy)
    order = {id(a): n for n, a in enumerate(history.attempts)}
    pairs = [
        (order[id(attempt)], copied)
        for call, copy in zip(history.calls, changed.calls, strict=True)
        for attempt, copied in zip(call.attempts, copy.attempts, strict=True)
    ]
    changed.attempts = [attempt for _, attempt in sorted(pairs, key=lambda pair: pair[0])]
    return changed


def _with_place(call: Call, attempt: Attempt) -> Attempt:
    output: Mapping[str, object] = attempt.output
    if call.operation == "ReceiveMessage":
        messages = [
            message | {"MessageId": f"{message['MessageId']}@{call.queue}"}
            for message in attempt.output.get("Messages", ())
        ]
        output = {"Messages": messages}
    return replace(attempt, call=call, output=output)


def acknowledged_arrives(case: Case) -> Iterator[Violation]:
    """What was acknowledged is delivered in the end, in some queue, unless somebody deleted it."""
    if case.plan.dead_retention_s < RETENTION_S:
        return
    ends_us = case.time_of("the faults end")
    delivered: set[str] = set()
    asked: set[str] = set()
    for place, one in case.deliveries:
        body = one.message["Body"]
        if one.answered_us > ends_us:
            delivered.add(body)
        if f"{place.id}@{place.queue}" in case.ledger.deletes_asked:
            asked.add(body)
    for body, sent in case.ledger.sent.items():
        if sent.acknowledged_us != NEVER_US and body not in delivered | asked:
            yield Violation("acknowledged arrives", f"{body[:40]!r} is lost", [body.split("#")[0]])


def ways_are_gone_once(case: Case) -> Iterator[Violation]:
    """Nothing is delivered from where a message was, once it was delivered from further on."""
    by_body: dict[str, list[tuple[tuple[int, bool], Place, Delivered]]] = defaultdict(list)
    for place, one in case.deliveries:
        step = (case.stored_at.get(place.id, 0), place.queue == case.plan.dead)
        by_body[one.message["Body"]].append((step, place, one))
    for body, steps in by_body.items():
        sent = case.ledger.sent.get(body)
        if sent is None or _copies(case, steps) != 1:
            continue  # A call that was repeated unrecognised: two messages, two ways.
        for step, place, one in steps:
            ahead = [o for s, _, o in steps if s > step and o.answered_us < one.attempt.invoked_us]
            if ahead:
                yield Violation(
                    "ways are gone once",
                    f"{body[:40]!r} was delivered from {place.queue} after it was further on",
                    [body.split("#")[0], place.id],
                )


def _copies(case: Case, steps: list[tuple[tuple[int, bool], Place, Delivered]]) -> int:
    """How many messages of this body were sent, by what is known of them."""
    sent = case.ledger.sent[steps[0][2].message["Body"]]
    attempts = sum(bool(attempt.answered_us) for attempt in sent.call.attempts)
    return max(len(sent.ids), 1 if len(sent.call.attempts) == 1 else attempts + 1)


def redriven_once(case: Case) -> Iterator[Violation]:
    """Each message in the dead-letter queue becomes one message elsewhere."""
    if case.plan.tasks != "other":
        return
    ids: dict[str, set[str]] = defaultdict(set)
    origins: dict[str, set[str]] = defaultdict(set)
    for place, one in case.deliveries:
        (ids if place.queue == case.plan.other else origins)[one.message["Body"]].add(place.id)
    for body, redriven in ids.items():
        sent = case.ledger.sent.get(body)
        known = max(len(origins[body]), len(sent.ids) if sent else 0, 1)
        if len(redriven) > known and sent is not None and len(sent.call.attempts) == 1:
            yield Violation(
                "redriven once",
                f"{body[:40]!r} became {len(redriven)} messages",
                [body.split("#")[0], *redriven],
            )


def receives_are_bounded(case: Case) -> Iterator[Violation]:
    """No message is delivered more often from its queue than the policy allows.

    What a receive took within the policy, it may get again beyond it: each repetition under its id
    counts once more (docs/promises.md, "Dead letters").
    """
    if case.plan.policies_change:
        return
    for place, one in case.deliveries:
        count, most = one.receive_count, case.plan.receives_max
        is_beyond = place.queue in case.plan.sources and count > most + case.repetitions(one)
        if is_beyond or (place.queue == case.plan.dead and count <= most):
            yield Violation(
                "receives are bounded",
                f"{place.id} was delivered from {place.queue} with receive count {count}",
                [place.id],
            )


def messages_are_intact(case: Case) -> Iterator[Violation]:
    """What is delivered is what was sent, and where it died; its time of sending fits its id."""
    for place, one in case.deliveries:
        message, attributes = one.message, one.message["Attributes"]
        sent = case.ledger.sent.get(message["Body"])
        stamps_ms = [stamp_us // 1000 for stamp_us in case.sent_us(place)]
        source = attributes.get("DeadLetterQueueSourceArn")
        if sent is None:
            wrong = "was never sent like this"
        elif attributes_of(sent.entry) != attributes_of(message):
            wrong = "has other attributes"
        elif source != (arn(sent.call.queue) if place.queue == case.plan.dead else None):
            wrong = f"came from {source}"
        elif int(attributes["SentTimestamp"]) not in stamps_ms:
            wrong = "has another time of sending"
        else:
            continue
        yield Violation("messages are intact", f"{place} {wrong}", [place.id])


def dead_letters_expire(case: Case) -> Iterator[Violation]:
    """No receive that begins after their retention, counted from when they were sent."""
    for place, one in case.deliveries:
        sent_us = max(case.sent_us(place), default=NEVER_US)
        began_us = one.attempt.invoked_us + case.early_us
        late_us = began_us - sent_us - case.plan.dead_retention_s * SECOND_US
        if place.queue == case.plan.dead and late_us > 0:
            yield Violation(
                "dead letters expire", f"{place.id} was delivered {late_us} us late", [place.id]
            )


def groups_stay_in_order(case: Case) -> Iterator[Violation]:
    """What is delivered alone is not ahead of what is delivered again, nor moves overtake."""
    if not case.plan.fifo:
        return
    groups: dict[tuple[str, str], dict[str, list[Delivered]]] = defaultdict(dict)
    for place, one in case.deliveries:
        group = groups[place.queue, one.message["Attributes"]["MessageGroupId"]]
        group.setdefault(one.id, []).append(one)
    for (queue, _), messages in groups.items():
        order = sorted(messages, key=lambda known: _sequence(messages[known][0]))
        for number, later in enumerate(order):
            for earlier in order[:number]:
                words = _overtaking(case, messages[earlier], messages[later])
                if words:
                    text = f"{later} was delivered from {queue} before {earlier}"
                    yield Violation("groups stay in order", text, words)
    yield from _moves_in_order(case, groups)
    yield from answers_in_order(case.history)


def _sequence(delivered: Delivered) -> str:
    return str(delivered.message["Attributes"]["SequenceNumber"])


def _overtaking(case: Case, earlier: list[Delivered], later: list[Delivered]) -> list[str]:
    """The ids where a receive got the later one alone, and a later receive the earlier one.

    What a front end takes for expired, because its clock is or was ahead, holds nothing there.
    """
    together = {id(one.attempt) for one in earlier}
    expires_us = _expires_us(case, earlier[0])
    for one in later:
        if (
            id(one.attempt) not in together
            and not case.repetitions(one)
            and not case.may_ignore_leases(one)
            and one.answered_us < expires_us
            and any(again.attempt.invoked_us > one.answered_us for again in earlier)
        ):
            return [place_of(one.id).id, place_of(earlier[0].id).id]
    return []


def _expires_us(case: Case, delivered: Delivered) -> int:
    """The earliest time at which a front end may take a message for expired."""
    is_dead = place_of(delivered.id).queue == case.plan.dead
    retention_s = case.plan.dead_retention_s if is_dead else RETENTION_S
    sent_us = int(delivered.message["Attributes"]["SentTimestamp"]) * 1000
    return sent_us + retention_s * SECOND_US - case.late_us - case.estimate_error_us


def _moves_in_order(
    case: Case, groups: Mapping[tuple[str, str], Mapping[str, list[Delivered]]]
) -> Iterator[Violation]:
    """Messages with the same id in both queues are in the same order in both."""
    for (queue, group), dead in groups.items():
        if queue != case.plan.dead:
            continue
        for source in case.plan.sources:
            there = groups.get((source, group), {})
            pairs = [
                (_sequence(one[0]), _sequence(there[f"{place_of(known).id}@{source}"][0]))
                for known, one in dead.items()
                if f"{place_of(known).id}@{source}" in there
            ]
            ordered = [second for _, second in sorted(pairs)]
            if ordered != sorted(ordered):
                yield Violation("groups stay in order", f"{group} of {source} was mixed up", [])


INVARIANTS: Final[tuple[Callable[[Case], Iterator[Violation]], ...]] = (
    acknowledged_arrives,
    ways_are_gone_once,
    redriven_once,
    receives_are_bounded,
    messages_are_intact,
    dead_letters_expire,
    groups_stay_in_order,
)

_OF_ALL_QUEUES: Final = (
    oracle.nothing_breaks,
    oracle.deletes_last,
    oracle.visibility_is_respected,
    oracle.receive_counts_grow,
)


def check(plan: DeadLetterPlan, world: World) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = Case(plan, world)
    found = [violation for invariant in INVARIANTS for violation in invariant(case)]
    for shared in _OF_ALL_QUEUES:
        found += shared(case)
    return found

"""The invariants. Each looks once at every message of a history, on every seed.

Times are true ones. What rests on a clock is held against the clocks that were involved: a
decision of a front end at true time t was made between t + `offset_us_min` and t +
`offset_us_max`. What a front end answered counts as promised even if the answer was lost.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple, Protocol

from data_plane.bag.bounds import COLLECT_AFTER_US, LOW_WATER_MESSAGES, MARKERS_AT_ONCE_MAX
from data_plane.core.identifiers import uuid_text
from tests.simulation.faulty_cell import Stored
from tests.simulation.history import Attempt
from tests.simulation.ledger import (
    NEVER_US,
    Changed,
    Delivered,
    Ledger,
    Sent,
    attributes_of,
    make_ledger,
)
from tests.simulation.plan import Plan, Surroundings
from tests.simulation.sealed import Handles
from tests.simulation.world import World

SECOND_US = 1_000_000
PURGE_SEEN_US = 60 * SECOND_US
"""By then a purge has reached every front end (SQS's contract)."""
LAST_KNOWN_US = 600 * SECOND_US
"""For so long the definition known last serves while the registry's cell does not answer."""
LOOKBACK_US = 290 * SECOND_US
MILLISECOND_US = 1000
REFUSED = 403


class Violation(NamedTuple):
    """An invariant that did not hold; `words` find the events that concern it in the history."""

    invariant: str
    text: str
    words: list[str]


class QueueFacts(Protocol):
    """What of a queue's plan the oracle holds deliveries against."""

    @property
    def name(self) -> str: ...
    @property
    def visibility_s(self) -> int: ...
    @property
    def delay_s(self) -> int: ...
    @property
    def retention_s(self) -> int: ...


class Case:
    """A universe before the oracle."""

    def __init__(self, plan: Surroundings, queues: Sequence[QueueFacts], world: World) -> None:
        self.plan = plan
        self.world = world
        self.history = world.history
        self.ledger: Ledger = make_ledger(world.history)
        self.queues: dict[str, QueueFacts] = {queue.name: queue for queue in queues}
        self.end_us = world.scheduler.now_us
        self.early_us = world.offset_us_min
        self.late_us = world.offset_us_max
        # By how much front ends were wrong about the time of a cell that chooses no stamps.
        self.estimate_error_us = max(store.estimate_error_us_max for store in world.stores)
        self.handles = Handles(queue for store in world.stores for queue in store.queues)
        self.stored_by_id: dict[str, Stored] = {}
        self.stored_by_body: dict[str, list[Stored]] = defaultdict(list)
        for store in world.stores:
            for stored in store.stored:
                self.stored_by_id[uuid_text(stored.message_id)] = stored
                self.stored_by_body[stored.body].append(stored)

    def may_ignore_leases(self, delivered: Delivered) -> bool:
        """Whether the receive was under way while what was known of the message went.

        It was deleted, or it expired, and its block was collected; or it was purged and dropped. At
        least once allows such a delivery; nothing knows the leases before it any more.
        """
        done_us = self.ledger.deleted_us.get(delivered.id, NEVER_US)
        stored = self.stored_by_id.get(delivered.id)
        if stored is not None:
            retention_s = self.queues[delivered.attempt.call.queue].retention_s
            done_us = min(done_us, stored.stamp_us + retention_s * SECOND_US - self.early_us)
        return (
            delivered.attempt.invoked_us < done_us
            and delivered.answered_us + self.late_us - self.early_us > done_us + COLLECT_AFTER_US
        ) or self._may_be_dropped(delivered)

    def _may_be_dropped(self, delivered: Delivered) -> bool:
        """Whether a purge of the message had begun so long before that it may have been dropped.

        A server drops when the deadlines of all requests of before have passed. Here they may be
        under way for two minutes, and front ends drop after some seconds, so that much is dropped
        while much is under way. `the_purged_stay_away` says which receives may not know of a purge.
        """
        after_us = self.plan.drops_after_us
        stored = self.stored_by_id.get(delivered.id)
        if not after_us or stored is None:
            return False
        known_us = delivered.answered_us + self.late_us - self.early_us
        return any(
            purge.status != REFUSED
            and stored.time_us < (purge.answered_us or NEVER_US)
            and purge.invoked_us + after_us < known_us
            for purge in self.ledger.purges.get(delivered.attempt.call.queue, ())
        )


def nothing_breaks(case: Case) -> Iterator[Violation]:
    """No fault makes a front end fail internally, and everything comes to an end."""
    for text in case.history.broken:
        yield Violation("nothing breaks", text, [])


def acknowledged_is_delivered(case: Case) -> Iterator[Violation]:
    """What was acknowledged is delivered until it is deleted, unless it expired or was purged."""
    drained_us = next((time for time, text in case.history.events if text == "drained"), NEVER_US)
    ends_us = next((t for t, text in case.history.events if text == "the faults end"), NEVER_US)
    for body, sent in case.ledger.sent.items():
        if sent.acknowledged_us == NEVER_US:
            continue
        for message_id in sent.ids:
            if message_id in case.ledger.deletes_asked:
                continue
            if may_be_purged(case, sent, sent.promised[message_id]):
                continue
            if may_expire(case, message_id, sent, drained_us):
                continue
            delivered = case.ledger.deliveries.get(message_id, [])
            if not any(d.answered_us > ends_us for d in delivered):
                yield Violation(
                    "acknowledged is delivered",
                    f"{body[:40]!r} ({message_id}) was sent and is not delivered",
                    [message_id, body.split("#")[0]],
                )


def may_be_purged(case: Case, sent: Sent, promised: Sequence[Attempt]) -> bool:
    """Whether a purge may have taken a message that each of these attempts was answered with.

    One that was sent when its front end knew of the purge must not find what that had taken.
    """
    first_us = sent.call.attempts[0].invoked_us
    purges = [
        purge
        for purge in case.ledger.purges.get(sent.call.queue, ())
        if purge.status != REFUSED
        and (purge.answered_us or NEVER_US) + case.estimate_error_us >= first_us
    ]
    return all(
        any(_purge_known_us(case, purge, attempt) >= attempt.invoked_us for purge in purges)
        for attempt in promised
    )


def _purge_known_us(case: Case, purge: Attempt, attempt: Attempt) -> int:
    """When the front end of an attempt knew of a purge, at the latest."""
    if not purge.ok or purge.answered_us is None:
        return NEVER_US
    elsewhere = purge.front_end != attempt.front_end
    return purge.answered_us + case.estimate_error_us + elsewhere * _purge_seen_us(case)


def _purge_seen_us(case: Case) -> int:
    """How long after its answer a purge has reached every front end."""
    last_known_us = 0 if case.plan.climate.calm else LAST_KNOWN_US
    return PURGE_SEEN_US + last_known_us + case.late_us - case.early_us


def may_expire(case: Case, message_id: str, sent: Sent, until_us: int) -> bool:
    """Whether some front end may have taken a message for expired by then."""
    stored = case.stored_by_id.get(message_id)
    if stored is None:
        return False  # acknowledged and never stored: there is no excuse
    retention_us = case.queues[sent.call.queue].retention_s * SECOND_US
    return stored.stamp_us + retention_us <= until_us + case.late_us + case.estimate_error_us


def deletes_last(case: Case) -> Iterator[Violation]:
    """No receive that begins after a delete was acknowledged delivers the message."""
    for message_id, deleted_us in case.ledger.deleted_us.items():
        for delivered in case.ledger.deliveries[message_id]:
            if delivered.attempt.invoked_us > deleted_us:
                yield Violation(
                    "deletes last",
                    f"{message_id} came back {delivered.answered_us - deleted_us} us after its"
                    " delete",
                    [message_id, delivered.message["ReceiptHandle"]],
                )


def visibility_is_respected(case: Case) -> Iterator[Violation]:
    """A message is delivered again only when its lease has ended, by the clocks involved."""
    for message_id, deliveries in case.ledger.deliveries.items():
        changes = case.ledger.changes.get(message_id, [])
        # Answers may overtake each other; receive counts are in the order of the leases.
        by_lease = sorted(deliveries, key=lambda delivered: delivered.receive_count)
        for number, delivered in enumerate(by_lease):
            if number == 0:
                continue
            if case.may_ignore_leases(delivered):
                continue
            ends_us = _earliest_end_us(case, by_lease[:number], changes, delivered)
            if ends_us > delivered.answered_us + case.late_us + MILLISECOND_US:
                yield Violation(
                    "visibility is respected",
                    f"{message_id} was delivered {ends_us - delivered.answered_us} us before its"
                    " visibility ended",
                    [message_id, *(d.message["ReceiptHandle"] for d in deliveries)],
                )


def _earliest_end_us(
    case: Case, earlier: list[Delivered], changes: list[Changed], delivered: Delivered
) -> int:
    """The earliest time, by any clock, at which the lease before this delivery may have ended."""
    began_us = delivered.attempt.invoked_us
    leases: list[tuple[int, int, int]] = []
    for before in earlier:
        visibility_s = before.visibility_s
        if visibility_s is None:
            visibility_s = case.queues[before.attempt.call.queue].visibility_s
        leases.append((before.attempt.invoked_us, before.answered_us, visibility_s))
    for changed in sorted(changes, key=lambda changed: changed.attempt.invoked_us):
        if changed.attempt.invoked_us < delivered.answered_us:
            known_us = _surely_changed_us(case, leases, changed)
            leases.append((changed.attempt.invoked_us, known_us, changed.visibility_s))
    return _earliest_end_of(leases, began_us, case.early_us)


def _surely_changed_us(case: Case, leases: list[tuple[int, int, int]], changed: Changed) -> int:
    """When a change was known to have been made: never where the lease may have ended before.

    A change that comes after that is answered as one that was made, and has no effect.
    """
    answered_us = changed.attempt.answered_us
    if not changed.ok or answered_us is None:
        return NEVER_US
    before = [lease for lease in leases if lease[0] < answered_us]
    ends_us = _earliest_end_of(before, changed.attempt.invoked_us, case.early_us)
    decided_us = answered_us + case.late_us + MILLISECOND_US
    return answered_us if decided_us < ends_us else NEVER_US


def _earliest_end_of(leases: list[tuple[int, int, int]], began_us: int, early_us: int) -> int:
    """The earliest end of leases: when each was asked for, was known to be, and its seconds."""
    # A lease that was replaced for certain before this began does not count any more.
    replaced_us = max((begin for begin, end, _ in leases if end < began_us), default=0)
    return min(
        (
            begin + early_us + visibility_s * SECOND_US
            for begin, end, visibility_s in leases
            if end >= replaced_us
        ),
        default=0,
    )


def receive_counts_grow(case: Case) -> Iterator[Violation]:
    """A receive count is above those of all deliveries answered before."""
    for message_id, deliveries in case.ledger.deliveries.items():
        seen: set[int] = set()
        for delivered in deliveries:
            began_us, count = delivered.attempt.invoked_us, delivered.receive_count
            highest = max(
                (d.receive_count for d in deliveries if d.answered_us < began_us), default=0
            )
            if (count in seen or count <= highest) and not case.may_ignore_leases(delivered):
                yield Violation(
                    "receive counts grow",
                    f"{message_id} was delivered with receive count {count} after {highest},"
                    f" {sorted(seen)}",
                    [message_id],
                )
            seen.add(count)


def repeats_are_stored_once(case: Case) -> Iterator[Violation]:
    """An attempt that begins after an earlier one was stored does not store its messages again.

    Unless they were consumed and their block collected meanwhile: then there is nothing to find.
    Nor is there where they were purged.
    """
    for body, copies in case.stored_by_body.items():
        copies.sort(key=lambda stored: stored.time_us)
        call = case.ledger.sent[body].call
        for first, copy in combinations(copies, 2):
            # Which of the front end's attempts stored the copy is not known: the first, maybe.
            began_us = min(
                attempt.invoked_us
                for attempt in call.attempts
                if attempt.front_end == copy.front_end and attempt.invoked_us < copy.time_us
            )
            # A cell that chooses no stamps may have stored it long after its stamp.
            stored_us = min(first.time_us, first.stamp_us)
            looked_back_us = copy.time_us - stored_us + case.late_us - case.early_us
            if _may_be_purged_before(case, call.queue, first, copy):
                continue
            if copy.again and began_us > first.time_us and looked_back_us < LOOKBACK_US:
                yield Violation(
                    "repeats are stored once",
                    f"{body[:40]!r} was stored at {first.time_us} and again at {copy.time_us}",
                    [f"#{call.number}."],
                )


def _may_be_purged_before(case: Case, queue: str, first: Stored, copy: Stored) -> bool:
    """Whether a purge may have taken what was stored first when the copy was."""
    stored_us = min(first.time_us, first.stamp_us) - case.late_us - case.estimate_error_us
    return any(
        purge.invoked_us < copy.time_us and stored_us < (purge.answered_us or NEVER_US)
        for purge in case.ledger.purges.get(queue, ())
        if purge.status != REFUSED
    )


def messages_are_intact(case: Case) -> Iterator[Violation]:
    """What is delivered was sent: to this queue, with this body, these attributes, this id."""
    for message_id, deliveries in case.ledger.deliveries.items():
        for delivered in deliveries:
            message = delivered.message
            sent = case.ledger.sent.get(message["Body"])
            stored = case.stored_by_id.get(message_id)
            if sent is None or stored is None or stored.body != message["Body"]:
                wrong = "was never sent like this"
            elif sent.call.queue != delivered.attempt.call.queue:
                wrong = f"belongs to {sent.call.queue}"
            elif attributes_of(sent.entry) != attributes_of(message):
                wrong = "has other attributes"
            elif message["Attributes"].get("MessageGroupId") != sent.entry.get("MessageGroupId"):
                wrong = "has another group"
            elif int(message["Attributes"]["SentTimestamp"]) != stored.stamp_us // 1000:
                wrong = "has another time of sending"
            else:
                continue
            yield Violation("messages are intact", f"{message_id} {wrong}", [message_id])


def delays_are_respected(case: Case) -> Iterator[Violation]:
    """No message is delivered before its delay is over."""
    for message_id, deliveries in case.ledger.deliveries.items():
        sent = case.ledger.sent.get(deliveries[0].message["Body"])
        if sent is None:
            continue
        delay_s = sent.delay_s
        if delay_s is None:
            delay_s = case.queues[sent.call.queue].delay_s
        early_us = (
            sent.call.attempts[0].invoked_us + delay_s * SECOND_US - deliveries[0].answered_us
        )
        if early_us > 2 * case.estimate_error_us:
            yield Violation(
                "delays are respected",
                f"{message_id} was delivered {early_us} us before its delay was over",
                [message_id, f"#{sent.call.number}."],
            )


def the_expired_stay_away(case: Case) -> Iterator[Violation]:
    """Nothing is delivered by a receive that begins after the retention ended."""
    for message_id, deliveries in case.ledger.deliveries.items():
        stored = case.stored_by_id.get(message_id)
        for delivered in deliveries:
            retention_s = case.queues[delivered.attempt.call.queue].retention_s
            if stored is None:
                continue
            began_us = delivered.attempt.invoked_us + case.early_us
            late_us = began_us - stored.stamp_us - retention_s * SECOND_US
            if late_us > 0:
                yield Violation(
                    "the expired stay away",
                    f"{message_id} was delivered {late_us} us after its retention",
                    [message_id],
                )


def the_purged_stay_away(case: Case) -> Iterator[Violation]:
    """A message sent before a purge is not delivered once the purge has reached everybody."""
    faulty, seen_us = not case.plan.climate.calm, _purge_seen_us(case)
    for message_id, deliveries in case.ledger.deliveries.items():
        stored = case.stored_by_id.get(message_id)
        for delivered in deliveries:
            for purge in case.ledger.purges.get(delivered.attempt.call.queue, ()):
                if not purge.ok or purge.answered_us is None or stored is None:
                    continue
                same = purge.front_end == delivered.attempt.front_end
                allowed_us = 0 if same and not faulty else seen_us
                if (
                    stored.time_us + 2 * case.estimate_error_us < purge.invoked_us
                    and delivered.attempt.invoked_us > purge.answered_us + allowed_us
                ):
                    yield Violation(
                        "the purged stay away",
                        f"{message_id} was delivered although purge #{purge.call.number} was"
                        " answered before",
                        [message_id, "PurgeQueue"],
                    )


def budgets_are_kept(case: Case) -> Iterator[Violation]:
    """Requests to cells of a call that nothing disturbs."""
    if not case.plan.sequential or case.plan.bounds:
        return
    sent: Counter[str] = Counter()
    for attempt in case.history.attempts:
        if attempt.number > 1 or not attempt.ok:
            continue
        spent, params, queue = attempt.spent, attempt.call.params, attempt.call.queue
        writes = spent["append"] + spent["put"] + spent["update"] + spent["delete"]
        reads = spent["get"] + spent["get_many"] + spent["query"]
        match attempt.call.operation:
            case "SendMessage":
                sent[queue] += 1
                allowed = (1, 0)
            case "SendMessageBatch":
                sent[queue] += len(params["Entries"])
                delays = {entry.get("DelaySeconds") for entry in params["Entries"]}
                allowed = (len(delays), 0)
            case "DeleteMessage":
                allowed = (1, 0)
            case "DeleteMessageBatch":
                handles = [entry["ReceiptHandle"] for entry in params["Entries"]]
                allowed = (_blocks(case, handles), 0)
            case "ReceiveMessage" if attempt.output.get("Messages"):
                handles = [message["ReceiptHandle"] for message in attempt.output["Messages"]]
                # A look at the queue may move the low-water mark, with markers for what is leased
                # below it. Who waits looks again: it may move when as many were passed once more.
                again = sent[queue] // LOW_WATER_MESSAGES if params.get("WaitTimeSeconds") else 0
                markers = min(spent["append"], MARKERS_AT_ONCE_MAX * (1 + again))
                allowed = (_blocks(case, handles) + 1 + again + markers, NEVER_US)
            case _:
                continue
        if writes > allowed[0] or reads > allowed[1]:
            yield Violation(
                "budgets are kept",
                f"{attempt.call.operation} #{attempt.call.number} spent {dict(spent)}",
                [f"#{attempt.call.number}."],
            )


def _blocks(case: Case, handles: list[str]) -> int:
    """How many blocks the messages of these handles lie in."""
    return len({case.handles.open(handle).block for handle in handles})


INVARIANTS: Final[tuple[Callable[[Case], Iterator[Violation]], ...]] = (
    nothing_breaks,
    acknowledged_is_delivered,
    deletes_last,
    visibility_is_respected,
    receive_counts_grow,
    repeats_are_stored_once,
    messages_are_intact,
    delays_are_respected,
    the_expired_stay_away,
    the_purged_stay_away,
    budgets_are_kept,
)


def check(plan: Plan, world: World) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = Case(plan, plan.queues, world)
    return [violation for invariant in INVARIANTS for violation in invariant(case)]

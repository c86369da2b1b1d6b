"""The invariants of FIFO queues. What cells saw is held against what clients were told.

Order, deduplication and deletes rest on no clock: here they are exact, by the cells' journal.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from data_plane.core.identifiers import sequence_number_text, uuid_text
from data_plane.log.slots import PURGE, purged_by
from tests.simulation.fifo.budgets import budgets_are_kept
from tests.simulation.fifo.case import FifoCase
from tests.simulation.fifo.handles import good_handles_are_accepted, old_handles_are_refused
from tests.simulation.fifo.journal import Journal, StoredFifo
from tests.simulation.fifo.ledger import SentEntry
from tests.simulation.fifo.plan import FifoPlan
from tests.simulation.history import History
from tests.simulation.ledger import NEVER_US, Delivered, attributes_of
from tests.simulation.oracle import (
    MILLISECOND_US,
    SECOND_US,
    Violation,
    nothing_breaks,
    receive_counts_grow,
    the_purged_stay_away,
    visibility_is_respected,
)
from tests.simulation.world import World


def acknowledged_is_delivered(case: FifoCase) -> Iterator[Violation]:
    """What was acknowledged is delivered until it is deleted, unless it expired or was purged."""
    for sent in case.sends:
        if not sent.id:
            continue
        stored = case.copies.get(sent.id)
        if stored is None:
            wrong = "and was not stored"
        else:
            until_us = min((t for t in case.drained_us if t > sent.answered_us), default=NEVER_US)
            if (
                stored.place in case.maybe_deleted
                or case.may_be_expired(stored, min(until_us, case.end_us))
                or case.may_be_purged(stored, sent.attempt.invoked_us, case.end_us)
            ):
                continue
            wrong = "and is not delivered"
        yield Violation(
            "acknowledged is delivered",
            f"{sent.entry['MessageBody'][:40]!r} ({sent.id}) was acknowledged by"
            f" #{sent.attempt.call.number}.{sent.attempt.number} {wrong}",
            [sent.id, sent.entry["MessageBody"].split("#")[0]],
        )


def deletes_last(case: FifoCase) -> Iterator[Violation]:
    """No lease that is taken after a delete took effect is handed out: not one, ever."""
    for delivered, stored, claim in case.deliveries():
        done_us = case.done_us(stored)
        deleted_us = case.ledger.deleted_us.get(delivered.id, NEVER_US)
        if claim.time_us > done_us or delivered.attempt.invoked_us > deleted_us:
            yield Violation(
                "deletes last",
                f"{delivered.id} came back at {claim.time_us}, after its delete at {done_us}",
                [delivered.id, delivered.message["ReceiptHandle"]],
            )


def a_group_is_held(case: FifoCase) -> Iterator[Violation]:
    """A message is leased when all before it in its group are done, or leased in the same call.

    So groups are delivered in order, and what is in flight of a group holds all behind it.
    """
    together: dict[int, set[bytes]] = defaultdict(set)
    for delivered, stored, _ in case.deliveries():
        together[id(delivered.attempt)].add(stored.id)
    for delivered, stored, claim in case.deliveries():
        if case.may_ignore_leases(delivered):
            continue
        for before in case.groups[stored.written.log.uid, stored.group]:
            if before.sequence >= stored.sequence:
                break
            if (
                before.id in together[id(delivered.attempt)]
                or case.done_us(before) < claim.time_us
                or case.may_be_expired(before, claim.time_us)
                or case.may_be_purged(before, before.written.time_us, claim.time_us)
            ):
                continue
            yield Violation(
                "a group is held",
                f"{delivered.id} was delivered before {uuid_text(before.id)} of its group was done",
                [delivered.id, uuid_text(before.id)],
            )


def groups_stay_in_order(case: FifoCase) -> Iterator[Violation]:
    """What is sent after an acknowledgement comes later: in sequence numbers, and in answers."""
    yield from _sends_in_order(case)
    yield from answers_in_order(case.history)


def answers_in_order(history: History) -> Iterator[Violation]:
    """In one answer the messages of a group follow each other, each once."""
    for attempt in history.attempts:
        if attempt.call.operation != "ReceiveMessage" or not attempt.ok:
            continue
        last: dict[str, str] = {}
        for message in attempt.output.get("Messages", ()):
            attributes = message["Attributes"]
            group, sequence = attributes["MessageGroupId"], attributes["SequenceNumber"]
            if sequence <= last.get(group, ""):
                yield Violation(
                    "groups stay in order",
                    f"#{attempt.call.number} got {message['MessageId']} out of order",
                    [message["MessageId"]],
                )
            last[group] = sequence


def _sends_in_order(case: FifoCase) -> Iterator[Violation]:
    first_us: dict[str, int] = {}
    for stored in case.copies.values():
        body = case.stored_by_id[uuid_text(stored.id)].body
        first_us[uuid_text(stored.id)] = case.ledger.sent[body].call.attempts[0].invoked_us
    by_group: dict[tuple[str, str], list[SentEntry]] = defaultdict(list)
    for sent in case.sends:
        if sent.id in case.copies:
            by_group[sent.queue, sent.entry["MessageGroupId"]].append(sent)
    for sends in by_group.values():
        later = sorted({sent.id for sent in sends}, key=lambda message_id: first_us[message_id])
        acknowledged = sorted(sends, key=lambda sent: sent.answered_us)
        highest, number = "", 0
        for message_id in later:
            while (
                number < len(acknowledged)
                and acknowledged[number].answered_us < first_us[message_id]
            ):
                highest = max(highest, acknowledged[number].sequence)
                number += 1
            if sequence_number_text(case.copies[message_id].sequence) < highest:
                yield Violation(
                    "groups stay in order",
                    f"{message_id} was sent after the acknowledgement of {highest}, and is before",
                    [message_id, highest],
                )


def duplicates_are_stored_once(case: FifoCase) -> Iterator[Violation]:
    """No two messages with one deduplication id within the window, but for a purge between."""
    purges = [written for written in case.journal.slots if written.slot.kind == PURGE]
    copies: dict[tuple[str, bytes], list[StoredFifo]] = defaultdict(list)
    for stored in case.copies.values():
        if not stored.written.late:
            copies[stored.written.log.uid, stored.dedup].append(stored)
    for (uid, _), stored_again in copies.items():
        stored_again.sort(key=lambda stored: stored.sequence)
        for one, other in pairwise(stored_again):
            apart_us = other.stamp_us - one.stamp_us
            if apart_us < case.window_us and not any(
                written.log.uid == uid
                and purged_by(written.slot) >= one.stamp_us
                and written.time_us <= other.written.time_us
                for written in purges
            ):
                yield Violation(
                    "duplicates are stored once",
                    f"{uuid_text(one.id)} and {uuid_text(other.id)} have one deduplication id and"
                    f" are {apart_us} us apart",
                    [uuid_text(one.id), uuid_text(other.id)],
                )


def duplicates_are_answered_alike(case: FifoCase) -> Iterator[Violation]:
    """An acknowledgement has id and sequence number of a message stored for what was sent.

    For one with the same deduplication id, not long before.
    """
    for sent in case.sends:
        stored = case.copies.get(sent.id)
        if stored is None:
            continue
        original = case.ledger.sent[case.stored_by_id[sent.id].body].entry
        scoped = case.has_group_scope(sent.queue)
        early_us = sent.attempt.invoked_us - stored.stamp_us - case.window_us
        if _deduplication(original, scoped) != _deduplication(sent.entry, scoped):
            wrong = "has another deduplication id"
        elif case.was_purged(stored, sent.attempt.invoked_us):
            wrong = "had been purged before"
        elif sequence_number_text(stored.sequence) != sent.sequence:
            wrong = f"has the sequence number {stored.sequence}, not {sent.sequence}"
        elif early_us > case.skew_us:
            wrong = f"is {early_us} us too old for that"
        else:
            continue
        yield Violation(
            "duplicates are answered alike",
            f"#{sent.attempt.call.number}.{sent.attempt.number} was answered {sent.id}, which"
            f" {wrong}",
            [sent.id, f"#{sent.attempt.call.number}."],
        )


def _deduplication(entry: Mapping[str, Any], scoped: bool) -> tuple[str, str]:  # noqa: FBT001
    given = entry.get("MessageDeduplicationId", entry["MessageBody"])
    return entry["MessageGroupId"] if scoped else "", given


def slots_are_written_once(case: FifoCase) -> Iterator[Violation]:
    """What lies in a slot's second value is nobody's message; stamps and `x` never fall."""
    answered = {sent.id for sent in case.sends if sent.id}
    for stored in case.journal.messages:
        message_id = uuid_text(stored.id)
        if stored.written.again and (
            message_id in answered or message_id in case.ledger.deliveries
        ):
            number = stored.written.slot.number
            yield Violation(
                "slots are written once",
                f"{message_id} lies in slot {number}, which had another value before",
                [message_id],
            )
    logs: dict[object, list[tuple[int, int, int]]] = defaultdict(list)
    for written in case.journal.slots:
        if not written.again and not written.late:
            slot = written.slot
            logs[written.log].append((slot.number, slot.stamp_us, slot.expires_s))
    for log, slots in logs.items():
        for one, other in pairwise(sorted(slots)):
            if one[1] >= other[1] or one[2] > other[2]:
                yield Violation(
                    "slots are written once", f"slots of {log} fall: {one}, {other}", []
                )


def messages_are_intact(case: FifoCase) -> Iterator[Violation]:
    """What is delivered was sent: to this queue and group, and is what is stored."""
    for message_id, deliveries in case.ledger.deliveries.items():
        for delivered in deliveries:
            wrong = _what_is_wrong(case, delivered)
            if wrong:
                yield Violation("messages are intact", f"{message_id} {wrong}", [message_id])


def _what_is_wrong(case: FifoCase, delivered: Delivered) -> str:
    message, attributes = delivered.message, delivered.message["Attributes"]
    sent = case.ledger.sent.get(message["Body"])
    stored, copy = case.stored_by_id.get(delivered.id), case.copies.get(delivered.id)
    if sent is None or stored is None or copy is None or stored.body != message["Body"]:
        return "was never sent like this"
    entry = sent.entry
    given = entry.get("MessageDeduplicationId", attributes["MessageDeduplicationId"])
    facts = {
        "place": (case.place_of(message["ReceiptHandle"])[0], copy.place),
        "queue": (delivered.attempt.call.queue, sent.call.queue),
        "attributes": (attributes_of(message), attributes_of(entry)),
        "time of sending": (int(attributes["SentTimestamp"]), stored.stamp_us // 1000),
        "group": (attributes["MessageGroupId"], entry["MessageGroupId"]),
        "sequence number": (attributes["SequenceNumber"], sequence_number_text(copy.sequence)),
        "deduplication id": (attributes["MessageDeduplicationId"], given),
    }
    wrong = [
        f"has the {name} {told}, not {true}" for name, (told, true) in facts.items() if told != true
    ]
    if case.claim_of(delivered) is None:
        wrong.append("was delivered without a lease")
    return ", ".join(wrong)


def delays_are_respected(case: FifoCase) -> Iterator[Violation]:
    """No message is leased before the queue's delay is over."""
    for delivered, stored, claim in case.deliveries():
        delay_us = case.queues[delivered.attempt.call.queue].delay_s * SECOND_US
        early_us = stored.stamp_us + delay_us - claim.time_us - case.late_us
        if early_us > MILLISECOND_US:
            yield Violation(
                "delays are respected",
                f"{delivered.id} was delivered {early_us} us before its delay was over",
                [delivered.id],
            )


def the_expired_stay_away(case: FifoCase) -> Iterator[Violation]:
    """Nothing is delivered by a receive that begins after the retention ended."""
    for delivered, stored, _ in case.deliveries():
        retention_us = case.longest_retention_s(delivered.attempt.call.queue) * SECOND_US
        late_us = delivered.attempt.invoked_us + case.early_us - stored.stamp_us - retention_us
        if late_us > 0:
            yield Violation(
                "the expired stay away",
                f"{delivered.id} was delivered {late_us} us after its retention",
                [delivered.id],
            )


INVARIANTS: Final[tuple[Callable[[FifoCase], Iterator[Violation]], ...]] = (
    nothing_breaks,
    acknowledged_is_delivered,
    deletes_last,
    visibility_is_respected,
    receive_counts_grow,
    a_group_is_held,
    groups_stay_in_order,
    duplicates_are_stored_once,
    duplicates_are_answered_alike,
    slots_are_written_once,
    messages_are_intact,
    delays_are_respected,
    the_expired_stay_away,
    the_purged_stay_away,
    good_handles_are_accepted,
    old_handles_are_refused,
    budgets_are_kept,
)


def check(plan: FifoPlan, world: World, journal: Journal) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = FifoCase(plan, world, journal)
    return [violation for invariant in INVARIANTS for violation in invariant(case)]

"""The invariants of replicated standard queues: nothing is lost, and what comes twice is counted.

A member that serves after the first was lost may not have heard of the latest leases and deletes.
So what rests on leases holds among those that one member decided; and a delete holds everywhere
once the front end that acknowledged it has told all members.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.history import Attempt
from tests.simulation.ledger import NEVER_US, Delivered
from tests.simulation.oracle import (
    Case,
    Violation,
    acknowledged_is_delivered,
    delays_are_respected,
    messages_are_intact,
    nothing_breaks,
    receive_counts_grow,
    the_purged_stay_away,
    visibility_is_respected,
)
from tests.simulation.replicated.plan import OLD_MAP_US, SECOND_US, ReplicatedPlan
from tests.simulation.replicated.records import Replica
from tests.simulation.replicated.world import ReplicatedWorld


class ReplicatedCase(Case):
    """A universe of standard queues before the oracle. `redelivered` counts duplicates."""

    def __init__(self, plan: ReplicatedPlan, world: ReplicatedWorld) -> None:
        super().__init__(plan, plan.queues, world)
        self.shipped = world.shipped
        self.records = world.records
        self.reconciled = world.reconciled
        self.redelivered = 0
        # One member stamps, and another serves: by as much as their clocks differ.
        self.estimate_error_us += world.apart_us()

    def may_ignore_leases(self, delivered: Delivered) -> bool:
        """Whether the member that granted this lease may not have heard of an earlier one.

        It has where all leases that others granted were told, in whatever order, before it granted
        its first. Changes of visibility have no order. A member that was dropped hears nothing.
        """
        if super().may_ignore_leases(delivered):
            return True
        where = self.leased_at(delivered)
        deliveries = self.ledger.deliveries[delivered.id]
        elsewhere = [one for one in deliveries if self.leased_at(one) != where]
        if not elsewhere or self.was_dropped(where, delivered):
            return bool(elsewhere)
        began_us = min(one.attempt.invoked_us for one in deliveries if self.leased_at(one) == where)
        return bool(self.ledger.changes.get(delivered.id)) or any(
            self.shipped_us(one.attempt.front_end, one.answered_us) >= began_us for one in elsewhere
        )

    def leased_at(self, delivered: Delivered) -> Replica | None:
        """The member that granted the lease."""
        said = self.handles.open(delivered.message["ReceiptHandle"])
        return self.records.leases.get((said.block, said.index, said.token))

    def deleted_at(self, delivered: Delivered) -> Replica | None:
        """The member that took the delete of the message first."""
        said = self.handles.open(delivered.message["ReceiptHandle"])
        return self.records.deletes.get((said.block, said.index))

    def was_dropped(self, at: Replica | None, delivered: Delivered) -> bool:
        """Whether the member had just been dropped, so that an old map may have led there."""
        group = self.records.queue_group(delivered.attempt.call.queue)
        dropped_us = self.records.dropped_us(group, at)
        return (
            dropped_us is not None
            and dropped_us <= delivered.answered_us <= dropped_us + OLD_MAP_US
        )

    def told_us(self, message_id: str, decided: Replica | None) -> int:
        """When the first of those who acknowledged a delete of it had told all members.

        Or a manager had for them, while the member where it was decided was the first.
        """
        return min(
            (
                min(
                    self.shipped_us(attempt.front_end, attempt.answered_us),
                    self.reconciled_us(attempt, attempt.answered_us, decided),
                )
                for attempt in self.ledger.deletes[message_id]
                if attempt.answered_us is not None
            ),
            default=NEVER_US,
        )

    def reconciled_us(self, attempt: Attempt, since_us: int, decided: Replica | None) -> int:
        """When a manager had told all members what this member had decided by then."""
        group = self.records.queue_group(attempt.call.queue)
        return min(
            (
                one.ended_us
                for one in self.reconciled
                if attempt.front_end in one.front_ends
                and one.began_us >= since_us
                and self.records.first(group, one.began_us) == decided
                and self.records.first(group, one.ended_us) == decided
            ),
            default=NEVER_US,
        )

    def shipped_us(self, front_end: str, since_us: int) -> int:
        """When a front end had told all members what it had done until then."""
        done = self.shipped.get(front_end, ())
        return min((ended for began, ended in done if began >= since_us), default=NEVER_US)


def deletes_last(case: ReplicatedCase) -> Iterator[Violation]:
    """What was deleted comes back only from a member that had not been told of it."""
    for message_id, deleted_us in case.ledger.deleted_us.items():
        for delivered in case.ledger.deliveries[message_id]:
            began_us = delivered.attempt.invoked_us
            if began_us <= deleted_us:
                continue
            where, elsewhere = case.leased_at(delivered), case.deleted_at(delivered)
            told_us = case.told_us(message_id, elsewhere)
            if where != elsewhere and (began_us <= told_us or case.was_dropped(where, delivered)):
                case.redelivered += 1
                continue
            yield Violation(
                "deletes last",
                f"{message_id} came back from {where}, {delivered.answered_us - deleted_us} us"
                f" after its delete at {elsewhere}",
                [message_id, delivered.message["ReceiptHandle"], " is at ", "down", "lost"],
            )


def leases_are_told(case: ReplicatedCase) -> Iterator[Violation]:
    """A message that was leased once stays invisible, whichever member serves.

    Once the front end that handed it out has told all members. Of several leases an earlier one may
    be told last.
    """
    for message_id, deliveries in case.ledger.deliveries.items():
        if len(deliveries) < 2 or case.ledger.changes.get(message_id):
            continue
        first, second = deliveries[:2]
        attempt, where = first.attempt, case.leased_at(second)
        if (
            where in {case.leased_at(first), None}
            or case.was_dropped(where, second)
            or case.shipped_us(attempt.front_end, first.answered_us) >= second.attempt.invoked_us
        ):
            continue
        visibility_s = first.visibility_s
        if visibility_s is None:
            visibility_s = case.queues[attempt.call.queue].visibility_s
        ends_us = attempt.invoked_us + case.early_us + visibility_s * SECOND_US
        if ends_us > second.answered_us + case.late_us:
            yield Violation(
                "leases are told",
                f"{message_id} was delivered by {where} {ends_us - second.answered_us} us before"
                " its visibility ended",
                [message_id, " is at "],
            )


INVARIANTS: Final[tuple[Callable[[ReplicatedCase], Iterator[Violation]], ...]] = (
    nothing_breaks,
    acknowledged_is_delivered,
    deletes_last,
    visibility_is_respected,
    receive_counts_grow,
    leases_are_told,
    messages_are_intact,
    delays_are_respected,
    the_purged_stay_away,
)


def check(plan: ReplicatedPlan, world: ReplicatedWorld) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = ReplicatedCase(plan, world)
    found = [violation for invariant in INVARIANTS for violation in invariant(case)]
    found += [Violation(invariant, text, []) for invariant, text in world.records.broken]
    world.redelivered = case.redelivered
    return found

"""The invariants of queues that deliver at most once, or exactly once.

But for the ends of leases nothing here rests on a clock.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from data_plane.bag.bounds import COLLECT_AFTER_US
from tests.simulation import oracle
from tests.simulation.fifo.ledger import Outcome, Use, uses_of_handles
from tests.simulation.guarantees.universe import RETENTION_S, GuaranteePlan
from tests.simulation.history import Attempt
from tests.simulation.ledger import NEVER_US, Delivered
from tests.simulation.oracle import SECOND_US, Violation
from tests.simulation.plan import QueuePlan
from tests.simulation.world import World


class Case(oracle.Case):
    """A universe before the oracle; `uses` of handles by the id of their message."""

    plan: GuaranteePlan

    def __init__(self, plan: GuaranteePlan, world: World) -> None:
        queues = [QueuePlan(name, plan.visibility_s, 0, RETENTION_S) for name in plan.queues]
        super().__init__(plan, queues, world)
        self.ends_us = next(t for t, text in self.history.events if text == "the faults end")
        self.receives = [
            attempt
            for attempt in self.history.attempts
            if attempt.call.operation == "ReceiveMessage"
        ]
        self.by_handle: dict[str, Delivered] = {
            delivered.message["ReceiptHandle"]: delivered
            for group in self.ledger.deliveries.values()
            for delivered in group
        }
        self.uses: dict[str, list[Use]] = defaultdict(list)
        for use in uses_of_handles(self.history):
            if use.attempt.call.queue == plan.exact:
                self.uses[self.by_handle[use.handle].id].append(use)

    def deliveries(self, queue: str) -> Iterator[tuple[str, list[Delivered]]]:
        """By id the deliveries of each message that came from this queue."""
        for message_id, group in self.ledger.deliveries.items():
            if group[0].attempt.call.queue == queue:
                yield message_id, group

    def acknowledged(self, queue: str) -> Iterator[tuple[str, str, int]]:
        """Of all messages that this queue has acknowledged id, body, and when they were sent."""
        for body, sent in self.ledger.sent.items():
            if sent.call.queue == queue and sent.acknowledged_us != NEVER_US:
                for message_id in sent.ids:
                    yield message_id, body, sent.call.attempts[0].invoked_us


def delivered_at_most_once(case: Case) -> Iterator[Violation]:
    """No message is in two answers, whatever fails."""
    for message_id, group in case.deliveries(case.plan.most):
        first, *others = sorted(group, key=lambda delivered: delivered.answered_us)
        for other in others:
            if _is_past_collection(case, first, other):
                continue
            yield Violation(
                "delivered at most once",
                f"{message_id} is in #{first.attempt.call.number}.{first.attempt.number} and in"
                f" #{other.attempt.call.number}.{other.attempt.number}",
                [message_id],
            )


def _is_past_collection(case: Case, first: Delivered, other: Delivered) -> bool:
    """Whether a receive was under way until the state that says what was deleted was collected.

    Only a cell with a front end of its own collects so early, and there is no way that long to it.
    """
    early_us = other.answered_us + case.late_us - case.early_us - first.answered_us
    return (
        not case.plan.fifo
        and other.attempt.invoked_us < first.answered_us
        and early_us > COLLECT_AFTER_US
    )


def nothing_is_lost_for_nothing(case: Case) -> Iterator[Violation]:
    """At most once: what was acknowledged is delivered, unless the answer of a receive failed."""
    delivered = {message_id for message_id, _ in case.deliveries(case.plan.most)}
    failed_us = max(
        (
            attempt.answered_us or NEVER_US
            for attempt in case.receives
            if attempt.call.queue == case.plan.most and not attempt.ok
        ),
        default=0,
    )
    for message_id, body, sent_us in case.acknowledged(case.plan.most):
        if message_id not in delivered and failed_us < sent_us:
            yield Violation(
                "nothing is lost for nothing",
                f"{body[:40]!r} ({message_id}) is in no answer, and no receive failed",
                [message_id, body.split("#")[0]],
            )


def acknowledged_is_delivered(case: Case) -> Iterator[Violation]:
    """Exactly once: what was acknowledged is delivered until a delete of it is not refused."""
    for message_id, body, _ in case.acknowledged(case.plan.exact):
        uses = case.uses[message_id]
        if any(use.deletes and use.outcome is not Outcome.REFUSED for use in uses):
            continue
        group = case.ledger.deliveries.get(message_id, [])
        if not any(delivered.answered_us > case.ends_us for delivered in group):
            yield Violation(
                "acknowledged is delivered",
                f"{body[:40]!r} ({message_id}) was sent and is not delivered",
                [message_id, body.split("#")[0]],
            )


def one_receiver_acknowledges(case: Case) -> Iterator[Violation]:
    """Deletes of a message are accepted with one handle."""
    for message_id, uses in case.uses.items():
        handles = {use.handle for use in uses if use.deletes and use.outcome is Outcome.DONE}
        if len(handles) > 1:
            yield Violation(
                "one receiver acknowledges",
                f"{message_id} was deleted with {len(handles)} handles",
                [message_id, *handles],
            )


def the_overtaken_are_refused(case: Case) -> Iterator[Violation]:
    """Once a later receive was answered, handles of those before do nothing."""
    for message_id, uses in case.uses.items():
        group = case.ledger.deliveries[message_id]
        for use in uses:
            own = case.by_handle[use.handle]
            if use.outcome is Outcome.DONE and any(
                other.receive_count > own.receive_count
                and other.answered_us < use.attempt.invoked_us
                and not case.may_ignore_leases(other)
                for other in group
            ):
                yield _about(use, message_id, "the overtaken are refused", "was accepted, too late")


def the_latest_are_accepted(case: Case) -> Iterator[Violation]:
    """Nobody is refused an acknowledgement whom nobody has overtaken.

    In FIFO queues while the lease lasts; elsewhere for as long as the message is kept.
    """
    for message_id, uses in case.uses.items():
        for use in uses:
            if (
                use.deletes
                and use.outcome is Outcome.REFUSED
                and not _may_be_deleted(use, uses)
                and not _may_be_overtaken(case, use, message_id)
                and not (case.plan.fifo and _may_be_over(case, use, uses))
            ):
                yield _about(use, message_id, "the latest are accepted", "was refused, and is good")


def _may_be_deleted(use: Use, uses: list[Use]) -> bool:
    return any(
        other.deletes
        and other is not use
        and other.outcome is not Outcome.REFUSED
        and other.attempt.invoked_us <= (use.attempt.answered_us or NEVER_US)
        for other in uses
    )


def _may_be_overtaken(case: Case, use: Use, message_id: str) -> bool:
    """Whether another receive may have taken the message: it has it, or nobody knows."""
    own = case.by_handle[use.handle]
    known = {
        id(other.attempt)
        for other in case.ledger.deliveries[message_id]
        if other.receive_count > own.receive_count
    }
    return any(
        attempt.call.queue == case.plan.exact
        and attempt is not own.attempt
        and (not attempt.ok or id(attempt) in known or _may_have_let_go(case, attempt))
        and attempt.invoked_us <= (use.attempt.answered_us or NEVER_US)
        for attempt in case.receives
    )


def _may_have_let_go(case: Case, receive: Attempt) -> bool:
    """Whether the receive may have taken messages and answered none of them.

    What is written so long after it was looked at, by the cell's time, may be of what was deleted
    and collected meanwhile, so it is not handed out. A front end whose clock is not that of its
    cell takes any write for such a one.
    """
    took_us = (receive.answered_us or NEVER_US) - receive.invoked_us
    return took_us + case.late_us - case.early_us > COLLECT_AFTER_US // 2


def _may_be_over(case: Case, use: Use, uses: list[Use]) -> bool:
    """Whether the lease of the handle may have ended, by the clocks or by somebody's will."""
    own = case.by_handle[use.handle]
    visibility_s = own.visibility_s
    if visibility_s is None:
        visibility_s = case.plan.visibility_s
    ends_us = own.attempt.invoked_us + case.early_us + visibility_s * SECOND_US
    return (use.attempt.answered_us or NEVER_US) + case.late_us >= ends_us or any(
        not other.deletes for other in uses
    )


def _about(use: Use, message_id: str, invariant: str, text: str) -> Violation:
    call = use.attempt.call
    return Violation(
        invariant,
        f"{call.operation} #{call.number}.{use.attempt.number} of {message_id} {text}",
        [message_id, use.handle],
    )


INVARIANTS: Final[tuple[Callable[[Case], Iterator[Violation]], ...]] = (
    delivered_at_most_once,
    nothing_is_lost_for_nothing,
    acknowledged_is_delivered,
    one_receiver_acknowledges,
    the_overtaken_are_refused,
    the_latest_are_accepted,
)

_OF_ALL_QUEUES: Final = (
    oracle.nothing_breaks,
    oracle.deletes_last,
    oracle.visibility_is_respected,
    oracle.receive_counts_grow,
    oracle.messages_are_intact,
)


def check(plan: GuaranteePlan, world: World) -> list[Violation]:
    """Everything that is wrong with a universe."""
    case = Case(plan, world)
    found = [violation for invariant in INVARIANTS for violation in invariant(case)]
    for shared in _OF_ALL_QUEUES:
        found += shared(case)
    return found

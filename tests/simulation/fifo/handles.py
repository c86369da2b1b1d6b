"""Invariants about receipt handles: a good one is accepted at every front end, an old one never."""

from collections.abc import Iterator

from tests.simulation.fifo.case import FifoCase
from tests.simulation.fifo.journal import Consumption, Lease
from tests.simulation.fifo.ledger import Outcome, Use
from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import MILLISECOND_US, Violation


def good_handles_are_accepted(case: FifoCase) -> Iterator[Violation]:
    """Whoever holds the lease may delete the message and change its visibility."""
    for use in case.uses:
        answered_us = use.attempt.answered_us
        if use.outcome is not Outcome.REFUSED or answered_us is None:
            continue
        place, token = case.place_of(use.handle)
        consumed = case.journal.consumed[place]
        if _done_us(consumed) <= answered_us:
            continue
        leases = _leases_between(consumed, use.attempt.invoked_us, answered_us)
        # What a front end knows of the time when it judges is as late as its clock at the end.
        late_us = answered_us + case.late_us + MILLISECOND_US
        if case.may_be_dropped(place, answered_us):
            continue
        if leases and all(
            lease.token == token and lease.visible_ms * MILLISECOND_US > late_us for lease in leases
        ):
            yield _violation(case, use, "good handles are accepted", "was refused, and is good")


def old_handles_are_refused(case: FifoCase) -> Iterator[Violation]:
    """After its lease, or once another receive has taken the message, a handle does nothing.

    A delete of what is deleted already succeeds, or was dropped, and so does to end a lease that
    was ended.
    """
    for use in case.uses:
        answered_us = use.attempt.answered_us
        if use.outcome is not Outcome.DONE or answered_us is None:
            continue
        began_us = use.attempt.invoked_us
        place, token = case.place_of(use.handle)
        consumed = case.journal.consumed[place]
        if use.deletes and _may_be_done_by_another(case, use, _done_us(consumed)):
            continue
        if use.deletes and case.may_be_dropped(place, answered_us):
            continue
        # The earliest time by any clock at which it may have been judged.
        early_us = began_us + case.early_us
        ends = not use.deletes and use.attempt.call.params["VisibilityTimeout"] == 0
        if not any(
            lease.token == token
            and (lease.visible_ms * MILLISECOND_US > early_us or (ends and not lease.visible_ms))
            for lease in _leases_between(consumed, began_us, answered_us)
        ):
            yield _violation(case, use, "old handles are refused", "was accepted, and is old")


def _done_us(consumed: Consumption) -> int:
    return NEVER_US if consumed.done_us is None else consumed.done_us


def _leases_between(consumed: Consumption, began_us: int, ended_us: int) -> list[Lease]:
    """Those that the message had at some time between, the one that it had at first included."""
    before = [lease for lease in consumed.leases if lease.time_us <= began_us]
    return before[-1:] + [
        lease for lease in consumed.leases if began_us < lease.time_us <= ended_us
    ]


def _may_be_done_by_another(case: FifoCase, use: Use, done_us: int) -> bool:
    if done_us <= use.attempt.invoked_us:
        return True
    place, _ = case.place_of(use.handle)
    return any(
        other.deletes
        and other.outcome is not Outcome.REFUSED
        and (other.attempt is not use.attempt or other.handle != use.handle)
        and other.attempt.invoked_us <= done_us
        and case.place_of(other.handle)[0] == place
        for other in case.uses
    )


def _violation(case: FifoCase, use: Use, invariant: str, text: str) -> Violation:
    place, _ = case.place_of(use.handle)
    leases = [
        (lease.time_us - case.start_us, lease.visible_ms - case.start_us // MILLISECOND_US)
        for lease in case.journal.consumed[place].leases
    ]
    return Violation(
        invariant,
        f"a handle of {place} in #{use.attempt.call.number}.{use.attempt.number} {text}: its leases"
        f" were written and ended at {leases}",
        [use.handle, f"#{use.attempt.call.number}."],
    )

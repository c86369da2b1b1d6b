"""The invariants of queues with KMS keys, beside those of all queues."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from data_plane.core.identifiers import uuid_text
from tests.simulation import oracle
from tests.simulation.faulty_cell import DELAY_US_MAX, PATIENCE_US_MAX
from tests.simulation.fifo import oracle as fifo
from tests.simulation.fifo.case import FifoCase
from tests.simulation.fifo.journal import Journal
from tests.simulation.fifo.plan import FifoPlan
from tests.simulation.history import Attempt
from tests.simulation.keys.world import LOCKED, OPEN_AGAIN, KeysWorld
from tests.simulation.ledger import NEVER_US
from tests.simulation.oracle import Case, Violation, may_be_purged, may_expire
from tests.simulation.plan import Plan
from tests.simulation.sealed import OF_KMS
from tests.simulation.world import World

CLIENT_FAULT: Final = 400
KMS: Final = "Kms"
PHASES: Final = ("the faults end", LOCKED, OPEN_AGAIN)
TOLD_LATE_US: Final = DELAY_US_MAX + PATIENCE_US_MAX
"""So long after KMS has refused, a front end may say so to who asks: the answer took its time."""


def check(plan: Plan, world: World) -> list[Violation]:
    """Everything that is wrong with a universe of standard queues."""
    case = Case(plan, plan.queues, world)
    found = [violation for invariant in oracle.INVARIANTS for violation in invariant(case)]
    return [*found, *(one for invariant in INVARIANTS for one in invariant(case))]


def check_fifo(plan: FifoPlan, world: World, journal: Journal) -> list[Violation]:
    """Everything that is wrong with a universe of FIFO queues."""
    case = FifoCase(plan, world, journal)
    found = [violation for invariant in fifo.INVARIANTS for violation in invariant(case)]
    return [*found, *(one for invariant in INVARIANTS for one in invariant(case))]


def _world(case: Case) -> KeysWorld:
    assert isinstance(case.world, KeysWorld)
    return case.world


def refusals_have_a_reason(case: Case) -> Iterator[Violation]:
    """Who is told that a key does not serve asked when it did not, or soon after."""
    refused_us = _world(case).keys.refused_us
    for attempt in case.history.attempts:
        if attempt.status != CLIENT_FAULT or KMS not in attempt.output.get("__type", ""):
            continue
        from_us, until_us = attempt.invoked_us - TOLD_LATE_US, attempt.answered_us or NEVER_US
        if not any(from_us < time_us <= until_us for time_us in refused_us):
            text = f"{attempt.call.operation} #{attempt.call.number} was refused for no reason"
            yield Violation("refusals have a reason", text, [f"#{attempt.call.number}."])


def the_refused_is_not_stored(case: Case) -> Iterator[Violation]:
    """What was refused whenever it was sent is not stored."""
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in case.history.attempts:
        if attempt.call.operation.startswith("SendMessage"):
            entries = attempt.call.params.get("Entries", [attempt.call.params])
            for entry in entries:
                attempts[entry["MessageBody"]].append(attempt)
    for body, copies in case.stored_by_body.items():
        if all(attempt.status == CLIENT_FAULT for attempt in attempts[body]):
            text = f"{body[:40]!r} was refused, and stored at {copies[0].time_us}"
            yield Violation("the refused is not stored", text, [body.split("#")[0]])


def what_opens_is_delivered(case: Case) -> Iterator[Violation]:
    """While one key does not serve, all is delivered that it has not sealed, nor waits for that."""
    times = {text: time for time, text in case.history.events if text in PHASES}
    if OPEN_AGAIN not in times:
        return
    ends_us, locked_us, open_us = (times[phase] for phase in PHASES)
    found = _in_order(case, open_us) if isinstance(case, FifoCase) else _all(case, open_us)
    for message_id in found:
        if case.stored_by_id[message_id].time_us > locked_us:
            continue
        delivered = case.ledger.deliveries.get(message_id, [])
        early = any(one.answered_us <= ends_us for one in delivered)
        if early and message_id in case.ledger.deletes_asked:
            continue
        if not any(ends_us < one.answered_us <= open_us for one in delivered):
            text = f"{message_id} was not delivered while a key was away that is not its own"
            yield Violation("what opens is delivered", text, [message_id])


def _is_locked(case: Case, message_id: str) -> bool:
    """Whether the message is sealed with a data key of the key that does not serve."""
    key_id = case.stored_by_id[message_id].key_id
    kms_key = case.world.stores[0].kms_keys.get(key_id[1:], "") if key_id[:1] == OF_KMS else ""
    return kms_key == _world(case).locked


def _all(case: Case, until_us: int) -> Iterator[str]:
    """Messages that were acknowledged, are not locked, and not over until then."""
    for sent in case.ledger.sent.values():
        for message_id, promised in sent.promised.items():
            if message_id not in case.stored_by_id or _is_locked(case, message_id):
                continue
            over = may_expire(case, message_id, sent, until_us)
            if not over and not may_be_purged(case, sent, promised):
                yield message_id


def _in_order(case: FifoCase, until_us: int) -> Iterator[str]:
    """The same, of FIFO queues: nothing locked is before them in their group."""
    acknowledged = {sent.id for sent in case.sends if sent.id}
    for group in case.groups.values():
        for stored in group:
            message_id = uuid_text(stored.id)
            if message_id not in case.stored_by_id or case.done_us(stored) == NEVER_US:
                break  # Its body came never, or it was never delivered.
            if _is_locked(case, message_id):
                if case.done_us(stored) > until_us:
                    break  # It may have expired, or not.
                continue
            over = case.may_be_expired(stored, until_us)
            over = over or case.may_be_purged(stored, stored.written.time_us, until_us)
            if not over and message_id in acknowledged:
                yield message_id


INVARIANTS: Final[tuple[Callable[[Case], Iterator[Violation]], ...]] = (
    refusals_have_a_reason,
    the_refused_is_not_stored,
    what_opens_is_delivered,
)

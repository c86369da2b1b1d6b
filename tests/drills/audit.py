"""An audit: nobody else is there, and everything that is visible is received and judged."""

import time
from typing import Final

from tests.drills.load import Client
from tests.drills.subject import Subject

VISIBILITY_S: Final = 1
"""Longer than most audits take. What comes back meanwhile queues behind what was not seen yet."""

NOTHING_NEW_IN_A_ROW: Final = 3
_SETTLE_S_MAX: Final = 30.0


def audit(subject: Subject, seed: str, visibility_s: int = VISIBILITY_S) -> None:
    """Receive everything visible; what was leased for long is made visible first."""
    client = Client(subject, seed)
    with client.caller:
        _end_long_leases(subject, client)
        _look(subject, client, visibility_s)


def settled_audit(subject: Subject, seed: str, visibility_s: int = VISIBILITY_S) -> None:
    """The same after every lease has ended that anybody may hold: nothing may be missing."""
    client = Client(subject, seed)
    with client.caller:
        _end_long_leases(subject, client)
        # Nothing tells when leases end but the time.
        time.sleep(min(_SETTLE_S_MAX, max(0.0, subject.ledger.settled_s() - time.time())))
        _look(subject, client, visibility_s)


def _end_long_leases(subject: Subject, client: Client) -> None:
    for number, handle in subject.parked.items():
        client.change(number, handle, 0)
    subject.parked.clear()


def _look(subject: Subject, client: Client, visibility_s: int) -> None:
    ledger = subject.ledger
    began_s = time.time()
    ledger.begin_audit()
    seen: set[int] = set()
    nothing_new = 0
    while nothing_new < NOTHING_NEW_IN_A_ROW and not client.lost:
        messages, _ = client.receive_some(visibility_s, auditing=True)
        nothing_new = nothing_new + 1 if seen.issuperset(messages) else 0
        seen.update(messages)
    if not client.lost:
        ledger.end_audit(began_s)
    elif not ledger.violations:
        ledger.accuse("answer", "the server was gone during an audit")

"""An audit: nobody else is there, and everything that is visible is received and judged."""

import time
from typing import Final

from tests.drills.ledger import LATE_S_MAX
from tests.drills.load import Client
from tests.drills.subject import Subject

VISIBILITY_S: Final = 20
"""Longer than an audit takes: what came back meanwhile would be received before what is unread."""

NOTHING_NEW_IN_A_ROW: Final = 3
_LOOKS_MAX: Final = 2
_LOOK_AGAIN_AFTER_S: Final = 1.0
_RELEASED_AFTER_S: Final = (0, 0, 1, 3)
_SETTLE_S_MAX: Final = 30.0
_LOOKED_FOR_S: Final = VISIBILITY_S + LATE_S_MAX + 1
"""No lease of these clients lasts longer, but of those that are parked."""


def audit(subject: Subject, seed: str) -> None:
    """Receive everything visible; what was leased for long is made visible first."""
    client = Client(subject, seed)
    with client.caller:
        _end_long_leases(subject, client)
        _look(subject, client)


def settled_audit(subject: Subject, seed: str) -> None:
    """The same after every lease has ended that anybody may hold: nothing may be missing."""
    client = Client(subject, seed)
    with client.caller:
        _end_long_leases(subject, client)
        left_s = max(0.0, subject.ledger.settled_s() - time.time())
        time.sleep(min(_SETTLE_S_MAX, left_s))  # nothing tells when leases end but the time
        _look(subject, client)


def last_look(subject: Subject, seed: str) -> None:
    """Tell what is lost from what is hidden: look for it until no lease can hide it any more."""
    until_s = time.monotonic() + _LOOKED_FOR_S
    client = Client(subject, seed)
    with client.caller:
        began_s = 0.0
        # A look that began before may have passed by what was hidden then, however long it took.
        while subject.ledger.lost() and began_s < until_s and not client.lost:
            time.sleep(_LOOK_AGAIN_AFTER_S if began_s else 0)  # leases end by the time alone
            began_s = time.monotonic()
            _receive_all(client)
    subject.ledger.end(time.time())


def _end_long_leases(subject: Subject, client: Client) -> None:
    for number, handle in subject.parked.items():
        client.change(number, handle, 0)
    subject.parked.clear()


def _look(subject: Subject, client: Client) -> None:
    """Receive until nothing more comes, judge, and let go of what was received."""
    ledger = subject.ledger
    began_s = time.time()
    ledger.begin_audit()
    found = _receive_all(client)
    for _ in range(_LOOKS_MAX - 1):
        if ledger.missing(began_s):
            time.sleep(_LOOK_AGAIN_AFTER_S)  # a slow machine must not pass for a loss
            found |= _receive_all(client)
    if client.lost:
        if not ledger.violations:
            how = f"{client.lost_by}; its process {subject.process_state()}"
            ledger.accuse("answer", f"the server was gone during an audit: {how}")
        return
    ledger.end_audit(began_s)
    client.release(found, _RELEASED_AFTER_S)


def _receive_all(client: Client) -> dict[int, str]:
    """Numbers and receipt handles of all that is visible."""
    found: dict[int, str] = {}
    nothing_new = 0
    while nothing_new < NOTHING_NEW_IN_A_ROW and not client.lost:
        handles, _ = client.receive_some(VISIBILITY_S, auditing=True)
        nothing_new = nothing_new + 1 if found.keys() >= handles.keys() else 0
        found.update(handles)
    return found

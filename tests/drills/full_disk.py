"""A file system filled to the brim, by messages and by a file of somebody else."""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from tests.drills.audit import settled_audit
from tests.drills.caller import Caller
from tests.drills.content import BIG
from tests.drills.disk import Disk, reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.ground import PowerCuts
from tests.drills.load import Client
from tests.drills.subject import SERVER_FAILURES, Subject

_DRILL: Final = "full-disk"
_DISK_BYTES: Final = 160 * 1024 * 1024
_ROUNDS_PER_ROUND: Final = 20
"""A round takes as long as so many of other drills."""

_NO_ROOM_IN_A_ROW: Final = 30
_KEPT: Final = 100
"""Messages that are left when half of a drain is done."""

_STEP_BYTES_MAX: Final = 1 << 24
_STEP_BYTES_MIN: Final = 1 << 12
_FACT_S_MAX: Final = 60.0


def full_disk(plan: Plan) -> Findings:
    """Fill a disk, restart on it, drain it, fill it again."""
    reason = reason_to_skip(plan.folder)
    if reason:
        return Findings(_DRILL, skipped=reason)
    findings = Findings(_DRILL)
    began_s = time.monotonic()
    while not findings.violations and (
        findings.rounds * _ROUNDS_PER_ROUND < plan.rounds
        and time.monotonic() < began_s + plan.seconds
    ):
        findings.rounds += 1
        with Disk(plan.folder, _DISK_BYTES) as disk:
            folder = disk.mount_point
            with Subject.of(plan, _DRILL, "cell-0", folder, BIG) as subject:
                subject.ledger.round = findings.rounds
                try:
                    _round(subject, PowerCuts(disk), Random(f"{_DRILL} {plan.seed}"), findings)
                except SERVER_FAILURES as error:
                    subject.ledger.accuse("answer", f"{type(error).__name__}: {error}")
                findings.add([subject.ledger])
    findings.seconds = time.monotonic() - began_s
    findings.facts.append(f"{findings.tally['no room']:,} sends refused for want of room")
    return findings


def _round(subject: Subject, ground: PowerCuts, random: Random, findings: Findings) -> None:
    """One step after the other, until something is violated."""
    seed = f"{random.random()}"
    foreign = ground.folder / "foreign"
    by_deleting = findings.rounds % 2 == 0
    steps: tuple[Callable[[], float | None], ...] = (
        subject.start,
        lambda: take_all_room(foreign),
        lambda: _fill(subject, seed),
        lambda: _expect_health(subject, "full"),
        subject.server.stop,
        subject.server.start,
        lambda: _fill(subject, seed),
        lambda: ground.crash([subject], random),
        ground.recover,
        subject.server.start,
        lambda: _fill(subject, seed),
        # What is deleted is collected after a while, and its room used again.
        lambda: _drain(subject, seed, 0 if by_deleting else _KEPT),
        lambda: foreign.unlink() if not by_deleting else None,
        lambda: _send_again(subject, seed),
        lambda: _expect_health(subject, "full" if by_deleting else "available"),
        lambda: settled_audit(subject, seed),
    )
    for step in steps:
        step()
        if subject.ledger.violations:
            return


def take_all_room(path: Path) -> None:
    """Leave not a block free."""
    with path.open("wb") as file:
        size_bytes = 0
        step_bytes = _STEP_BYTES_MAX
        while step_bytes >= _STEP_BYTES_MIN:
            try:
                os.posix_fallocate(file.fileno(), size_bytes, step_bytes)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step_bytes //= 2
            else:
                size_bytes += step_bytes


def _fill(subject: Subject, seed: str) -> None:
    """Send until nothing more is taken."""
    ledger = subject.ledger
    client = Client(subject, seed)
    until_s = time.monotonic() + _FACT_S_MAX
    refused = 0
    with client.caller:
        while refused < _NO_ROOM_IN_A_ROW:
            sends = ledger.tally["sends"]
            client.send()
            refused = refused + 1 if ledger.tally["sends"] == sends else 0
            if client.lost or time.monotonic() > until_s:
                ledger.accuse("answer", "the disk does not get full")
                return
    if ledger.tally["refused"] != ledger.tally["no room"]:
        ledger.accuse("answer", "sends to a full disk were refused for another reason")


def _drain(subject: Subject, seed: str, kept: int) -> None:
    """Receive and delete until so few messages are left; nothing of that may be refused."""
    ledger = subject.ledger
    refused = ledger.tally["refused"]
    client = Client(subject, seed)
    until_s = time.monotonic() + _FACT_S_MAX
    with client.caller:
        while ledger.stored_count() > kept:
            client.receive(delete_share=1.0)
            if ledger.tally["refused"] > refused:
                ledger.accuse("answer", "a receive or a delete was refused on a full disk")
                return
            if client.lost or time.monotonic() > until_s:
                ledger.accuse("answer", "a full disk cannot be drained")
                return


def _send_again(subject: Subject, seed: str) -> None:
    """Send until something is taken."""
    sends = subject.ledger.tally["sends"]
    client = Client(subject, seed)
    until_s = time.monotonic() + _FACT_S_MAX
    with client.caller:
        while subject.ledger.tally["sends"] == sends:
            client.send()
            if client.lost or time.monotonic() > until_s:
                subject.ledger.accuse("answer", "nothing can be sent though there is room again")
                return


def _expect_health(subject: Subject, expected: str) -> None:
    with Caller(subject.server.port) as caller:
        found = json.loads(caller.page("/health"))["cells"]["local"]
    if found != expected:
        subject.ledger.accuse("answer", f"/health says {found!r} instead of {expected!r}")

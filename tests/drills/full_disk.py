"""A file system filled to the brim, by messages and by a file of somebody else.

It gets room again in four ways, one in each round: the foreign file goes; all messages are deleted;
the queue that filled it is purged, or deleted, while clients work on another one.
"""

import errno
import json
import os
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from tests.drills.audit import last_look, settled_audit
from tests.drills.caller import Caller, RefusedError
from tests.drills.content import BIG
from tests.drills.disk import Disk, reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.evidence import keep_data
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

_BULK: Final = "bulk"
_FREED_BY: Final = {3: "PurgeQueue", 0: "DeleteQueue"}
_ROOM: Final = ("available", "nearly full")
_STEPS: Final = 60
_PAUSE_S: Final = 0.05
_DROPPED_S_MAX: Final = 600.0
"""The grace of requests that were under way, and what dropping takes on a busy machine."""

Steps = tuple[Callable[[], float | None], ...]

_STEP_BYTES_MAX: Final = 1 << 24
_STEP_BYTES_MIN: Final = 1 << 12
_FACT_S_MAX: Final = 900.0


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
                    _round(plan, subject, PowerCuts(disk), plan.round or findings.rounds)
                    for halted in keep_data(plan, [subject], findings):
                        halted.start()
                    last_look(subject, f"{plan.seed} at last")
                except SERVER_FAILURES as error:
                    subject.ledger.accuse("answer", f"{type(error).__name__}: {error}")
                    keep_data(plan, [subject], findings)
                findings.add([subject.ledger])
    findings.seconds = time.monotonic() - began_s
    findings.facts.append(f"{findings.tally['no room']:,} sends refused for want of room")
    return findings


def _round(plan: Plan, subject: Subject, ground: PowerCuts, drawn: int) -> None:
    """One step after the other, until something is violated."""
    random = Random(f"{_DRILL} {plan.seed}")
    seed = f"{random.random()}"
    foreign = ground.folder / "foreign"
    way = drawn % 4
    if way in _FREED_BY:
        steps = _steps_of_owner(subject, ground, random, seed, _FREED_BY[way])
    else:
        steps = _steps_of_drain(subject, ground, random, seed, by_deleting=way == 2)
    for step in steps(foreign):
        step()
        if subject.ledger.violations:
            return


def _steps_of_drain(
    subject: Subject, ground: PowerCuts, random: Random, seed: str, *, by_deleting: bool
) -> Callable[[Path], Steps]:
    """Fill the disk, drain it, and send again."""
    return lambda foreign: (
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
        lambda: _expect_room(subject),
        lambda: settled_audit(subject, seed),
    )


def _steps_of_owner(
    subject: Subject, ground: PowerCuts, random: Random, seed: str, operation: str
) -> Callable[[Path], Steps]:
    """Fill the disk with one queue, free it by one call, while clients work on another queue."""
    bulk = _Bulk(subject)
    return lambda foreign: (
        subject.start,
        lambda: _work(subject, seed),
        lambda: take_all_room(foreign),
        bulk.fill,
        lambda: _expect_health(subject, "full"),
        lambda: bulk.call(operation),
        # What is to be dropped is stored: whoever starts next goes on with it.
        lambda: ground.crash([subject], random),
        ground.recover,
        subject.server.start,
        lambda: _work_until_room(subject, seed),
        lambda: bulk.expect_nothing(deleted=operation == "DeleteQueue"),
        lambda: _expect_room(subject),
        lambda: settled_audit(subject, seed),
    )


class _Bulk:
    """A queue whose messages fill the disk; nobody keeps books about them."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._random = Random(0)
        self._name = _BULK

    @property
    def _url(self) -> str:
        return self._subject.server.queue_url(self._name)

    def fill(self) -> None:
        """Send until nothing more is taken."""
        refused = 0
        with Caller(self._subject.server.port) as caller:
            caller.call("CreateQueue", QueueName=_BULK)
            while refused < _NO_ROOM_IN_A_ROW:
                body = b64encode(self._random.randbytes(90_000 if not refused else 300)).decode()
                try:
                    caller.call("SendMessage", QueueUrl=self._url, MessageBody=body)
                    refused = 0
                except RefusedError:
                    refused += 1

    def call(self, operation: str) -> None:
        """Make a call that a full disk must not refuse, while others work on another queue."""
        with Caller(self._subject.server.port) as caller:
            try:
                caller.call(operation, QueueUrl=self._url)
            except RefusedError as error:
                self._subject.ledger.accuse("answer", f"{operation} on a full disk: {error}")

    def expect_nothing(self, *, deleted: bool) -> None:
        """Nothing of what was there may come back, and what is sent from now on is delivered."""
        with Caller(self._subject.server.port) as caller:
            if deleted:  # Its name must not be used again for a minute.
                self._name = f"{_BULK}-again"
                caller.call("CreateQueue", QueueName=self._name)
            if caller.call("ReceiveMessage", QueueUrl=self._url).get("Messages"):
                self._subject.ledger.accuse("resurrected", "a message that was purged or deleted")
            caller.call("SendMessage", QueueUrl=self._url, MessageBody="new")
            found = caller.call("ReceiveMessage", QueueUrl=self._url).get("Messages", [])
            if [message["Body"] for message in found] != ["new"]:
                self._subject.ledger.accuse("lost", "what was sent after the purge or deletion")


def _work(subject: Subject, seed: str) -> None:
    """Send, receive, delete and change visibility for a while."""
    client = Client(subject, seed)
    with client.caller:
        for _ in range(_STEPS):
            client.step()


def _work_until_room(subject: Subject, seed: str) -> None:
    """Go on with all of that until sends are taken again."""
    ledger = subject.ledger
    client = Client(subject, f"{seed} again")
    until_s = time.monotonic() + _DROPPED_S_MAX
    taken = 0
    with client.caller:
        while taken < _NO_ROOM_IN_A_ROW:
            sends, refused = ledger.tally["sends"], ledger.tally["refused"]
            client.step()
            if ledger.tally["refused"] > refused:
                taken = 0
                time.sleep(_PAUSE_S)  # between two looks at a disk that fills
            taken += ledger.tally["sends"] > sends
            if client.lost or time.monotonic() > until_s:
                ledger.accuse("answer", "what was purged or deleted is not dropped in time")
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


def _expect_room(subject: Subject) -> None:
    """Full is what cannot take the greatest message: small ones are taken before."""
    until_s = time.monotonic() + _DROPPED_S_MAX
    while _health(subject) not in _ROOM and time.monotonic() < until_s:
        time.sleep(_PAUSE_S)  # between two looks at a disk that is freed
    _expect_health(subject, *_ROOM)


def _health(subject: Subject) -> str:
    with Caller(subject.server.port) as caller:
        return str(json.loads(caller.page("/health"))["cells"]["local"])


def _expect_health(subject: Subject, *expected: str) -> None:
    found = _health(subject)
    if found not in expected:
        subject.ledger.accuse("answer", f"/health says {found!r} instead of {expected}")

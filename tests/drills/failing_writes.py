"""A disk that fails some or all writes for a while, under a server that stays up.

strace attaches to the server and fails system calls on its data file: they are not made, and
return the error.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.drills.audit import audit, last_look, settled_audit
from tests.drills.caller import Caller
from tests.drills.disk import DiskError, as_root, reason_to_skip, run
from tests.drills.drill import Findings, Plan
from tests.drills.evidence import keep_data
from tests.drills.ground import Ground, Kills, power_cuts
from tests.drills.load import Load
from tests.drills.subject import QUEUE, SERVER_FAILURES, Subject

_DRILL: Final = "failing-writes"
_FAILED: Final = 5
"""So many calls have to fail before the disk is well again."""

_FACT_S_MAX: Final = 300.0
_RECOVERED: Final = 10
_CRASH_EVERY: Final = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """System calls, what becomes of them, and which of them (in strace's words)."""

    calls: str
    outcome: str
    when: str

    def __str__(self) -> str:
        return f"{self.calls}:{self.outcome}:when={self.when}"


FAILURES: Final = (
    Failure("fdatasync", "error=EIO", "2+3"),
    Failure("pwrite64", "error=EIO", "3+5"),
    Failure("pwrite64", "error=ENOSPC", "2+7"),
    Failure("writev", "error=EIO", "1+2"),
    Failure("pwrite64,writev", "retval=100", "1+4"),  # a write that is cut short
    Failure("fdatasync", "error=ENOSPC", "1+"),
    Failure("fdatasync,fsync,pwrite64,writev", "error=EIO", "1+"),
)


def failing_writes(plan: Plan) -> Findings:
    """Fail writes in all these ways, one after the other; crash every third time."""
    reason = _reason_to_skip()
    if reason:
        return Findings(_DRILL, skipped=reason)
    with ExitStack() as stack:
        ground: Ground
        if reason_to_skip(plan.folder):
            ground = Kills(plan.folder / "failing")
        else:
            ground = stack.enter_context(power_cuts(plan.folder, 1))
        subject = stack.enter_context(Subject.of(plan, _DRILL, "cell-0", ground.folder))
        findings = Findings(_DRILL)
        began_s = time.monotonic()
        try:
            subject.start()
            _rounds(plan, subject, ground, findings)
            last_look(subject, f"{plan.seed} at last")
        except SERVER_FAILURES as error:
            subject.ledger.accuse("answer", f"{type(error).__name__}: {error}")
            keep_data(plan, [subject], findings)
        findings.seconds = time.monotonic() - began_s
        findings.add([subject.ledger])
        findings.facts.append(f"{findings.tally['failed calls']:,} calls failed")
        return findings


def _rounds(plan: Plan, subject: Subject, ground: Ground, findings: Findings) -> None:
    until_s = time.monotonic() + plan.seconds
    going = True
    while going:
        findings.rounds += 1
        drawn = plan.round or findings.rounds
        failure = FAILURES[(drawn - 1) % len(FAILURES)]
        subject.ledger.round = findings.rounds
        seed = f"{plan.seed} {drawn}"
        load = Load(subject, seed, plan.connections)
        _fail_for_a_while(plan, subject, failure)
        going = findings.rounds < plan.rounds and time.monotonic() < until_s
        if going and drawn % _CRASH_EVERY:
            load.stop()
            audit(subject, seed)
        else:
            ground.crash([subject], Random(f"{_DRILL} {seed}"))
            load.join()
            ground.recover()
            subject.start()
            (audit if going else settled_audit)(subject, seed)
        for halted in keep_data(plan, [subject], findings):
            halted.start()
        if subject.ledger.violations and not plan.keep_going:
            return


def _fail_for_a_while(plan: Plan, subject: Subject, failure: Failure) -> None:
    """Look at what goes on while writes fail, and whether all does once they do not."""
    ledger = subject.ledger
    ledger.wait_for("sends", ledger.tally["sends"] + _RECOVERED, _FACT_S_MAX)
    refused = ledger.tally["refused"]
    trace = plan.folder / "trace"
    with _failing(subject, failure, trace), Caller(subject.server.port) as caller:
        until_s = time.monotonic() + _FACT_S_MAX
        while (failed := trace.read_text().count("(INJECTED)")) < _FAILED:
            # Each look is a read, which has to be answered.
            caller.call(
                "GetQueueAttributes",
                QueueUrl=subject.queue_url,
                AttributeNames=["ApproximateNumberOfMessages"],
            )
            caller.page("/health")
            caller.call("GetQueueUrl", QueueName=QUEUE)
            if time.monotonic() > until_s:
                ledger.accuse("answer", f"{failure}: only {failed} calls failed")
                break
    if ledger.tally["refused"] == refused:
        ledger.accuse("answer", f"{failure}: {failed} calls failed, and nobody was told")
    ledger.tally["failed calls"] += trace.read_text().count("(INJECTED)")
    if not ledger.wait_for("sends", ledger.tally["sends"] + _RECOVERED, _FACT_S_MAX):
        ledger.accuse("answer", f"{failure}: no sends {_FACT_S_MAX:.0f} s after the disk was well")


@contextmanager
def _failing(subject: Subject, failure: Failure, trace: Path) -> Iterator[None]:
    """Let writes of the server fail for as long as this lasts."""
    trace.write_text("")
    options = (
        *("-f", "-o", str(trace), "-P", str(subject.data / "data.mdb")),
        *("-e", f"trace={failure.calls}", "-e", f"inject={failure}"),
    )
    with _attached(subject.server.pid, *options):
        yield


@contextmanager
def _attached(pid: int, *options: str) -> Iterator[None]:
    """Have strace at a process. Raises DiskError where that is not possible."""
    command = [*as_root(), "strace", "-p", str(pid), *options]
    try:
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise DiskError(f"{command[0]}: {error.strerror}") from error
    with tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline().strip()
        if "attached" not in said:
            raise DiskError(f"strace does not attach: {said}")
        try:
            yield
        finally:
            run("kill", "-INT", str(tracer.pid), needs_root=True)
            tracer.stderr.read()


def _reason_to_skip() -> str:
    """Why writes cannot be failed here; empty if they can."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            with _attached(sleeper.pid):
                return ""
        except DiskError as error:
            return f"needs strace, and root or sudo without a password ({error})"
        finally:
            sleeper.kill()

"""Power cuts and kills under load, again and again over the same data.

What clients ask for, and when and how power is cut, a round draws by the drill's seed and its own
number. What threads and processes make of that is not drawn: so a round is repeated many times.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Final

from tests.drills.audit import audit, last_look, settled_audit
from tests.drills.disk import reason_to_skip
from tests.drills.drill import Findings, Plan
from tests.drills.evidence import keep_data
from tests.drills.ground import Ground, Kills, power_cuts
from tests.drills.load import Load
from tests.drills.subject import SERVER_FAILURES, Subject, for_each

_NOTED_BEFORE: Final = (20, 1_000)
"""How much is noted by each server's clients before it crashes."""

_NOTED_S_MAX: Final = 60.0
_SETTLED_EVERY: Final = 25
"""After so many rounds an audit waits until every lease has ended, and then excuses nothing."""

_PROGRESS_S: Final = 30.0


def power_cut(plan: Plan) -> Findings:
    """Cut the power of a file system that holds the data of all servers."""
    reason = reason_to_skip(plan.folder)
    if reason:
        return Findings("power-cut", skipped=reason)
    with power_cuts(plan.folder, plan.cells) as ground:
        return _crashes("power-cut", plan, ground)


def kill(plan: Plan) -> Findings:
    """End servers with kill -9, which needs no rights."""
    return _crashes("kill", plan, Kills(plan.folder / "killed"))


def _crashes(drill: str, plan: Plan, ground: Ground) -> Findings:
    findings = Findings(drill)
    if plan.cells > 1:
        findings.facts.append(f"{plan.cells} cells at once")
    subjects = [Subject.of(plan, drill, f"cell-{at}", ground.folder) for at in range(plan.cells)]
    began_s = time.monotonic()
    with ExitStack() as stack:
        for subject in subjects:
            stack.enter_context(subject)
        try:
            for_each(subjects, Subject.start)
            _rounds(plan, subjects, ground, findings)
            for_each(subjects, partial(last_look, seed=f"{plan.seed} at last"))
        except SERVER_FAILURES as error:
            subjects[0].ledger.accuse("answer", f"{type(error).__name__}: {error}")
            keep_data(plan, subjects, findings)
    findings.seconds = time.monotonic() - began_s
    findings.add(subject.ledger for subject in subjects)
    return findings


def _rounds(plan: Plan, subjects: Sequence[Subject], ground: Ground, findings: Findings) -> None:
    shown_s = time.monotonic()
    until_s = shown_s + plan.seconds
    going = True
    while going:
        findings.rounds += 1
        drawn = plan.round or findings.rounds
        for subject in subjects:
            subject.ledger.round = findings.rounds
        _work_until_crash(plan, subjects, ground, f"{plan.seed} {drawn}")
        ground.recover()
        for_each(subjects, Subject.start)
        going = findings.rounds < plan.rounds and time.monotonic() < until_s
        look = audit if going and drawn % _SETTLED_EVERY else settled_audit
        for_each(subjects, partial(look, seed=f"{plan.seed} {drawn}"))
        for subject in keep_data(plan, subjects, findings):
            subject.start()
        if not plan.keep_going and any(subject.ledger.violations for subject in subjects):
            return
        if time.monotonic() > shown_s + _PROGRESS_S:
            shown_s = time.monotonic()
            plan.progress(f"{findings.drill}: {findings.rounds} rounds")


def _work_until_crash(plan: Plan, subjects: Sequence[Subject], ground: Ground, seed: str) -> None:
    """Load on all servers until enough was noted by the clients of each; then the crash."""
    random = Random(f"crash {seed}")
    loads = [Load(one, f"{seed} {one.name}", plan.connections) for one in subjects]
    for subject in subjects:
        enough = subject.ledger.tally["noted"] + random.randint(*_NOTED_BEFORE)
        if not subject.ledger.wait_for("noted", enough, _NOTED_S_MAX):
            subject.ledger.accuse("answer", f"no progress in {_NOTED_S_MAX:.0f} s")
    ground.crash(subjects, random)
    for load in loads:
        load.join()

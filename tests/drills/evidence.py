"""What is left of a server that broke a promise: a copy of its data; how to repeat its round."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.drills.drill import Findings, Plan
from tests.drills.subject import Subject


def keep_data(plan: Plan, subjects: Sequence[Subject], findings: Findings) -> list[Subject]:
    """End servers of which a promise was broken for the first time, and copy what they had."""
    wrong = [one for one in subjects if one.ledger.violations and one.name not in findings.kept]
    if wrong and not findings.repeat:
        drawn = plan.round or findings.rounds
        findings.repeat = (
            f"--only {findings.drill} --cells {plan.cells} --seed {plan.seed} --round {drawn}"
        )
    halted = []
    for subject in wrong if plan.evidence is not None else ():
        assert plan.evidence is not None
        subject.halt()
        halted.append(subject)
        copy = plan.evidence / f"{subject.name}-round-{findings.rounds}"
        shutil.rmtree(copy, ignore_errors=True)
        findings.kept[subject.name] = copy
        if subject.data.is_dir():  # a file system that was cut off may not be mounted again
            shutil.copytree(subject.data, copy, ignore=_sockets)
    return halted


def _sockets(folder: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket()]

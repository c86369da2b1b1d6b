"""Let power, disk and process fail under a real server: `python -m tests.drills --rounds 20`."""

import argparse
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.drills.backup import backup
from tests.drills.crashes import kill, power_cut
from tests.drills.damage import damage
from tests.drills.disk import DiskError, remove_leftovers, work_folder
from tests.drills.drill import Findings, Plan
from tests.drills.engines import alone, is_alone, reason_to_skip
from tests.drills.failing_writes import failing_writes
from tests.drills.full_disk import full_disk
from tests.drills.lost_cell import lost_cell, lost_table
from tests.drills.operators import operators
from tests.drills.planted.faults import FAULTS, Fault
from tests.drills.several_cells import several_cells
from tests.drills.several_tables import several_tables
from tests.drills.split import split
from tests.drills.streams import streams

ROOT: Final = Path(__file__).parents[2]
DRILLS: Final[dict[str, Callable[[Plan], Findings]]] = {
    "power-cut": power_cut,
    "failing-writes": failing_writes,
    "full-disk": full_disk,
    "kill": kill,
    "damage": damage,
    "several-cells": several_cells,
    "operators": operators,
    "split": split,
    "streams": streams,
    "backup": backup,
    "several-tables": several_tables,
    "lost-cell": lost_cell,
    "lost-table": lost_table,
}
ALONE: Final = frozenset({"several-tables", "lost-table"})
"""Drills with engines that listen on all interfaces."""

MEASURED: Final = {"lost-cell": 4, "lost-table": 6}
"""Drills for the sake of figures, if they are named, and their rounds: three minutes or four."""

OWN_ROUNDS: Final = {**MEASURED, "damage": 200}
"""Rounds of drills whose rounds are shorter or longer than others'."""

ROUNDS: Final = 20

_TOLD: Final = ("rounds", "seconds", "cells", "causes", "seed")
"""Options that a drill in another process is told."""

SHOWN_MAX: Final = 5
LOG_BYTES_KEPT: Final = 20_000


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.drills", description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds of each drill ({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=86_400, help="of each drill, at most")
    parser.add_argument("--only", choices=DRILLS, action="append", help="this drill alone")
    parser.add_argument("--cells", type=int, default=1, help="servers that crash at once")
    parser.add_argument(
        "--causes", default="", help="of several-tables, operators, streams: these failures"
    )
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    parser.add_argument(
        "--round", type=int, default=0, help="of power-cut, kill: draw what this round drew"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="where to work")
    parser.add_argument("--unattended", action="store_true", help="go on after a violation")
    parser.add_argument("--planted", action="store_true", help="see planted faults be found")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run drills; 1 if a promise was broken (the evidence is kept) or a planted fault missed."""
    options = _options(arguments)
    parent: Path = options.folder.resolve()
    parent.mkdir(exist_ok=True)
    # Whoever ends a drill wants its servers ended and its file systems unmounted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        remove_leftovers(parent)
        return _run_all(options, parent)
    except DiskError as error:
        print(error, file=sys.stderr)
        return 1


def _run_all(options: argparse.Namespace, parent: Path) -> int:
    """Run what is chosen. Faults of drills in a network of their own are planted by request."""
    left_out = {*MEASURED, *(ALONE if options.planted else ())}
    chosen = options.only or [name for name in DRILLS if name not in left_out]
    elsewhere = [name for name in chosen if _needs_own_network(name)]
    here = [name for name in chosen if name not in elsewhere]
    work = _run_planted if options.planted else _run
    codes = [work(options, here, parent) if here else 0]
    codes += [alone(_arguments(name, options)) for name in elsewhere]
    return max(codes)


def _run(options: argparse.Namespace, names: Sequence[str], parent: Path) -> int:
    failed = False
    for name in names:
        began_s = time.monotonic()
        findings = _drill(name, options, parent)
        took_s = time.monotonic() - began_s
        print(*findings.figures, findings.line(), sep="\n", flush=True)
        print(f"    {name} took {took_s:.0f} s, with its beginning and its end", flush=True)
        failed = failed or bool(findings.violations)
    return 1 if failed else 0


def _needs_own_network(name: str) -> bool:
    return name in ALONE and not is_alone() and not reason_to_skip()


def _arguments(name: str, options: argparse.Namespace) -> list[str]:
    """Those of one drill, with these options."""
    told = {name: getattr(options, name) for name in _TOLD}
    flags = [f"--{flag}" for flag in ("unattended", "planted") if getattr(options, flag)]
    named = [
        text
        for option, value in told.items()
        if value is not None
        for text in (f"--{option}", str(value))
    ]
    return ["--only", name, *named, "--folder", str(options.folder), *flags]


def _run_planted(options: argparse.Namespace, names: Sequence[str], parent: Path) -> int:
    """Run each fault's drill until it finds the fault."""
    missed, causes = False, set(options.causes.split(","))
    for fault in FAULTS.values():
        if fault.drill not in names or (options.causes and not causes & set(fault.causes)):
            continue
        findings = _drill(fault.drill, options, parent, fault)
        found = Counter(violation.kind for violation in findings.violations)
        if findings.skipped:
            print(findings.line(), flush=True)
            continue
        caught = bool(fault.kinds & set(found))
        missed = missed or not caught
        counts = ", ".join(f"{kind} {count:,}" for kind, count in found.items()) or "nothing found"
        verdict = f"{'caught' if caught else 'MISSED'} in round {findings.rounds}"
        print(f"{fault.drill} with {fault.name}: {verdict}: {counts}", flush=True)
        if findings.violations:
            print("   ", findings.violations[0].text)
    return 1 if missed else 0


def _drill(
    name: str, options: argparse.Namespace, parent: Path, fault: Fault | None = None
) -> Findings:
    folder = work_folder(parent)
    rounds = options.rounds or OWN_ROUNDS.get(name, ROUNDS)
    plan = Plan(folder, rounds, options.seconds, options.cells, options.seed, round=options.round)
    try:
        if fault is not None:
            return DRILLS[name](replace(plan, fault=fault.name, causes=fault.causes))
        evidence = parent / f"drill-evidence-{name}-{plan.seed}"
        plan = replace(
            plan,
            evidence=evidence,
            causes=options.causes.split(",") if options.causes else (),
            keep_going=options.unattended,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        findings = DRILLS[name](plan)
        if findings.violations:
            _keep_evidence(findings, plan, evidence.with_suffix(".txt"))
        return findings
    finally:
        shutil.rmtree(folder)


def _keep_evidence(findings: Findings, plan: Plan, path: Path) -> None:
    """Write down what was violated, and the ends of the servers' logs."""
    texts = [violation.text for violation in findings.violations]
    with path.open("w") as file:
        print(findings.line(), f"seed {plan.seed}, {plan.cells} cells", *texts, sep="\n", file=file)
        print(*_what_is_left(findings), sep="\n", file=file)
        for log in sorted(plan.folder.glob("*.log")):
            tail = log.read_text(errors="replace")[-LOG_BYTES_KEPT:]
            print(f"\n{log.name}:", tail, sep="\n", file=file)
    for text in texts[:SHOWN_MAX]:
        print("   ", text)
    print(f"    evidence: {path}", *_what_is_left(findings), sep="\n    ")


def _what_is_left(findings: Findings) -> list[str]:
    """Where the data of a violation is, and how its round is repeated."""
    left = [f"data of {name}: {copy}" for name, copy in findings.kept.items()]
    return [*left, f'repeat: make drill DRILL="{findings.repeat}"'] if findings.repeat else left


if __name__ == "__main__":
    sys.exit(main())

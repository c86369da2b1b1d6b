"""Run what takes long, lane by lane: `python -m tests.lanes.nightly [--seed N] [--only LANE]`.

A lane goes on when another fails. A table ends the run: each lane, its result, its seconds, and
the command that repeats it. Exit code 1 if a lane failed.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.drills.__main__ import DRILLS, MEASURED

ROOT: Final = Path(__file__).parents[2]
LOGS: Final = ROOT / "build/nightly"
SEEDS: Final = 200
ROUNDS: Final = 20
ROUNDS_OF: Final = {"several-tables": 2}
"""Of which each has nine faults, of some 40 s."""
TAIL_LINES: Final = 30


class Lane(NamedTuple):
    """One part of the night."""

    name: str
    command: tuple[str, ...]


class Result(NamedTuple):
    """How a lane ended."""

    lane: Lane
    code: int
    seconds: float


def lanes(seed: int) -> list[Lane]:
    """All of them, with what they draw from this seed."""
    drills = [name for name in DRILLS if name not in MEASURED]
    return [
        Lane("tests", ("make", "test", "PYTEST=-m nightly")),
        Lane("jobs", ("make", "test-spark", "PYTEST=-m nightly -n 0")),
        Lane("simulate", ("make", "simulate", f"SEEDS={SEEDS}", f"SIMULATE=--from {seed}")),
        Lane("fuzz", ("make", "fuzz", "SECONDS=60", f"FUZZ=--seed {seed}")),
        Lane("bench", ("make", "bench", "BENCH=--smoke")),
        *(
            Lane(
                name,
                (
                    *("make", "drill", f"ROUNDS={ROUNDS_OF.get(name, ROUNDS)}"),
                    f"DRILL=--only {name} --seed {seed}",
                ),
            )
            for name in drills
        ),
        Lane("planted", ("make", "drill", "ROUNDS=10", f"DRILL=--planted --seed {seed}")),
        Lane("rehearse", ("make", "rehearse")),
    ]


def run(lane: Lane) -> Result:
    """Run a lane; show the end of its log if it fails."""
    print(f"== {lane.name}: {shlex.join(lane.command)}", flush=True)
    log, began_s = LOGS / f"{lane.name}.log", time.monotonic()
    with log.open("w") as file:
        code = subprocess.run(
            lane.command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False
        ).returncode
    if code:
        print(*log.read_text(errors="replace").splitlines()[-TAIL_LINES:], sep="\n", flush=True)
    return Result(lane, code, time.monotonic() - began_s)


def table(results: Sequence[Result]) -> str:
    """A line for each result."""
    return "\n".join(
        f"{lane.name:<16} {'FAILED' if code else 'passed'} {seconds:>6.0f} s  "
        f"{shlex.join(lane.command)}"
        for lane, code, seconds in results
    )


def main() -> int:
    """1 if a lane failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.lanes.nightly", description=__doc__)
    # A night draws what no night before it did, and says what.
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400 * SEEDS)
    parser.add_argument("--only", action="append", help="this lane alone; may be given again")
    options = parser.parse_args()
    chosen = lanes(options.seed)
    if options.only:
        names = [lane.name for lane in chosen]
        if unknown := set(options.only) - set(names):
            parser.error(f"no lane {', '.join(sorted(unknown))}: there are {', '.join(names)}")
        chosen = [lane for lane in chosen if lane.name in options.only]
    LOGS.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    try:
        results.extend(run(lane) for lane in chosen)
    finally:
        print(f"\nseed {options.seed}; logs in {LOGS.relative_to(ROOT)}", table(results), sep="\n")
    return 1 if any(result.code for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

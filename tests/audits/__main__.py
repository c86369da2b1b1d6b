"""`python -m tests.audits --healthy 100 --alterations 1000`: the audit put to the test.

Healthy histories must have no findings, and each alteration is to be found and named.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.audits.checking import (
    ALTERATIONS_MAX,
    HISTORIES_MAX,
    Case,
    altered_case,
    audit_all,
    healthy_case,
)

_TOLD_MAX = 20
_SERVICES_AT_ONCE = 5
"""So many are made, and audited in one JVM, before others are."""


def main() -> int:
    """0 where the audit says what it should and nothing else."""
    parser = argparse.ArgumentParser(prog="python -m tests.audits")
    parser.add_argument("--healthy", type=int, default=0, help="random histories")
    parser.add_argument("--alterations", type=int, default=0)
    parser.add_argument("--cells", type=int, default=0, help="of each; 0: mostly one, or three")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--seed", type=int, default=1, help="of the first")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        of = (options.healthy, options.alterations, options.cells)
        its = services(Path(folder), options.seed, *of)
        starts = range(0, len(its), _SERVICES_AT_ONCE)
        batches = [its[first : first + _SERVICES_AT_ONCE] for first in starts]
        with ProcessPoolExecutor(options.workers) as workers:
            cases = [case for batch in workers.map(audited, batches) for case in batch]
        problems = [problem for case in cases for problem in case.problems()]
    planted = Counter(what for case in cases for what, _ in case.expected)
    say(f"{options.healthy} healthy histories; alterations: {dict(planted)}")
    for problem in problems[:_TOLD_MAX]:
        say(problem)
    say(f"{len(problems)} problems")
    return 1 if problems else 0


def services(
    root: Path, seed: int, healthy: int, alterations: int, cells: int = 0
) -> list[Callable[[], Case]]:
    """What makes each service, of so many cells; 0: every fifth of healthy ones has three.

    Of services that are altered every other one has three then.
    """
    made: list[Callable[[], Case]] = []
    for number, first in enumerate(range(0, healthy, HISTORIES_MAX), start=1):
        count = min(HISTORIES_MAX, healthy - first)
        its_cells = cells or (1 if number % 5 else 3)
        folder = root / f"healthy-{first}"
        made.append(partial(healthy_case, folder, seed + first, its_cells, count))
    for number, first in enumerate(range(0, alterations, ALTERATIONS_MAX), start=1):
        count = min(ALTERATIONS_MAX, alterations - first)
        its_cells = cells or (1 if number % 2 else 3)
        folder = root / f"altered-{first}"
        made.append(partial(altered_case, folder, seed + first, count, its_cells))
    return made


def audited(services: Sequence[Callable[[], Case]]) -> list[Case]:
    """These services, made and audited."""
    cases = []
    for make in services:
        cases.append(make())
        say(f"made {cases[-1].folder.name}")
    audit_all(cases, lambda case: say(f"{case.folder.name}: {len(case.problems())} problems"))
    return cases


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

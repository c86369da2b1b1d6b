"""The same seed gives the same history, whatever the process."""

import subprocess
import sys
from pathlib import Path

from tests.simulation.universe import run

ROOT = Path(__file__).parents[2]
SEEDS = (3, 11, 29, 70, 1563)


def test_a_seed_run_twice_gives_the_same_history() -> None:
    for seed in SEEDS:
        first, second = run(seed), run(seed)
        assert first.history.events == second.history.events
        assert first.requests == second.requests


def test_another_process_with_another_hash_seed_gives_the_same_history() -> None:
    program = (
        "from tests.simulation.universe import run\n"
        f"for seed in {SEEDS}: print(run(seed).history.digest())"
    )
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.split()
        assert printed == [run(seed).history.digest() for seed in SEEDS]


def test_other_seeds_give_other_histories() -> None:
    assert len({run(seed).history.digest() for seed in range(10)}) == 10

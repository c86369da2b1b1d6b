"""The same seed gives the same history, whatever the process."""

import subprocess
import sys
from pathlib import Path
from random import Random

from tests.simulation.fifo.universe import run as run_fifo
from tests.simulation.process import Process
from tests.simulation.replicated.universe import run as run_replicated
from tests.simulation.scheduler import Scheduler
from tests.simulation.universe import run

ROOT = Path(__file__).parents[2]
SEEDS = (3, 11, 29, 70, 1563)
FIFO_SEEDS = (5, 20, 199)
REPLICATED_SEEDS = (1, 8)
GROUPS_SEEDS = (0, 4)


def test_a_seed_run_twice_gives_the_same_history() -> None:
    for seed in SEEDS:
        first, second = run(seed), run(seed)
        assert first.history.events == second.history.events
        assert first.requests == second.requests
    for seed in FIFO_SEEDS:
        assert run_fifo(seed).history.events == run_fifo(seed).history.events
    for seed in REPLICATED_SEEDS:
        assert run_replicated(seed).history.events == run_replicated(seed).history.events


def test_processes_with_other_hash_seeds_give_the_same_history() -> None:
    seeds, fifo, groups, cells = SEEDS[:2], FIFO_SEEDS[:1], GROUPS_SEEDS[:1], REPLICATED_SEEDS[:1]
    program = (
        "from tests.simulation.universe import run\n"
        "from tests.simulation.fifo.universe import run as run_fifo\n"
        f"for seed in {seeds}: print(run(seed).history.digest())\n"
        f"for seed in {fifo}: print(run_fifo(seed).history.digest())\n"
        "from tests.simulation.groups.universe import run as run_groups\n"
        f"for seed in {groups}: print(run_groups(seed).history.digest())\n"
        "from tests.simulation.replicated.universe import run as run_replicated\n"
        f"for seed in {cells}: print(run_replicated(seed).history.digest())\n"
        f"for seed in {cells}: print(run_replicated(seed, fifo=True).history.digest())"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    )
    assert first == second
    assert len(set(first.split())) == len(seeds + fifo + groups + 2 * cells)


def test_other_seeds_give_other_histories() -> None:
    assert len({run(seed).history.digest() for seed in range(10)}) == 10


def test_a_process_has_not_settled_while_a_request_of_before_is_to_leave_it() -> None:
    process = Process("fe0", Scheduler(Random(1), 0), "seed")
    process.sends_until_us = 100
    process.frozen_until_us = 10
    assert process.settles_us == 100
    process.frozen_until_us = 200
    assert process.settles_us == 200

"""Universes in which what was purged is dropped while everything fails, and the bugs they show."""

from collections.abc import Callable

import pytest

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.memory.cell import MemoryCell
from tests.simulation.fifo import universe as fifo
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.dropping_bugs import DROPPING_BUGS, FIFO_DROPPING_BUGS
from tests.simulation.universe import Outcome, run_dropping

SEEDS_MAX = 200
FOUND = (1000833, 1000983)
"""Seeds that once showed a bug of the oracle."""

FOUND_OF_FIFO = (1000192, 1000312, 1000992)
"""Seeds of FIFO queues that once lost what was acknowledged: two by purges that were dropped while
appends of before were under way, one by a retention that was raised as the throughput changed."""

Run = Callable[[int], Outcome]
KINDS = pytest.mark.parametrize("run", [run_dropping, fifo.run_dropping], ids=["standard", "fifo"])


@KINDS
def test_something_is_dropped_in_these_universes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drop = MemoryCell.drop_superfluous
    kinds: set[str] = set()

    async def noted(cell: MemoryCell, part: Superfluous, after: bytes) -> Dropped:
        dropped = await drop(cell, part, after)
        if dropped.items:
            kinds.add(part.partition[0])
        return dropped

    monkeypatch.setattr(MemoryCell, "drop_superfluous", noted)
    for seed in range(10):
        run(seed)
    assert kinds == ({"B", "S", "T"} if run is run_dropping else {"G", "F", "U", "T"})


@pytest.mark.parametrize(
    ("run", "seed"),
    [
        *((run_dropping, seed) for seed in FOUND),
        *((fifo.run_dropping, seed) for seed in FOUND_OF_FIFO),
    ],
)
def test_what_was_found_stays_mended(run: Run, seed: int) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed).violations] == []


@pytest.mark.parametrize("bug", [*DROPPING_BUGS, *FIFO_DROPPING_BUGS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None

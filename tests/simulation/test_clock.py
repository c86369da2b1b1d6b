"""Universes in which the machine's clock is set, and what the time before showed."""

import pytest

from tests.simulation.clock import several
from tests.simulation.clock.several import SeveralWorld
from tests.simulation.clock.universe import run
from tests.simulation.clock.world import ClockWorld
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.clock_bugs import CELL_TIME_BUGS
from tests.simulation.process import Process

SEEDS_MAX = 12

SEVERAL = range(6)
FOUND = (37, 99, 1000900, 1000290, 1000103)
"""Seeds that once showed a mistake: a clock that was set right by two steps, one of them between
two processes, was taken for wrong; one of the oracle, what seemed to have expired came late; a
clock that was set back between two processes and put right by two starts, or by a start and a step,
was taken for a long stop; and one of the oracle, two receives at once were taken in the order in
which they began."""

KINDS = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


class FollowsTheClock(ClockWorld):
    """Everything goes by the machine's clock, and cells stamp above what they stamped before."""

    follows = True


class OneCellFollows(SeveralWorld):
    """One of several cells goes by the machine's clock."""

    def begin(self, process: Process) -> None:
        super().begin(process)
        store = self.stores[1]
        store.clock_us = self.machine_us
        store.cell._clock = store


def test_a_service_that_follows_the_clock_is_found_out() -> None:
    found = {
        v.invariant for seed in range(SEEDS_MAX) for v in run(seed, FollowsTheClock).violations
    }
    assert found >= {"acknowledged is delivered", "duplicates go by real time"}


def test_the_same_seed_has_the_same_history() -> None:
    assert run(3).history.events == run(3).history.events


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed).violations] == []


@pytest.mark.parametrize(("seed", "fifo"), [(1000130, False), (1000565, True), (1000774, True)])
def test_what_was_found_in_several_cells_stays_mended(seed: int, *, fifo: bool) -> None:
    """What was sent between two starts that found the clock ever further ahead stayed hidden.

    And two of the oracle: each of two such starts may mislead, and one that finds the clock less
    far behind.
    """
    found = several.run(seed, fifo=fifo).violations
    assert [f"{v.invariant}: {v.text}" for v in found] == []


@pytest.mark.parametrize("bug", CELL_TIME_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


@KINDS
def test_a_cell_that_follows_the_clock_alone_is_found_out(*, fifo: bool) -> None:
    for seed in SEVERAL:
        if several.run(seed, fifo=fifo, make=OneCellFollows).violations:
            return
    pytest.fail(f"{len(SEVERAL)} seeds do not show it")

"""Universes in which machines' clocks are set under front ends on tables, and what that shows."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.fifo import universe as fifo
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.clock_bugs import MACHINE_BUGS
from tests.simulation.universe import Outcome, run_on_machines

SEEDS_MAX = 12

Run = Callable[[int], Outcome]
KINDS = pytest.mark.parametrize("run", [run_on_machines, fifo.run_on_machines], ids=["bag", "log"])


@KINDS
def test_clocks_are_set_and_what_takes_time_is_probed(run: Run) -> None:
    events = [text for seed in range(8) for _, text in run(seed).history.events]
    for hours in (-24, -1, 1, 24):
        assert any(f"clock is wrong by {hours * 3_600}000000 us" in text for text in events)
    what = "probe.window" if run is fifo.run_on_machines else "probe.delay"
    assert any(what in text for text in events)


@KINDS
@pytest.mark.parametrize("bug", MACHINE_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(run: Run, bug: PlantedBug) -> None:
    assert seeds_to_find(replace(bug, run=run), SEEDS_MAX) is not None

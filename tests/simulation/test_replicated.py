"""Universes of replicated cells, and the bugs that they show."""

import pytest

from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.replication_bugs import CHAIN_BUGS, FANOUT_BUGS
from tests.simulation.replicated.directed import (
    ALONE,
    LATE_COPIES,
    MACHINES,
    TWO_HEADS,
)
from tests.simulation.replicated.plan import STRIKES, make_fifo_plan, make_plan
from tests.simulation.replicated.universe import run

FOUND = (101897, 103636, 103720, 301750, 500793, 503079, 604270)
"""Seeds that once showed a bug: a block of which a copy knew a lease, and not where it lies; a
lease that a request set back which came late; one of what a copy knew deleted, told forever; a
block that was collected where it was known to be deleted, though nobody had told the others; an old
lease, of which who joined was told late, in the place of a later one. And mistakes of the
simulator: a short freeze ended a long one, before which a cell was lost; a change of visibility was
taken for made, though the lease had ended by the clock of who was asked."""
FOUND_FIFO = (702, 1650, 101079, 101668, 101970, 301393, 700999, 6000067)
"""Seeds that once showed a mistake: of the oracle, what is shown by an old map, what a purge leaves
that takes long, what a drain gave up too soon, and what one cell alone still had of a block that
was collected; of chains, reads and refused writes that last
until a member has joined; of a manager that has just begun, a copy given up beside a lost one."""

FOUND_DIRECTED = (
    (LATE_COPIES, 46, False),
    (LATE_COPIES, 880781, False),
    (TWO_HEADS, 42, True),
    (MACHINES, 1003266, False),
    (ALONE, 895093, False),
    (ALONE, 895093, True),
    (ALONE, 4200103, False),
    (ALONE, 1001172, False),
    (ALONE, 1004783, True),
)
"""The same of directed universes, the last ones of FIFO queues or not: who joined was not told
what others were still to be told; who served next was told late of a lease, which ended one that
it had granted itself; a head that was dropped, and knew nothing of a block, had it taken for
collected; a manager that had just begun had a copy given up beside one on a cell that was lost;
a manager had begun to move a group when the universe ended; who had decided was told again of a
lease by the heir of a queue's group, which took back a visibility that was changed since; copies
passed for told of what the own group of a queue had been handed on the way; who gave a message
back again did not see the lease that was half way down a chain."""

KINDS = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


@pytest.mark.parametrize(
    ("seed", "fifo"), [*((seed, False) for seed in FOUND), *((seed, True) for seed in FOUND_FIFO)]
)
def test_what_was_found_stays_mended(seed: int, *, fifo: bool) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed, fifo=fifo).violations] == []


@pytest.mark.parametrize(("directed", "seed", "fifo"), FOUND_DIRECTED)
def test_what_directed_universes_found_stays_mended(
    directed: str, seed: int, *, fifo: bool
) -> None:
    outcome = run(seed, fifo=fifo, directed=directed)
    assert [f"{v.invariant}: {v.text}" for v in outcome.violations] == []


@KINDS
def test_nothing_is_wrong_where_the_clocks_of_machines_and_tables_are_set(*, fifo: bool) -> None:
    outcomes = {seed: run(seed, fifo=fifo, directed=MACHINES) for seed in range(4)}
    wrong = {seed: outcome.violations for seed, outcome in outcomes.items() if outcome.violations}
    assert wrong == {}
    events = [text for outcome in outcomes.values() for _, text in outcome.history.events]
    assert any("machine's clock is wrong by" in text for text in events)
    assert any(text.startswith("cell") and "clock is wrong by" in text for text in events)


@KINDS
def test_nothing_is_wrong_where_queues_move_alone(*, fifo: bool) -> None:
    outcomes = {seed: run(seed, fifo=fifo, directed=ALONE) for seed in range(1, 5)}
    wrong = {seed: outcome.violations for seed, outcome in outcomes.items() if outcome.violations}
    assert wrong == {}
    events = [text for outcome in outcomes.values() for _, text in outcome.history.events]
    placed = [text.split(" is at ") for text in events if " is at " in text]
    own = [members for group, members in placed if group.count(".") == 2]
    assert any("joining" in members for members in own)
    assert any(int(members.split(":")[0]) > 6 for members in own)


@KINDS
def test_cells_are_lost_and_join_in_these_universes(*, fifo: bool) -> None:
    events = [text for seed in range(4) for _, text in run(seed, fifo=fifo).history.events]
    assert any(" is at 4: " in text for text in events)
    assert any("joining" in text for text in events)


def test_everything_strikes_somewhere() -> None:
    plans = [make_plan(seed).replication for seed in range(20)]
    plans += [make_fifo_plan(seed).replication for seed in range(20)]
    assert {name for plan in plans for name in plan.strikes} == set(STRIKES)
    assert {plan.managers for plan in plans} == {1, 2}
    assert {plan.loss for plan in plans} == {"", "first", "last"}


@pytest.mark.parametrize(
    "bug",
    [
        *(pytest.param(bug, id=bug.name) for bug in FANOUT_BUGS),
        *(pytest.param(bug, id=f"{bug.name} fifo") for bug in CHAIN_BUGS),
    ],
)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, 1) is not None

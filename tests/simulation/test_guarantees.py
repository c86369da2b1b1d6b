"""Universes of queues with delivery guarantees, and the bugs that they show."""

import pytest

from tests.simulation.guarantees.oracle import INVARIANTS
from tests.simulation.guarantees.universe import make_plan, run
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.guarantee_bugs import FIFO_GUARANTEE_BUGS, GUARANTEE_BUGS

SEEDS_MAX = 100

FOUND = ((1001813, True), (1006286, False))
"""A front end stood still until what it held had been deleted and collected. The clock of another
was half a minute behind its cell's: it let go of what it had just claimed."""

KINDS = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


@pytest.mark.parametrize(("seed", "fifo"), FOUND)
def test_what_was_found_stays_mended(seed: int, *, fifo: bool) -> None:
    outcome = run(seed, fifo=fifo)
    assert [f"{v.invariant}: {v.text}" for v in outcome.violations] == []


@KINDS
def test_both_queues_are_used_in_these_universes(*, fifo: bool) -> None:
    outcomes = [run(seed, fifo=fifo) for seed in range(5)]
    attempts = [attempt for outcome in outcomes for attempt in outcome.history.attempts]
    received = {a.call.queue for a in attempts if a.output.get("Messages")}
    assert received == set(make_plan(0, fifo=fifo).queues)
    overtaken = [a for a in attempts if a.output.get("Failed") or a.status == 400]
    assert {a.call.operation for a in overtaken} >= {
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
    }


@pytest.mark.parametrize("bug", [*GUARANTEE_BUGS, *FIFO_GUARANTEE_BUGS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert names <= set().union(*(bug.invariants for bug in GUARANTEE_BUGS))


def test_the_same_seed_is_the_same_universe() -> None:
    assert run(3).history.digest() == run(3).history.digest()

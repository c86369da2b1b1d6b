"""Universes of queues of the Kinesis API that once failed, and the bugs that they show."""

import pytest

from tests.simulation.kinesis_queues.plan import make_kinesis_queues_plan
from tests.simulation.kinesis_queues.universe import run
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.kinesis_queue_bugs import KINESIS_QUEUE_BUGS

FOUND = (3000064, 1000280)
"""Replicated seeds that once showed a mistake of the checker: a restore was written, the reply was
lost, the record was received, and so the restore was refused, though it was done. And a record that
was stored twice: the first attempt had stood still, and its repetition was in the same write, and
knew better."""


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_away(seed: int) -> None:
    outcome = run(seed, loses=True)
    assert [f"{one.invariant}: {one.text}" for one in outcome.violations] == []


def test_a_seed_run_twice_gives_the_same_history() -> None:
    first, second = run(3), run(3)
    assert first.history.events == second.history.events
    assert first.requests == second.requests


def test_universes_are_of_all_sorts() -> None:
    plans = [make_kinesis_queues_plan(seed) for seed in range(100)]
    queues = [queue for plan in plans for queue in plan.queues]
    assert {queue.late for queue in queues} == {plan.calm for plan in plans} == {True, False}
    assert {queue.dies_after for queue in queues} == {0, 1, 2, 3}
    assert {plan.is_exact for plan in plans} == {True, False}
    lossy = [make_kinesis_queues_plan(seed, loses=True) for seed in range(100)]
    assert {plan.replication.loss for plan in lossy} == {"first", "last"}
    assert {plan.calm for plan in lossy} == {False}


@pytest.mark.parametrize("bug", KINESIS_QUEUE_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, 1) is not None

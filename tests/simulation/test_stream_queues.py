"""Universes of queues over streams that once failed, and the bugs that they show."""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.simulation.history import Attempt
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.stream_queue_bugs import STREAM_QUEUE_BUGS
from tests.simulation.stream_queues.plan import make_stream_queues_plan
from tests.simulation.stream_queues.universe import run, run_purged

FOUND = ((111, True), (418, False), (4156928, True), (1000349, True))
"""Seeds that once showed a bug: a dead letter that was stored again where its copy was half way
down a chain, which the directed universes show now. And a mistake of the universe: a manager took a
queue on a chain for one in a fan-out. A repeated call that was answered as stored where, after a
merge under its first attempt, only some of its records were; and an attempt that came last, though
it was the first, and found of the others only what lay in the last slot."""


@pytest.mark.parametrize(("seed", "loses"), FOUND)
def test_what_was_found_once_stays_away(seed: int, *, loses: bool) -> None:
    outcome = run(seed, loses=loses)
    assert [f"{one.invariant}: {one.text}" for one in outcome.violations] == []


def test_a_seed_run_twice_gives_the_same_history() -> None:
    first, second = run(3), run(3)
    assert first.history.events == second.history.events
    assert first.requests == second.requests


def test_universes_are_of_all_sorts() -> None:
    plans = [make_stream_queues_plan(seed) for seed in range(100)]
    queues = [queue for plan in plans for queue in plan.queues]
    assert {queue.fifo for queue in queues} == {queue.late for queue in queues} == {True, False}
    assert {queue.receives_max for queue in queues} == {0, 1, 3}
    assert {plan.replication.loss for plan in plans} == {""}
    lossy = [make_stream_queues_plan(seed, loses=True) for seed in range(100)]
    assert {plan.replication.loss for plan in lossy} == {"first", "last"}
    done = Counter(
        attempt.call.operation
        for seed in (15, 20)
        for attempt in run(seed).history.attempts
        if attempt.ok
    )
    assert {attempt.ok for attempt in _purges(range(3))} == {True, False}
    assert done.keys() >= {"SplitShard", "MergeShards", "UpdateShardCount"}
    assert done.keys() >= {"ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibility"}


def _purges(seeds: Iterable[int]) -> list[Attempt]:
    return [
        attempt
        for seed in seeds
        for attempt in run_purged(seed).history.attempts
        if attempt.call.operation == "PurgeQueue"
    ]


@pytest.mark.parametrize("bug", STREAM_QUEUE_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, 1) is not None

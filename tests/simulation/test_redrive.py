"""A fixed set of universes with dead letters, and the bugs that they show."""

import pytest

from tests.simulation.planted import PlantedBug
from tests.simulation.planted.dead_letter_bugs import (
    DEAD_LETTER_BUGS,
    FIFO_DEAD_LETTER_BUGS,
    redrive_seeds_to_find,
)
from tests.simulation.redrive.oracle import INVARIANTS
from tests.simulation.redrive.universe import TASKS, make_plan, run

CHUNKS = 3
SEEDS_PER_CHUNK = 10
SEEDS_MAX = 200
FOUND = ((221, False), (203, True))
"""Seeds, and whether of FIFO queues, that once showed a bug of the engine, or of the oracle."""


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_is_wrong_with_the_universes_of_these_seeds(chunk: int, *, fifo: bool) -> None:
    first = chunk * SEEDS_PER_CHUNK
    wrong = {
        seed: [f"{v.invariant}: {v.text}" for v in violations]
        for seed in range(first, first + SEEDS_PER_CHUNK)
        if (violations := run(seed, fifo=fifo).violations)
    }
    assert wrong == {}


@pytest.mark.parametrize(("seed", "fifo"), FOUND)
def test_what_was_found_stays_mended(seed: int, *, fifo: bool) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed, fifo=fifo).violations] == []


def test_messages_go_all_ways_in_these_universes() -> None:
    plans = [make_plan(seed) for seed in range(CHUNKS * SEEDS_PER_CHUNK)]
    assert {plan.tasks for plan in plans} == set(TASKS)
    received: set[str] = set()
    for seed in range(12):
        received |= {
            attempt.call.queue
            for attempt in run(seed).history.attempts
            if attempt.call.operation == "ReceiveMessage" and attempt.output.get("Messages")
        }
    assert received == {"q0", "q1", "dead", "other"}


@pytest.mark.parametrize(
    ("first", "bug"), DEAD_LETTER_BUGS, ids=lambda value: getattr(value, "name", value)
)
def test_a_planted_bug_is_found(first: int, bug: PlantedBug) -> None:
    seeds = redrive_seeds_to_find(bug, first, SEEDS_MAX)
    assert seeds is not None, f"{SEEDS_MAX} seeds from {first} on do not show it"


@pytest.mark.parametrize(
    ("first", "bug"), FIFO_DEAD_LETTER_BUGS, ids=lambda value: getattr(value, "name", value)
)
def test_a_planted_bug_of_fifo_queues_is_found(first: int, bug: PlantedBug) -> None:
    seeds = redrive_seeds_to_find(bug, first, SEEDS_MAX, fifo=True)
    assert seeds is not None, f"{SEEDS_MAX} seeds from {first} on do not show it"


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert names <= set().union(
        *(bug.invariants for _, bug in (*DEAD_LETTER_BUGS, *FIFO_DEAD_LETTER_BUGS))
    )


def test_the_same_seed_is_the_same_universe() -> None:
    assert run(3).history.digest() == run(3).history.digest()

"""Universes with dead letters, and the bugs that they show."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.simulation.history import History
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.dead_letter_bugs import DEAD_LETTER_BUGS, FIFO_DEAD_LETTER_BUGS
from tests.simulation.redrive.oracle import INVARIANTS, Case, receives_are_bounded
from tests.simulation.redrive.universe import TASKS, make_plan, run
from tests.simulation.world import World

PLANS = 30
SEEDS_MAX = 200
FOUND = ((221, False), (203, True), (79, True), (1003553, True))
"""Seeds, and whether of FIFO queues, that once showed a bug of the engine, or of the oracle."""


@pytest.mark.parametrize(
    ("attempts", "is_bounded"),
    [
        ([(0, 9, 2)], True),
        ([(0, 9, 3)], False),
        ([(0, 9, 3), (5, 7, 2)], True),
        ([(0, 9, 4), (5, 7, 2)], False),
        ([(0, 9, 3), (10, 12, None)], False),
    ],
    ids=["allowed", "one too many", "got again", "counted twice", "repeated later"],
)
def test_a_repeated_receive_may_count_once_more_for_each_repetition(
    attempts: list[tuple[int, int, int | None]], *, is_bounded: bool
) -> None:
    """Attempts of a receive: when it is tried and answered, and the count of what it gets."""
    plan = replace(make_plan(0, fifo=True), policies_change=False, receives_max=2)
    history = History()
    params = {"ReceiveRequestAttemptId": "again"}
    call = history.call("consumer", "ReceiveMessage", plan.sources[0], params)
    for tried_us, answered_us, counted in attempts:
        attempt = history.invoke(tried_us, call, "fe")
        told = {"ApproximateReceiveCount": counted}
        message = {"MessageId": "m", "ReceiptHandle": "h", "Attributes": told}
        history.answer(answered_us, attempt, 200, {"Messages": [message] if counted else []})
    store = SimpleNamespace(estimate_error_us_max=0, queues=(), stored=())
    scheduler = SimpleNamespace(now_us=100)
    world = SimpleNamespace(
        history=history, scheduler=scheduler, offset_us_min=0, offset_us_max=0, stores=[store]
    )
    violations = list(receives_are_bounded(Case(plan, cast(World, world))))
    assert (violations == []) is is_bounded


@pytest.mark.parametrize(("seed", "fifo"), FOUND)
def test_what_was_found_stays_mended(seed: int, *, fifo: bool) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed, fifo=fifo).violations] == []


def test_messages_go_all_ways_in_these_universes() -> None:
    plans = [make_plan(seed) for seed in range(PLANS)]
    assert {plan.tasks for plan in plans} == set(TASKS)
    received: set[str] = set()
    for seed in range(9):
        received |= {
            attempt.call.queue
            for attempt in run(seed).history.attempts
            if attempt.call.operation == "ReceiveMessage" and attempt.output.get("Messages")
        }
    assert received == {"q0", "q1", "dead", "other"}


@pytest.mark.parametrize(
    "bug", [*DEAD_LETTER_BUGS, *FIFO_DEAD_LETTER_BUGS], ids=lambda bug: bug.name
)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert names <= set().union(
        *(bug.invariants for bug in (*DEAD_LETTER_BUGS, *FIFO_DEAD_LETTER_BUGS))
    )


def test_the_same_seed_is_the_same_universe() -> None:
    assert run(3).history.digest() == run(3).history.digest()

"""Universes of queues with KMS keys, and the bugs that they show."""

from collections.abc import Callable

import pytest

from tests.simulation.keys.oracle import INVARIANTS, KMS
from tests.simulation.keys.universe import run, run_fifo
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.key_bugs import FIFO_KEY_BUGS, KEY_BUGS
from tests.simulation.universe import Outcome

SEEDS_MAX = 100


def refused(outcome: Outcome) -> set[str]:
    """The operations that keys did not serve for."""
    return {
        attempt.call.operation
        for attempt in outcome.history.attempts
        if KMS in attempt.output.get("__type", "")
    }


@pytest.mark.parametrize("kind", [run, run_fifo])
def test_sends_and_receives_are_refused_in_these_universes(kind: Callable[[int], Outcome]) -> None:
    found = set().union(*(refused(kind(seed)) for seed in range(8)))
    assert found >= {"SendMessage", "SendMessageBatch", "ReceiveMessage"}


@pytest.mark.parametrize("bug", [*KEY_BUGS, *FIFO_KEY_BUGS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert names <= set().union(*(bug.invariants for bug in KEY_BUGS))


def test_the_same_seed_is_the_same_universe() -> None:
    assert run(3).history.digest() == run(3).history.digest()

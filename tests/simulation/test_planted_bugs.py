"""The simulator finds what it is there to find: a bug for each invariant, several for most."""

import pytest

from tests.simulation.oracle import INVARIANTS
from tests.simulation.planted import PlantedBug, planted, seeds_to_find
from tests.simulation.planted.body_bugs import BODY_BUGS
from tests.simulation.planted.bugs import BUGS, RARE
from tests.simulation.planted.fair_bugs import FAIR_BUGS
from tests.simulation.universe import run

ALL_BUGS = (*BUGS, *BODY_BUGS, *FAIR_BUGS)
SEEDS_MAX = 1500
"""Bound on the search from the bug's first seed on."""


@pytest.mark.parametrize(
    "bug", [*BUGS, *BODY_BUGS, *FAIR_BUGS], ids=lambda bug: bug.name.replace(" ", "-")
)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    found = seeds_to_find(bug, SEEDS_MAX)
    assert found is not None, f"{SEEDS_MAX} seeds from {bug.first} on do not show it"
    seeds, violation = found
    print(f"{bug.name}: {bug.first + seeds} seeds to find ({violation.invariant})")


@pytest.mark.parametrize(("seed", "bug"), RARE, ids=lambda value: getattr(value, "name", value))
def test_a_rare_bug_is_seen_by_the_seed_that_found_it(seed: int, bug: PlantedBug) -> None:
    with planted(bug):
        assert bug.invariants & {violation.invariant for violation in run(seed).violations}


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert set().union(*(bug.invariants for bug in BUGS)) == names


def test_planting_leaves_nothing_behind() -> None:
    for bug in ALL_BUGS:
        before = [getattr(where, name) for where, name, _ in bug.patches]
        with planted(bug):
            pass
        assert [getattr(where, name) for where, name, _ in bug.patches] == before

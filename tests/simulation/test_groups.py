"""Universes of consumer groups, and the bugs that they show."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.groups.oracle import INVARIANTS
from tests.simulation.groups.universe import run
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.group_bugs import GROUP_BUGS

SEEDS_MAX = 40
FOUND = (1037, 1210, 1000294)
"""Seeds that once showed a bug: a member's deadline, of a clock that was ahead, stayed. And a
mistake of the member's: it did not commit the end of a shard that had no more records."""

FENCED = 8
"""One in ten that has a member which is fenced."""


run_once = cache(run)
"""Two tests look at the same universes."""


def test_what_groups_promise_holds() -> None:
    assert [
        f"{v.invariant}: {v.text}"
        for seed in (*FOUND, *range(5))
        for v in run_once(seed).violations
    ] == []


def test_everything_happens_in_these_universes() -> None:
    answered: Counter[tuple[str, str]] = Counter()
    for seed in (*range(5), FENCED):
        for attempt in run_once(seed).history.attempts:
            output = attempt.output
            said = output.get("__type") or [one["ErrorCode"] for one in output.get("Failed", ())]
            answered[attempt.call.operation, str(said or attempt.ok)] += 1
    assert answered["TidegateCommitOffsets", "['TidegateStaleAssignment']"] > 5
    assert answered["TidegateGroupHeartbeat", "TidegateUnknownMember"] > 5
    assert answered["TidegateGroupHeartbeat", "TidegateFencedMember"]
    assert answered["TidegateGroupHeartbeat", "False"] > 5


@pytest.mark.parametrize("bug", GROUP_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert names <= {"nothing breaks"}.union(*(bug.invariants for bug in GROUP_BUGS))


def test_the_same_seed_is_the_same_universe() -> None:
    assert run(3).history.digest() == run(3).history.digest()

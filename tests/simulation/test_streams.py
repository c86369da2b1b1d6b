"""Universes of streams that once failed, and the bugs that they show."""

import pytest

from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.stream_bugs import BUGS, KEPT_BUGS, NUMBERED_BUGS
from tests.simulation.streams.plan import LEAPS, make_streams_plan
from tests.simulation.streams.universe import run, run_numbered

FOUND = (0, 59, 92, 297, 396, 1151, 2015, 1005238)
"""Seeds that once showed a bug: a search by time that never ended where slots between two were
gone; readers that never met the end of a shard, where all of it had expired, or where it was made
closed on the way to others; a record whose fate was unknown that was put into a child as well. And
mistakes of the oracle: an attempt that was overtaken, one that stored again what expires later,
records that expire while they are read, and shards that nobody looked after for a day."""


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_away(seed: int) -> None:
    assert [f"{one.invariant}: {one.text}" for one in run(seed).violations] == []


def test_a_seed_run_twice_gives_the_same_history() -> None:
    first, second = run(3), run(3)
    assert first.history.events == second.history.events
    assert first.requests == second.requests


def test_universes_are_of_all_sorts() -> None:
    plans = [make_streams_plan(seed) for seed in range(100)]
    assert {plan.leaps_us for plan in plans} == {*LEAPS}
    assert {plan.replication.loss for plan in plans} == {"", "first", "last"}
    outcomes = [run(seed) for seed in (19, 30)]
    operations = {attempt.call.operation for one in outcomes for attempt in one.history.attempts}
    assert operations >= {"PutRecord", "PutRecords", "GetRecords", "SplitShard", "UpdateShardCount"}
    assert sum(one.requests for one in outcomes) / len(outcomes) > 500


# 2973: what failed was told as stored, as higher numbers were put into the shard since.
@pytest.mark.parametrize("seed", [0, 29, 95, 2973])
def test_numbered_records_are_stored_once(seed: int) -> None:
    outcome = run_numbered(seed)
    assert [f"{one.invariant}: {one.text}" for one in outcome.violations] == []
    outputs = [str(attempt.output) for attempt in outcome.history.attempts if attempt.ok]
    assert any("TidegateStoredBefore" in output for output in outputs)


@pytest.mark.parametrize(
    "bug", [*BUGS, *NUMBERED_BUGS, *KEPT_BUGS], ids=lambda bug: bug.name.replace(" ", "-")
)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, 1) is not None

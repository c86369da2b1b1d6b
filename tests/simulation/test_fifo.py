"""Universes of FIFO queues, and the bugs that they show."""

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from data_plane.log.bounds import TAIL_AGE_US_MAX
from tests.simulation.fifo.budgets import budgets_are_kept
from tests.simulation.fifo.case import FifoCase
from tests.simulation.fifo.oracle import INVARIANTS
from tests.simulation.fifo.universe import run
from tests.simulation.history import History
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.log_bugs import LOG_BUGS
from tests.simulation.planted.log_reader_bugs import LOG_READER_BUGS
from tests.simulation.world import START_US

SEEDS_MAX = 600
"""Bound on the search from a bug's first seed on."""

FOUND = (1037, 1001310)
"""Seeds that once showed a mistake of the checker: a duplicate that is answered from memory was
taken for a look at the end of the log; nobody received until a delay was over."""

ALL_BUGS = (*LOG_BUGS, *LOG_READER_BUGS)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed).violations] == []


@pytest.mark.parametrize(
    ("later_us", "is_kept"), [(TAIL_AGE_US_MAX - 1, False), (TAIL_AGE_US_MAX + 9_000, True)]
)
def test_a_send_may_read_that_looks_later_than_it_began(later_us: int, *, is_kept: bool) -> None:
    """The end of the log was seen long enough ago only when the front end looks."""
    history = History()
    for began_us, answered_us in ((0, 9_000), (TAIL_AGE_US_MAX - 9_000, later_us)):
        call = history.call("producer", "SendMessage", "q", {})
        attempt = history.invoke(START_US + began_us, call, "fe")
        attempt.spent = Counter({"query": 1, "put": 1})
        history.answer(START_US + answered_us, attempt, 200, {})
    queue = SimpleNamespace(name="q", high_throughput=False)
    case = SimpleNamespace(
        plan=SimpleNamespace(sequential=True),
        fifo=SimpleNamespace(queues=[queue]),
        history=history,
        estimate_error_us=0,
    )
    violations = list(budgets_are_kept(cast(FifoCase, case)))
    assert (violations == []) is is_kept


def test_these_universes_are_of_a_size_that_means_something() -> None:
    outcomes = [run(seed) for seed in range(14)]
    assert sum(outcome.requests for outcome in outcomes) / len(outcomes) > 200
    answered = [attempt for o in outcomes for attempt in o.history.attempts if attempt.ok]
    assert {attempt.call.operation for attempt in answered} >= {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "PurgeQueue",
        "SetQueueAttributes",
    }
    sent = [a.output["MessageId"] for a in answered if a.call.operation == "SendMessage"]
    assert len(set(sent)) < len(sent)


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert seeds_to_find(bug, SEEDS_MAX) is not None


def test_every_invariant_has_a_planted_bug() -> None:
    names = {invariant.__name__.replace("_", " ") for invariant in INVARIANTS}
    assert set().union(*(bug.invariants for bug in ALL_BUGS)) == names

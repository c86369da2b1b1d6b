"""Universes that once showed a bug; `make simulate` runs as many others as there is time for."""

import pytest

from tests.simulation.universe import run

FOUND = (
    30,
    70,
    452,
    1038,
    1090,
    1489,
    1563,
    3572,
    7468,
    11229,
    11393,
    29542,
    34150,
    42617,
    446,
    1002177,
)
"""Seeds that once showed a bug of the engine, or of the oracle."""


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert [f"{v.invariant}: {v.text}" for v in run(seed).violations] == []


def test_universes_are_of_a_size_that_means_something() -> None:
    outcomes = [run(seed) for seed in range(12)]
    assert sum(outcome.requests for outcome in outcomes) / len(outcomes) > 150
    operations = {attempt.call.operation for o in outcomes for attempt in o.history.attempts}
    assert operations >= {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "PurgeQueue",
    }

"""No false alarms: what healthy services leave has no findings, and what was altered is named.

`python -m tests.audits` tries many more.
"""

from pathlib import Path

import pytest

from tests.audits.checking import (
    SPARK,
    Case,
    altered_case,
    audit_all,
    healthy_case,
    steady_case,
)

pytestmark = pytest.mark.xdist_group("spark")

STEADY_S = 140
CELLS_BY_SEED = {1: 3, 3: 1, 4: 1}
ALTERATIONS = 15


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Services that were audited, all of them in one JVM, which takes its time to begin."""
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    folder: Path = tmp_path_factory.mktemp("audits")
    made = {
        "steady": steady_case(folder / "steady", STEADY_S),
        "altered": altered_case(folder / "altered", 1, ALTERATIONS),
        **{
            f"seed {seed}": healthy_case(folder / f"{seed}", seed, cells)
            for seed, cells in CELLS_BY_SEED.items()
        },
    }
    audit_all(list(made.values()))
    return made


def test_blocks_that_span_minutes_are_counted_in_the_minutes_of_their_messages(
    cases: dict[str, Case],
) -> None:
    assert cases["steady"].problems() == []
    (row,) = cases["steady"].report()["queues"]
    sums = (row["sent"], row["received"], row["deleted"], row["missing"])
    assert sums == (2 * STEADY_S, 2 * STEADY_S, 2 * STEADY_S, 0)


@pytest.mark.parametrize("seed", CELLS_BY_SEED)
def test_a_random_history_has_no_false_alarm(cases: dict[str, Case], seed: int) -> None:
    case = cases[f"seed {seed}"]
    assert case.problems() == []
    # Not because there was nothing to be wrong about.
    assert sum(row["sent"] for row in case.report()["queues"]) > 100


def test_each_alteration_is_named_with_its_queue_and_time(cases: dict[str, Case]) -> None:
    case = cases["altered"]
    assert case.problems() == []
    kinds = {what for what, _ in case.expected}
    assert kinds == {"remove", "duplicate", "flip", "move", "count"}
    assert len(case.expected) == ALTERATIONS

"""Bills of servers that crash at any step, beside their clients' books: `tests.audits.proof`."""

from pathlib import Path

import pytest

from tests.audits.checking import SPARK
from tests.audits.proof import bills, compare, make

pytestmark = pytest.mark.xdist_group("spark")

HISTORIES = 3
SEED = 1


def test_bills_are_what_clients_have_in_their_books(tmp_path: Path) -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    crashes = make(tmp_path, HISTORIES, SEED)
    assert crashes >= HISTORIES
    said = bills(tmp_path)
    assert said["tried"] > 0
    assert compare(tmp_path, said) == []
    # The comparison sees a unit too many, and what nobody told.
    one = next(row for row in said["rows"] if row["operation"] == "SendMessage")
    one["units"] += 1
    assert len(compare(tmp_path, said)) == 1
    one["units"] -= 1
    assert compare(tmp_path, {**said, "gaps": []}) != []

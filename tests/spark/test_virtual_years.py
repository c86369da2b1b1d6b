"""Daily bills over months in virtual time; `tests.spark.virtual_years` has two years of hours."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.virtual_years import rehearse

MONTHS = 2
DAYS_MIN = 28 * MONTHS


@pytest.mark.nightly
def test_months_of_bills_come_to_what_was_served(session: SparkSession, tmp_path: Path) -> None:
    told = rehearse(session, tmp_path, MONTHS, seed=3, every_h=24)
    assert told.problems == []
    assert told.runs > DAYS_MIN
    # Most of them find nothing new, and write nothing.
    assert 0 < told.wrote < told.runs // 3

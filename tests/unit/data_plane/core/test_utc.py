from datetime import UTC, datetime, timedelta

import pytest

from data_plane.core.utc import utc_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("first_year", [1970, 2000, 2096, 2196, 2396])
def test_it_is_the_calendar_of_the_standard_library(first_year: int) -> None:
    at = datetime(first_year, 1, 1, tzinfo=UTC)
    for _ in range(366 * 9):
        seconds = (at - EPOCH) // timedelta(seconds=1)
        assert utc_time(seconds) == at.timetuple()[:6]
        assert utc_time(seconds - 1) == (at - timedelta(seconds=1)).timetuple()[:6]
        at += timedelta(days=1)

"""Fixtures for suites that are run through both doors of Lambda: imported by those that do."""

from collections.abc import Iterator

import pytest

from tests.conformance.runners import DOORS, Chosen


@pytest.fixture(scope="module", params=DOORS, autouse=True)
def door(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whatever server a test makes is behind this door."""
    before, Chosen.runner = Chosen.runner, DOORS[request.param]
    yield request.param
    Chosen.runner = before

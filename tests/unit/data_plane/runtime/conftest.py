"""A driver for each test."""

from collections.abc import Iterator

import pytest

from tests.unit.data_plane.runtime.blocking_rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    opened = Rig()
    yield opened
    opened.driver.close()

"""Servers for the tests, stopped when those end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    started = ServerProcess(tmp_path / "data", tmp_path / "log")
    started.start()
    yield started
    started.kill()

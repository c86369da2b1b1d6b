"""Servers for the tests, stopped when those end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.forked import ForkServer, Starts
from tests.integration.server_process import ServerProcess


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer | None]:
    server = ForkServer() if sys.platform == "linux" else None
    yield server
    if server is not None:
        server.close()


@pytest.fixture(autouse=True)
def starts(fork_server: ForkServer | None) -> Iterator[type[Starts]]:
    """Processes are forked in a test, unless it says `starts.by = None`."""
    Starts.by = fork_server
    yield Starts
    Starts.by = None


@pytest.fixture
def started_by_the_system(starts: type[Starts]) -> None:
    """Processes are as users start them."""
    starts.by = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    started = ServerProcess(tmp_path / "data", tmp_path / "log")
    started.start()
    yield started
    started.kill()

"""Engines for the rehearsals: one of each kind for a worker of pytest, kept until it ends."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.rehearsal import emulators
from tests.rehearsal.processes import UnavailableError

SEEDS_DEFAULT = 2

EngineUrl = Callable[[str], str]

EACH_ENGINE = [
    pytest.param(engine, marks=pytest.mark.xdist_group(engine)) for engine in emulators.ENGINES
]
"""Parameters for a fixture; tests of one engine run in one worker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds", type=int, default=SEEDS_DEFAULT, help="seeds for each kind of fault"
    )


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> int:
    """How many seeds to try for each kind of fault."""
    return int(pytestconfig.getoption("--seeds"))


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUrl]:
    """The URL of an engine by its name; the test is skipped where it cannot be had."""
    urls: dict[str, str] = {}
    missing: dict[str, str] = {}
    with ExitStack() as engines:

        def url_of(engine: str) -> str:
            if engine not in urls and engine not in missing:
                folder = tmp_path_factory.mktemp(engine)
                try:
                    urls[engine] = engines.enter_context(emulators.running(engine, folder))
                except UnavailableError as error:
                    missing[engine] = str(error)
            if engine in missing:
                pytest.skip(missing[engine])  # why this engine cannot be had
            return urls[engine]

        yield url_of

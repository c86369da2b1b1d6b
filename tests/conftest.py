"""What holds for all tests."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.botocore_once import work_out_once
from tests.pipes import Pipe, open_pipe

# A busy machine must not fail a property by its clock. CI runs the same examples every time, so
# that a red run can be repeated; `pytest --hypothesis-profile=search` looks further.
settings.register_profile("check", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("check")

# The AWS CRT is there as one more signer to try. Clients are to be as users have them: without it.
os.environ["BOTO_DISABLE_CRT"] = "true"  # noqa: TID251 - botocore has no other switch

work_out_once()

# Most objects of a test live as long as it does: to look through them rarely saves a tenth.
gc.set_threshold(50_000)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that is gone with the test."""
    made = open_pipe()
    yield made
    for end in made:
        end.close()


def pytest_collection_finish() -> None:
    """Let garbage collection pass over what the modules of all tests hold."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests say by `record_property("says", ...)`."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "says":
                terminalreporter.write_line(f"{report.nodeid}: {text}")

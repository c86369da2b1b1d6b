"""One Spark for all tests of a worker: a session takes seconds to begin."""

import gc
from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from glue_jobs.session import open_session

_SOCKETS: Final = r"ignore:unclosed <socket.*laddr=\('127\.0\.0\.1':ResourceWarning"
"""py4j lets go of its connections to Java without closing them: hundreds in a run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Spark's own Python warns of is no error of ours."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default", _SOCKETS))


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """A session for little data. Its heap is a third of a job's: each worker of pytest has one."""
    opened = open_session("tests", memory="1g", cores="2", is_little=True)
    yield opened
    opened.stop()
    # Here, where Spark's own Python may warn, and not when the whole run ends, where it may not.
    gc.collect()

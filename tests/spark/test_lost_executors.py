"""The audit where executors are lost, and with them steps that were done."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from glue_jobs import audit
from glue_jobs.arguments import JobError
from glue_jobs.lost_executors import ATTEMPTS, begun_again
from glue_jobs.session import java_home
from tests.spark.cells import write_export
from tests.spark.test_audit import END_US, LEDGER_RECORDS, whole_cell
from tests.spark.usage_places import write_records

ROOT: Final = Path(__file__).parents[2]
SPARK: Final = ROOT / ".venvs/spark/bin"
GLUE: Final = ROOT / ".venvs/glue/lib/python3.11/site-packages"
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
LOST: Final = "an executor was lost with steps that were done (attempt 1 of 3)"
STEP: Final = "audit: following each message"
"""Said when items are read and kept: on executors, and nowhere else."""


def kill_executors(job: subprocess.Popen[str]) -> int:
    """All executors of a job, which runs in a session of its own; how many there were."""
    killed = 0
    for folder in Path("/proc").iterdir():
        try:
            its = int(folder.name) if folder.name.isdigit() else 0
            if its and os.getsid(its) == job.pid and EXECUTOR in (folder / "cmdline").read_bytes():
                os.kill(its, signal.SIGKILL)
                killed += 1
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
    return killed


def start(exports: Path, usage: Path, out: Path) -> subprocess.Popen[str]:
    """The audit as Glue starts it, on two executors, each a process of its own."""
    log = f"-Dlog4j2.configurationFile={(ROOT / 'glue_jobs/log4j2.properties').as_uri()}"
    java = f"{log} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(out / "warehouse"),
    }
    command = [str(SPARK / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    arguments = ["--exports", str(exports), "--usage", str(usage), "--out", str(out)]
    environment = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": str(SPARK / "python"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{GLUE}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    out.mkdir()
    return subprocess.Popen(
        [*command, str(ROOT / "glue_jobs/audit.py"), *arguments],
        cwd=out,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # Spark's start of a script hands on what it says as one.
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.nightly
def test_an_audit_that_lost_its_executors_says_the_same(
    session: SparkSession, tmp_path: Path
) -> None:
    if not GLUE.exists():
        pytest.skip(f"there is no awsglue: {GLUE}")  # what installs it: `make nightly`
    exports, usage = tmp_path / "exports", tmp_path / "usage"
    write_export(exports, whole_cell().lines(), END_US)
    write_records(usage, LEDGER_RECORDS)
    killed, told = 0, []
    with start(exports, usage, tmp_path / "lost") as job:
        try:
            assert job.stdout is not None
            for line in job.stdout:
                told.append(line.rstrip())
                if line.startswith(STEP) and not killed:
                    killed = kill_executors(job)
            code = job.wait()
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
    assert (killed, code) == (2, 0), told
    assert told.count(STEP) == 2, told
    assert f"audit: {LOST}" in told

    places = {"exports": str(exports), "usage": str(usage), "out": str(tmp_path / "whole")}
    folder = audit.run({**places, "table": "", "restored": ""}, session)["folder"]
    reports = [(tmp_path / its / folder / "report.json").read_bytes() for its in ("lost", "whole")]
    assert reports[0] == reports[1]


def failing(times: int, message: str) -> Callable[[], int]:
    """What fails so often, with this message, and then answers how often it was tried."""
    tried = 0

    def work() -> int:
        nonlocal tried
        tried += 1
        if tried <= times:
            raise PySparkException(message)
        return tried

    return work


def test_what_always_loses_executors_is_given_up() -> None:
    said: list[str] = []
    lost = "Task 0 failed 4 times: Checkpoint block rdd_3_0 not found!"
    assert begun_again(failing(ATTEMPTS - 1, lost), said.append) == ATTEMPTS
    assert said[0] == LOST
    with pytest.raises(JobError, match="in each of 3 attempts: give the job larger workers"):
        begun_again(failing(ATTEMPTS, lost), said.append)


def test_other_failures_are_not_repeated() -> None:
    said: list[str] = []
    with pytest.raises(PySparkException, match="overflow"):
        begun_again(failing(1, "overflow"), said.append)
    assert not said

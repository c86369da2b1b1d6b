"""The job that bills, and when it runs. What it writes lies beside usage records, and is kept."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from infra.findings import accept
from infra.options import StageOptions
from infra.state import BILLS_PREFIX, StateStack

_ROOT: Final = Path(__file__).parents[1]
_SCRIPT: Final = _ROOT / "glue_jobs/bill.py"
_LOCK: Final = _ROOT / "requirements/spark.txt"
_GLUE_VERSION: Final = "5.1"
_WORKER: Final = "G.1X"
_PACKAGES: Final = ("jinja2",)
"""What the job needs that Glue does not bring."""

_RUNS_MAX: Final = 3
"""The present month and the one before it may be billed at the same time."""

_LOGS: Final = "log-group:/aws-glue/*"


class Bills(Construct):
    """The job `bill`, the role it runs as, and its schedules."""

    def __init__(
        self, scope: Construct, id: str, stage: StageOptions, state: StateStack, usage_prefix: str
    ) -> None:
        super().__init__(scope, id)
        self._stage = stage
        self._state = state
        self._usage_prefix = usage_prefix
        self._script = s3_assets.Asset(self, "Script", path=str(_SCRIPT))
        self._modules = modules(self)
        self.job = self._job(self._role())
        for name, schedule, arguments in schedules(stage):
            self._trigger(name, schedule, arguments)

    def _role(self) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("glue.amazonaws.com"),
            inline_policies={"Work": iam.PolicyDocument(statements=self._rights())},
        )
        names = "Objects get their names when they are written; the bucket has no others."
        export = f"{self._state.stack_name}-usage"
        stack = cdk.Stack.of(self)
        logs = f"arn:<AWS::Partition>:logs:{stack.region}:{stack.account}:{_LOGS}"
        accept(
            role,
            {
                f"AwsSolutions-IAM5[Resource::{export}/{self._usage_prefix}/*]": names,
                f"AwsSolutions-IAM5[Resource::{export}/{BILLS_PREFIX}/*]": names,
                f"AwsSolutions-IAM5[Resource::{logs}]": "Glue names the logs of its runs.",
            },
        )
        return role

    def _rights(self) -> list[iam.PolicyStatement]:
        bucket = self._state.usage_arn
        stack = cdk.Stack.of(self)
        logs = f"arn:{cdk.Aws.PARTITION}:logs:{stack.region}:{stack.account}:{_LOGS}"
        return [
            iam.PolicyStatement(
                sid="Usage",
                actions=["s3:GetObject"],
                resources=[f"{bucket}/{self._usage_prefix}/*"],
            ),
            iam.PolicyStatement(
                sid="Bills",
                actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
                resources=[f"{bucket}/{BILLS_PREFIX}/*"],
            ),
            iam.PolicyStatement(sid="Names", actions=["s3:ListBucket"], resources=[bucket]),
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
                resources=[logs],
            ),
        ]

    def _job(self, role: iam.Role) -> glue.CfnJob:
        options = self._stage.analytics
        place = f"s3://{self._state.usage.bucket_name}"
        named = {"--accounts": options.accounts, "--prices": options.prices}
        job = glue.CfnJob(
            self,
            "Job",
            name=f"tidegate-{self._stage.name}-bill",
            role=role.role_arn,
            glue_version=_GLUE_VERSION,
            worker_type=_WORKER,
            number_of_workers=options.workers,
            timeout=options.timeout_minutes,
            execution_property=glue.CfnJob.ExecutionPropertyProperty(max_concurrent_runs=_RUNS_MAX),
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
                "--usage": f"{place}/{self._usage_prefix}",
                "--out": f"{place}/{BILLS_PREFIX}",
                "--period": "current",
                "--late_periods": str(options.late_periods),
                **{
                    name: f"{place}/{BILLS_PREFIX}/{value}"
                    for name, value in named.items()
                    if value
                },
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

    def _trigger(self, name: str, schedule: str, arguments: Mapping[str, str]) -> None:
        glue.CfnTrigger(
            self,
            name,
            name=f"tidegate-{self._stage.name}-bill-{name.lower()}",
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


def schedules(stage: StageOptions) -> list[tuple[str, str, dict[str, str]]]:
    """When the job runs, and with which arguments; in UTC."""
    options = stage.analytics
    hours = "*" if options.every_hours == 1 else f"0/{options.every_hours}"
    previous = {"--period": "previous"}
    return [
        ("Present", f"cron(15 {hours} * * ? *)", {"--period": "current"}),
        ("Previous", f"cron(40 2 1-{options.close_day - 1} * ? *)", previous),
        ("Close", f"cron(40 2 {options.close_day} * ? *)", {**previous, "--close": "yes"}),
    ]


def pinned(package: str) -> str:
    """A package with the version that tests run with."""
    found = re.search(rf"^{package}==[^ ]+", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, package  # noqa: S101 - the lock is ours
    return found.group()

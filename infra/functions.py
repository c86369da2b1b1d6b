"""Functions: each with a role, a log group and limits of its own, all of one asset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.findings import accept
from infra.options import LOG_DAYS, StageOptions

_ARCHITECTURES: Final = {
    "arm64": lambda_.Architecture.ARM_64,
    "x86_64": lambda_.Architecture.X86_64,
}
_NEWER_RUNTIME: Final = {
    "AwsSolutions-L1": "The runtime is an option of the stage; the default is the newest for which"
    " all wheels of the lock are known to exist."
}
_TRACES: Final = {
    "AwsSolutions-IAM5[Resource::*]": "X-Ray's actions are not restricted to resources: AWS"
    " documents them with all."
}


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """A function: its handler in app.py, its limits, what it is told and what it may do."""

    handler: str
    description: str
    memory_mb: int
    timeout_s: int
    environment: Mapping[str, str]
    statements: Sequence[iam.PolicyStatement]
    reserved_concurrency: int | None = None


class Function(Construct):
    """A function with its log group and its role."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        stage: StageOptions,
        code: lambda_.Code,
        shape: FunctionShape,
    ) -> None:
        super().__init__(scope, id)
        self.logs = log_group(self, "Logs", f"/tidegate/{stage.name}/{id.lower()}", stage)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={
                "Work": iam.PolicyDocument(statements=[_write_logs(self.logs), *shape.statements])
            },
        )
        self.function = lambda_.Function(
            self,
            "Function",
            description=shape.description,
            runtime=lambda_.Runtime(stage.service.runtime, lambda_.RuntimeFamily.PYTHON),
            architecture=_ARCHITECTURES[stage.service.architecture],
            handler=shape.handler,
            code=code,
            role=self.role,
            log_group=self.logs,
            memory_size=shape.memory_mb,
            timeout=cdk.Duration.seconds(shape.timeout_s),
            environment=dict(shape.environment),
            reserved_concurrent_executions=shape.reserved_concurrency,
            tracing=lambda_.Tracing.ACTIVE if stage.service.tracing else lambda_.Tracing.DISABLED,
        )
        accept(self.function, _NEWER_RUNTIME)
        if stage.service.tracing:
            accept(self.role, _TRACES)


def log_group(scope: Construct, id: str, name: str, stage: StageOptions) -> logs.LogGroup:
    """A log group that forgets, and goes with its stack."""
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        retention=retention(stage),
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def retention(stage: StageOptions) -> logs.RetentionDays:
    """For how long a stage's logs are kept."""
    return _RETENTION[stage.service.log_days]


def _write_logs(group: logs.ILogGroup) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="Logs",
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[group.log_group_arn],
    )


_RETENTION: Final = dict(
    zip(
        LOG_DAYS,
        (
            logs.RetentionDays.ONE_DAY,
            logs.RetentionDays.THREE_DAYS,
            logs.RetentionDays.FIVE_DAYS,
            logs.RetentionDays.ONE_WEEK,
            logs.RetentionDays.TWO_WEEKS,
            logs.RetentionDays.ONE_MONTH,
            logs.RetentionDays.TWO_MONTHS,
            logs.RetentionDays.THREE_MONTHS,
            logs.RetentionDays.FOUR_MONTHS,
            logs.RetentionDays.FIVE_MONTHS,
            logs.RetentionDays.SIX_MONTHS,
            logs.RetentionDays.ONE_YEAR,
            logs.RetentionDays.THIRTEEN_MONTHS,
            logs.RetentionDays.EIGHTEEN_MONTHS,
            logs.RetentionDays.TWO_YEARS,
            logs.RetentionDays.THREE_YEARS,
            logs.RetentionDays.FIVE_YEARS,
            logs.RetentionDays.TEN_YEARS,
        ),
        strict=True,
    )
)

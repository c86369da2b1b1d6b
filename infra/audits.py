"""The jobs behind audits: exports of the table, audits of them, digests of what is kept."""

from collections.abc import Mapping, Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.anchor import role_name
from infra.options import StageOptions
from infra.spark_jobs import NAMES, JobPlan, SparkJob
from infra.state import (
    BILLS_PREFIX,
    DIGESTS_PREFIX,
    EXPORTS_DAYS,
    EXPORTS_PREFIX,
    StateStack,
)

EXPORT_SCHEDULE: Final = "cron(5 * * * ? *)"
AUDIT_SCHEDULE: Final = "cron(30 3 * * ? *)"
DIGEST_SCHEDULE: Final = "cron(50 * * * ? *)"
DRAFTS: Final = f"{BILLS_PREFIX}/_drafts/"
"""What bills write before they know its name comes and goes: no digest names it."""

MARKS: Final = "writers"
TAILS: Final = "tails"
"""Folders of the usage place: marks of writers change, their tails come and go."""

_DAYS_OF_ROUNDING: Final = 1
"""S3 removes objects at midnight, UTC, and a digest is of an hour that is over."""


class Audits(Construct):
    """The jobs `export_table`, `audit` and `digest`, their roles and schedules."""

    def __init__(
        self, scope: Construct, id: str, stage: StageOptions, state: StateStack, usage_prefix: str
    ) -> None:
        super().__init__(scope, id)
        tables = [_table_arn(self, name) for name in (stage.state.own_table, *stage.state.cells)]
        export = SparkJob(self, "Export", stage, _export_plan(state, tables))
        export.trigger("Hourly", EXPORT_SCHEDULE, {})
        several = {"--table": "all"} if len(tables) > 1 else {}
        audit = SparkJob(self, "Audit", stage, _audit_plan(state, usage_prefix, several))
        audit.trigger("Daily", AUDIT_SCHEDULE, {})
        digest = SparkJob(self, "Digest", stage, _digest_plan(stage, state, usage_prefix))
        digest.trigger("Hourly", DIGEST_SCHEDULE, {})


def _table_arn(scope: Construct, name: str) -> str:
    stack = cdk.Stack.of(scope)
    return f"arn:{cdk.Aws.PARTITION}:dynamodb:{stack.region}:{stack.account}:table/{name}"


def _export_plan(state: StateStack, tables: Sequence[str]) -> JobPlan:
    exports = [f"{table}/export/*" for table in tables]
    rights = [
        iam.PolicyStatement(
            sid="Export",
            actions=["dynamodb:ExportTableToPointInTime", "dynamodb:ListExports"],
            resources=list(tables),
        ),
        iam.PolicyStatement(sid="Exports", actions=["dynamodb:DescribeExport"], resources=exports),
        iam.PolicyStatement(
            sid="Objects",
            actions=["s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"],
            resources=[f"{state.usage_arn}/{EXPORTS_PREFIX}/*"],
        ),
    ]
    arguments = {"--tables": ",".join(tables), "--out": _place(state, EXPORTS_PREFIX)}
    named = "DynamoDB names an export when it begins."
    accepted = {
        f"AwsSolutions-IAM5[Resource::{its.replace(cdk.Aws.PARTITION, '<AWS::Partition>')}]": named
        for its in exports
    }
    return JobPlan("export_table", arguments, rights, accepted | _accepted(state, EXPORTS_PREFIX))


def _audit_plan(state: StateStack, usage_prefix: str, more: Mapping[str, str]) -> JobPlan:
    arguments = {
        "--exports": _place(state, EXPORTS_PREFIX),
        "--usage": _place(state, usage_prefix),
        "--out": _place(state, BILLS_PREFIX),
        **more,
    }
    rights = [
        _read(state, "Usage", usage_prefix),
        _read(state, "Exports", EXPORTS_PREFIX),
        *_keep(state, "Reports"),
    ]
    accepted = _accepted(state, usage_prefix, EXPORTS_PREFIX, BILLS_PREFIX)
    return JobPlan("audit", arguments, rights, accepted)


def _digest_plan(stage: StageOptions, state: StateStack, usage_prefix: str) -> JobPlan:
    assert state.digest_key is not None  # noqa: S101 - a stage with audits has one
    operators = (stage.analytics.accounts, stage.analytics.prices)
    changing = [f"{usage_prefix}/{MARKS}/", *(f"{BILLS_PREFIX}/{its}" for its in operators if its)]
    kept = {usage_prefix: stage.state.usage_days, EXPORTS_PREFIX: EXPORTS_DAYS}
    days = [f"{its}/={max(0, kept[its] - _DAYS_OF_ROUNDING)}" for its in sorted(kept)]
    arguments = {
        "--place": f"s3://{state.usage.bucket_name}",
        "--hour": "last",
        "--apart": f"{DRAFTS},{usage_prefix}/{TAILS}/",
        "--changing": ",".join(changing),
        "--kept_days": ",".join(days),
        "--every_hours": "1",
        "--signer": state.digest_key.key_arn,
    }
    rights = [
        _read(state, "Chained"),
        iam.PolicyStatement(
            sid="Digests",
            actions=["s3:PutObject"],
            resources=[f"{state.usage_arn}/{DIGESTS_PREFIX}/*"],
        ),
        iam.PolicyStatement(sid="Names", actions=["s3:ListBucket"], resources=[state.usage_arn]),
        iam.PolicyStatement(
            sid="Sign",
            actions=["kms:GetPublicKey", "kms:Sign", "kms:Verify"],
            resources=[state.digest_key.key_arn],
        ),
    ]
    accepted = _accepted(state, DIGESTS_PREFIX)
    accepted[f"AwsSolutions-IAM5[Resource::{state.stack_name}-usage/*]"] = NAMES
    anchor = stage.analytics.anchor.bucket
    if not anchor:
        return JobPlan("digest", arguments, rights, accepted)
    heads = f"s3:::{anchor}/{stage.name}/*"
    rights += [
        iam.PolicyStatement(
            sid="Anchor",
            actions=["s3:GetObject", "s3:PutObject"],
            resources=[f"arn:{cdk.Aws.PARTITION}:{heads}"],
        ),
        iam.PolicyStatement(
            sid="Anchored",
            actions=["s3:ListBucket"],
            resources=[f"arn:{cdk.Aws.PARTITION}:s3:::{anchor}"],
        ),
    ]
    accepted[f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:{heads}]"] = NAMES
    arguments["--anchor"] = f"s3://{anchor}/{stage.name}"
    role = role_name(stage, cdk.Stack.of(state).region)
    return JobPlan("digest", arguments, rights, accepted, role_name=role)


def _place(state: StateStack, prefix: str) -> str:
    return f"s3://{state.usage.bucket_name}/{prefix}"


def _read(state: StateStack, sid: str, prefix: str = "") -> iam.PolicyStatement:
    objects = f"{state.usage_arn}/{prefix}/*" if prefix else f"{state.usage_arn}/*"
    return iam.PolicyStatement(sid=sid, actions=["s3:GetObject"], resources=[objects])


def _keep(state: StateStack, sid: str) -> list[iam.PolicyStatement]:
    """To read and put what is kept for good, and not to remove it."""
    return [
        iam.PolicyStatement(
            sid=sid,
            actions=["s3:GetObject", "s3:PutObject"],
            resources=[f"{state.usage_arn}/{BILLS_PREFIX}/*"],
        ),
        iam.PolicyStatement(sid="Names", actions=["s3:ListBucket"], resources=[state.usage_arn]),
    ]


def _accepted(state: StateStack, *prefixes: str) -> dict[str, str]:
    export = f"{state.stack_name}-usage"
    return {f"AwsSolutions-IAM5[Resource::{export}/{prefix}/*]": NAMES for prefix in prefixes}

"""What functions may do: exact actions on exact resources, by what they are for."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from infra.state import StateStack

_MARKS: Final = "writers"
"""Folder of marks in the usage place: data_plane/usage/place.py."""


def use_cell(state: StateStack, queue_keys: Sequence[str]) -> list[iam.PolicyStatement]:
    """Read and write messages, definitions and big bodies, and open what they are sealed under."""
    statements = [
        iam.PolicyStatement(
            sid="Items",
            actions=[
                "dynamodb:BatchGetItem",
                "dynamodb:BatchWriteItem",
                "dynamodb:DeleteItem",
                "dynamodb:GetItem",
                "dynamodb:PutItem",
                "dynamodb:Query",
                "dynamodb:UpdateItem",
            ],
            resources=[table.attr_arn for table in (state.cell.table, *state.further)],
        ),
        iam.PolicyStatement(
            sid="Bodies",
            actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resources=[f"{state.bodies_arn}/*"],
        ),
        iam.PolicyStatement(
            sid="NamesOfBodies", actions=["s3:ListBucket"], resources=[state.bodies_arn]
        ),
        iam.PolicyStatement(
            sid="MasterKey",
            actions=["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"],
            resources=[state.master_key.key_arn],
        ),
    ]
    if queue_keys:
        statements.append(
            iam.PolicyStatement(
                sid="KeysOfQueues",
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=list(queue_keys),
            )
        )
    return statements


def read_stream(stream_arn: str) -> iam.PolicyStatement:
    """Read a stream; Lambda does it in the function's name."""
    return iam.PolicyStatement(
        sid="Stream",
        actions=[
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
        ],
        resources=[stream_arn],
    )


def write_usage(state: StateStack, prefix: str) -> iam.PolicyStatement:
    """Add usage records."""
    return iam.PolicyStatement(
        sid="Usage", actions=["s3:PutObject"], resources=[f"{state.usage_arn}/{prefix}/*"]
    )


def mark_usage(state: StateStack, prefix: str) -> iam.PolicyStatement:
    """Say how far the usage records of a sandbox go."""
    return iam.PolicyStatement(
        sid="UsageMarks",
        actions=["s3:PutObject"],
        resources=[f"{state.usage_arn}/{prefix}/{_MARKS}/*"],
    )


def reasons(state: StateStack, prefix: str) -> dict[str, str]:
    """Why some of these rights have wildcards."""
    names = "Objects get their names when they are written; the bucket has no others."
    return {
        f"AwsSolutions-IAM5[Resource::{state.stack_name}-bodies/*]": names,
        f"AwsSolutions-IAM5[Resource::{state.stack_name}-usage/{prefix}/*]": names,
        f"AwsSolutions-IAM5[Resource::{state.stack_name}-usage/{prefix}/{_MARKS}/*]": names,
    }


def send_to(queue: sqs.IQueue) -> iam.PolicyStatement:
    """Put what could not be handled where someone looks."""
    return iam.PolicyStatement(
        sid="Undelivered", actions=["sqs:SendMessage"], resources=[queue.queue_arn]
    )

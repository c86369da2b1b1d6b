"""Where heads of a stage's digests are kept: a bucket of another account, of which nothing goes."""

from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from infra.findings import accept
from infra.options import StageOptions

_NO_ACCESS_LOGS: Final = {
    "AwsSolutions-S1": "One job writes to this bucket, once an hour, and nothing in it can be"
    " changed; CloudTrail's data events are the account's choice."
}


def role_name(stage: StageOptions, region: str) -> str:
    """What the role is called that may add heads: another account has to know it beforehand."""
    return f"tidegate-{stage.name}-{region}-digest"


class AnchorStack(cdk.Stack):
    """The bucket, to which the stage's job may add, and which it may read."""

    def __init__(self, scope: cdk.App, id: str, stage: StageOptions, **kwargs: Any) -> None:
        super().__init__(scope, id, termination_protection=True, **kwargs)
        options = stage.analytics.anchor
        self.bucket = s3.Bucket(
            self,
            "Heads",
            bucket_name=options.bucket,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            object_lock_enabled=True,
            object_lock_default_retention=s3.ObjectLockRetention.compliance(
                cdk.Duration.days(options.days)
            ),
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        accept(self.bucket, _NO_ACCESS_LOGS)
        self._let("Heads", ["s3:GetObject", "s3:PutObject"], f"/{stage.name}/*", stage)
        self._let("Names", ["s3:ListBucket"], "", stage)

    def _let(self, sid: str, actions: list[str], objects: str, stage: StageOptions) -> None:
        # The role need not be there yet: a principal by its own name would have to be.
        role = f"arn:{cdk.Aws.PARTITION}:iam::{stage.account}:role/{role_name(stage, '*')}"
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[iam.AccountPrincipal(stage.account)],
                actions=actions,
                resources=[f"{self.bucket.bucket_arn}{objects}"],
                conditions={"ArnLike": {"aws:PrincipalArn": role}},
            )
        )

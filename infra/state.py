"""What is kept: the cell's table, big bodies, usage records, the master key.

A stack of its own, for it lives longer than everything else. Its logical ids are pinned: a
resource whose id changes would be made anew, empty.
"""

from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from data_plane.dynamodb.tables import cell_table, time_to_live
from infra.findings import accept
from infra.options import StageOptions, StateOptions

TABLE: Final = "CellTable"
BODIES: Final = "BodiesBucket"
USAGE: Final = "UsageBucket"
USAGE_PREFIX: Final = "usage"
BILLS_PREFIX: Final = "bills"
EXPORTS_PREFIX: Final = "exports"
"""Folders of that bucket; bills, audits and digests are kept for good."""

EXPORTS_DAYS: Final = 35
"""For so long exports of tables are kept: all of a month while it is billed when it is over. There
is a full one each week."""

MASTER_KEY: Final = "MasterKey"
MASTER_KEY_ALIAS: Final = "MasterKeyAlias"

_NO_ACCESS_LOGS: Final = {
    "AwsSolutions-S1": "Only the service's own functions reach this bucket, and their logs tell of"
    " each request; CloudTrail's data events are the account's choice."
}


class Cell(Construct):
    """One cell: a table of messages and definitions, and the bodies too big for its items."""

    def __init__(self, scope: Construct, id: str, options: StateOptions) -> None:
        super().__init__(scope, id)
        self.table = _table(self, options, options.table, TABLE)
        self.bodies = _bucket(self, "Bodies", BODIES, options, versioned=False)
        cdk.CfnOutput(self, "Table", value=self.table.ref)


class StateStack(cdk.Stack):
    """The cell of a stage's own region, the master key, and what bills are made of."""

    def __init__(self, scope: Construct, id: str, options: StageOptions, **kwargs: Any) -> None:
        super().__init__(scope, id, termination_protection=options.state.keeps, **kwargs)
        self.cell = Cell(self, "Cell", options.state)
        # By their places in the list, in which further ones come last.
        self.further = [
            _table(self, options.state, name, f"{TABLE}{number}")
            for number, name in enumerate(options.state.cells, 2)
        ]
        # Stacks of other regions cannot be referred to; what they make has names.
        self.elsewhere_arns = [
            self.format_arn(
                service="dynamodb",
                region=region,
                resource="table",
                resource_name=options.state.table,
            )
            for region in options.further_regions
        ]
        self.usage = _bucket(self, "Usage", USAGE, options.state, versioned=True)
        self.usage.add_lifecycle_rule(
            prefix=f"{USAGE_PREFIX}/",
            expiration=cdk.Duration.days(options.state.usage_days),
            noncurrent_version_expiration=cdk.Duration.days(options.state.usage_days),
        )
        self.usage.add_lifecycle_rule(
            prefix=f"{EXPORTS_PREFIX}/",
            expiration=cdk.Duration.days(EXPORTS_DAYS),
            noncurrent_version_expiration=cdk.Duration.days(1),
        )
        # Exported under names of their own, by which reasons for rights can name them.
        self.bodies_arn = self.export_value(self.cell.bodies.bucket_arn, name=f"{id}-bodies")
        self.usage_arn = self.export_value(self.usage.bucket_arn, name=f"{id}-usage")
        self.master_key = _master_key(self, options)
        cdk.CfnOutput(self, "MasterKeyArn", value=self.master_key.key_arn)


class CellStack(cdk.Stack):
    """A cell in a further region."""

    def __init__(self, scope: Construct, id: str, options: StageOptions, **kwargs: Any) -> None:
        super().__init__(scope, id, termination_protection=options.state.keeps, **kwargs)
        self.cell = Cell(self, "Cell", options.state)


def _table(
    scope: Construct, options: StateOptions, name: str, logical_id: str
) -> dynamodb.CfnTable:
    """The table that the code knows, with what only a deployed one has."""
    known = cell_table(name)
    lifetime = time_to_live(name)["TimeToLiveSpecification"]
    table = dynamodb.CfnTable(
        scope,
        "Messages" if logical_id == TABLE else logical_id,
        table_name=known["TableName"],
        attribute_definitions=[
            dynamodb.CfnTable.AttributeDefinitionProperty(
                attribute_name=attribute["AttributeName"], attribute_type=attribute["AttributeType"]
            )
            for attribute in known["AttributeDefinitions"]
        ],
        key_schema=[
            dynamodb.CfnTable.KeySchemaProperty(
                attribute_name=key["AttributeName"], key_type=key["KeyType"]
            )
            for key in known["KeySchema"]
        ],
        billing_mode=known["BillingMode"],
        time_to_live_specification=dynamodb.CfnTable.TimeToLiveSpecificationProperty(
            attribute_name=lifetime["AttributeName"], enabled=lifetime["Enabled"]
        ),
        point_in_time_recovery_specification=dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
            point_in_time_recovery_enabled=True
        ),
        stream_specification=dynamodb.CfnTable.StreamSpecificationProperty(
            stream_view_type=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES.value
        ),
        deletion_protection_enabled=options.keeps,
    )
    table.override_logical_id(logical_id)
    table.apply_removal_policy(_removal(options))
    return table


def _bucket(
    scope: Construct,
    id: str,
    logical_id: str,
    options: StateOptions,
    *,
    versioned: bool,
) -> s3.Bucket:
    """A bucket that only signed requests over TLS reach, and the public never."""
    bucket = s3.Bucket(
        scope,
        id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        versioned=versioned,
        removal_policy=_removal(options),
        lifecycle_rules=[
            s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(1))
        ],
    )
    _pin(bucket, logical_id)
    accept(bucket, _NO_ACCESS_LOGS)
    return bucket


def _master_key(scope: Construct, options: StageOptions) -> kms.Key:
    """The key under which the registry's secret is sealed, and data keys of queues with keys.

    Whether a key can have replicas in other regions is decided when it is made.
    """
    key = kms.Key(
        scope,
        "MasterKey",
        description=f"Tidegate {options.name}: seals the keys of everything that is stored",
        enable_key_rotation=True,
        multi_region=True,
        pending_window=cdk.Duration.days(30 if options.state.keeps else 7),
        removal_policy=_removal(options.state),
    )
    _pin(key, MASTER_KEY)
    alias = kms.CfnAlias(
        scope,
        "MasterKeyAlias",
        alias_name=f"alias/tidegate-{options.name}",
        target_key_id=key.key_id,
    )
    alias.override_logical_id(MASTER_KEY_ALIAS)
    alias.apply_removal_policy(_removal(options.state))
    return key


def _pin(construct: Construct, logical_id: str) -> None:
    resource = construct.node.default_child
    if not isinstance(resource, cdk.CfnResource):
        raise TypeError(f"{construct.node.path} is no resource")
    resource.override_logical_id(logical_id)


def _removal(options: StateOptions) -> cdk.RemovalPolicy:
    return cdk.RemovalPolicy.RETAIN if options.keeps else cdk.RemovalPolicy.DESTROY

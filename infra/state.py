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
DIGESTS_PREFIX: Final = "digests"
"""Folders of that bucket; bills, audits and digests are kept for good."""

EXPORTS_DAYS: Final = 35
"""For so long exports of tables are kept: all of a month while it is billed when it is over. There
is a full one each week."""

BODIES_DAYS: Final = 37
"""For so long removed bodies are kept: longer than a table can be restored to, which is 35 days."""

MASTER_KEY: Final = "MasterKey"
MASTER_KEY_ALIAS: Final = "MasterKeyAlias"
DIGEST_KEY: Final = "DigestKey"

_NO_ACCESS_LOGS: Final = {
    "AwsSolutions-S1": "Only the service's own functions reach this bucket, and their logs tell of"
    " each request; CloudTrail's data events are the account's choice."
}


class RestoredTable:
    """A table that DynamoDB has restored, under a name of its own; it is not the stack's."""

    def __init__(self, name: str, stream_arn: str) -> None:
        self.ref = name
        self.attr_arn = stream_arn.partition("/stream/")[0]
        self.attr_stream_arn = stream_arn


class Cell(Construct):
    """One cell: a table of messages and definitions, and the bodies too big for its items."""

    def __init__(self, scope: Construct, id: str, stage: StageOptions) -> None:
        super().__init__(scope, id)
        self.table: dynamodb.CfnTable | RestoredTable
        if stage.state.restored_table:
            self.table = RestoredTable(stage.state.restored_table, stage.state.restored_stream)
        else:
            self.table = _table(self, stage, stage.state.table, TABLE)
        # A table that is restored names bodies that were removed since.
        self.bodies = _bucket(self, "Bodies", BODIES, stage.state, versioned=True)
        self.bodies.add_lifecycle_rule(
            noncurrent_version_expiration=cdk.Duration.days(BODIES_DAYS),
            expired_object_delete_marker=True,
        )
        cdk.CfnOutput(self, "Table", value=self.table.ref)


class StateStack(cdk.Stack):
    """The cells, the master key, and what bills are made of."""

    def __init__(self, scope: Construct, id: str, options: StageOptions, **kwargs: Any) -> None:
        super().__init__(scope, id, termination_protection=options.state.keeps, **kwargs)
        self.cell = Cell(self, "Cell", options)
        # By their places in the list, in which further ones come last.
        self.further = [
            _table(self, options, name, f"{TABLE}{number}")
            for number, name in enumerate(options.state.cells, 2)
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
        self.digest_key = _digest_key(self, options) if options.analytics.audits else None


def _table(scope: Construct, stage: StageOptions, name: str, logical_id: str) -> dynamodb.CfnTable:
    """The table that the code knows, with what only a deployed one has."""
    options = stage.state
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
        # Emulators throttle nothing.
        on_demand_throughput=None if stage.emulator else _ceiling(options),
    )
    table.override_logical_id(logical_id)
    table.apply_removal_policy(_removal(options))
    return table


def _ceiling(options: StateOptions) -> dynamodb.CfnTable.OnDemandThroughputProperty | None:
    """What a table serves a second at most; None: all that DynamoDB gives."""
    reads, writes = options.read_units_per_s_max, options.write_units_per_s_max
    if not reads and not writes:
        return None
    return dynamodb.CfnTable.OnDemandThroughputProperty(
        max_read_request_units=reads or None, max_write_request_units=writes or None
    )


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


def _digest_key(scope: Construct, options: StageOptions) -> kms.Key:
    """The key that signs digests; who has its public part can verify them, whatever became of it.

    Keys of this kind are not rotated: a new one would be another name.
    """
    key = kms.Key(
        scope,
        "DigestKey",
        description=f"Tidegate {options.name}: signs digests of bills, usage and exports",
        key_spec=kms.KeySpec.ECC_NIST_P256,
        key_usage=kms.KeyUsage.SIGN_VERIFY,
        pending_window=cdk.Duration.days(30 if options.state.keeps else 7),
        removal_policy=_removal(options.state),
    )
    _pin(key, DIGEST_KEY)
    cdk.CfnOutput(scope, "DigestKeyArn", value=key.key_arn)
    return key


def _pin(construct: Construct, logical_id: str) -> None:
    resource = construct.node.default_child
    if not isinstance(resource, cdk.CfnResource):
        raise TypeError(f"{construct.node.path} is no resource")
    resource.override_logical_id(logical_id)


def _removal(options: StateOptions) -> cdk.RemovalPolicy:
    return cdk.RemovalPolicy.RETAIN if options.keeps else cdk.RemovalPolicy.DESTROY

"""What bills are made of, as tables: a catalog over usage records, and the jobs that read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets

from infra.options import StageOptions
from infra.service import USAGE_PREFIX

RECORDS: Final = f"{USAGE_PREFIX}/records"
"""Folder of the records, filed by the hour: data_plane/usage/place.py."""

COLUMNS: Final = (
    ("schema", "string"),
    ("writer", "string"),
    ("number", "bigint"),
    ("minute", "bigint"),
    ("account", "string"),
    ("region", "string"),
    ("queue", "string"),
    ("operation", "string"),
    ("status", "string"),
    ("code", "string"),
    ("requests", "bigint"),
    ("units", "bigint"),
    ("messages", "bigint"),
    ("bytes", "bigint"),
    ("failed_entries", "bigint"),
)
"""Of a usage record, in its order."""

_PARTITIONS: Final = (("date", "string"), ("hour", "string"))
_PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet"
_SINCE: Final = "2026-01-01"
_GLUE_VERSION: Final = "5.0"
_WORKER: Final = "G.1X"


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark job: its script, and how much it may take."""

    name: str
    script: Path
    workers: int = 2
    timeout_minutes: int = 60


JOBS: Final[Sequence[Job]] = ()
"""The jobs of glue_jobs/ that are deployed."""


class AnalyticsStack(cdk.Stack):
    """The catalog, and the jobs over it. It holds no data."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        usage: s3.IBucket,
        jobs: Sequence[Job] = JOBS,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._usage = usage
        name = f"tidegate_{stage.name.replace('-', '_')}"
        self.catalog = glue.CfnDatabase(
            self,
            "Catalog",
            catalog_id=cdk.Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=name, description=f"Tidegate {stage.name}"
            ),
        )
        self.records = glue.CfnTable(
            self,
            "UsageRecords",
            catalog_id=cdk.Aws.ACCOUNT_ID,
            database_name=name,
            table_input=_usage_table(f"s3://{usage.bucket_name}/{RECORDS}"),
        )
        self.records.node.add_dependency(self.catalog)
        for job in jobs:
            self._add(job, stage)

    def _add(self, job: Job, stage: StageOptions) -> None:
        """A job that reads usage records, and runs as a role of its own."""
        script = s3_assets.Asset(self, f"{job.name}Script", path=str(job.script))
        role = iam.Role(
            self,
            f"{job.name}Role",
            assumed_by=iam.ServicePrincipal("glue.amazonaws.com"),
            inline_policies={"Work": iam.PolicyDocument(statements=_job_statements(self._usage))},
        )
        script.grant_read(role)
        glue.CfnJob(
            self,
            job.name,
            name=f"tidegate-{stage.name}-{job.name.lower()}",
            role=role.role_arn,
            glue_version=_GLUE_VERSION,
            worker_type=_WORKER,
            number_of_workers=job.workers,
            timeout=job.timeout_minutes,
            command=glue.CfnJob.JobCommandProperty(
                name="glueetl", python_version="3", script_location=script.s3_object_url
            ),
        )


def _job_statements(usage: s3.IBucket) -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(
            sid="Usage",
            actions=["s3:GetObject"],
            resources=[usage.arn_for_objects(f"{USAGE_PREFIX}/*")],
        ),
        iam.PolicyStatement(
            sid="NamesOfUsage", actions=["s3:ListBucket"], resources=[usage.bucket_arn]
        ),
    ]


def _usage_table(location: str) -> glue.CfnTable.TableInputProperty:
    """Partitions are computed from the range of dates: no crawler, no list to keep."""
    return glue.CfnTable.TableInputProperty(
        name="usage_records",
        description="What front ends served: docs/usage.md",
        table_type="EXTERNAL_TABLE",
        parameters={
            "classification": "parquet",
            "projection.enabled": "true",
            "projection.date.type": "date",
            "projection.date.format": "yyyy-MM-dd",
            "projection.date.range": f"{_SINCE},NOW",
            "projection.hour.type": "integer",
            "projection.hour.range": "0,23",
            "projection.hour.digits": "2",
            "storage.location.template": f"{location}/date=${{date}}/hour=${{hour}}",
        },
        partition_keys=_columns(_PARTITIONS),
        storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
            location=f"{location}/",
            columns=_columns(COLUMNS),
            input_format=f"{_PARQUET}.MapredParquetInputFormat",
            output_format=f"{_PARQUET}.MapredParquetOutputFormat",
            serde_info=glue.CfnTable.SerdeInfoProperty(
                serialization_library=f"{_PARQUET}.serde.ParquetHiveSerDe"
            ),
        ),
    )


def _columns(columns: Sequence[tuple[str, str]]) -> list[glue.CfnTable.ColumnProperty]:
    return [glue.CfnTable.ColumnProperty(name=name, type=kind) for name, kind in columns]

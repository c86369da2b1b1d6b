"""What bills are made of, as tables: a catalog over usage records, and the jobs that read it."""

from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_glue as glue

from infra.audit_tables import AUDIT_TABLES, AUDITS
from infra.audits import Audits
from infra.bill_tables import PARTITIONS, TABLES
from infra.bills import Bills
from infra.options import StageOptions
from infra.state import BILLS_PREFIX, USAGE_PREFIX, StateStack

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


class AnalyticsStack(cdk.Stack):
    """The catalog, and the jobs over it. It holds no data."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        state: StateStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
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
            table_input=_usage_table(f"s3://{state.usage.bucket_name}/{RECORDS}"),
        )
        self.records.node.add_dependency(self.catalog)
        if stage.analytics.bills:
            self.bills = Bills(self, "Bills", stage, state, USAGE_PREFIX)
            self._add_tables(name, f"s3://{state.usage.bucket_name}/{BILLS_PREFIX}")
        if stage.analytics.audits:
            self.audits = Audits(self, "Audits", stage, state, USAGE_PREFIX)
            self._add_audit_tables(name, f"s3://{state.usage.bucket_name}/{BILLS_PREFIX}")

    def _add_tables(self, database: str, place: str) -> None:
        for table in TABLES:
            made = glue.CfnTable(
                self,
                f"Table{table.title().replace('_', '')}",
                catalog_id=cdk.Aws.ACCOUNT_ID,
                database_name=database,
                table_input=_bill_table(table, place),
            )
            made.node.add_dependency(self.catalog)

    def _add_audit_tables(self, database: str, place: str) -> None:
        for table, columns in AUDIT_TABLES.items():
            made = glue.CfnTable(
                self,
                f"TableAudit{table.title()}",
                catalog_id=cdk.Aws.ACCOUNT_ID,
                database_name=database,
                table_input=_audit_table(table, columns, f"{place}/{AUDITS}"),
            )
            made.node.add_dependency(self.catalog)


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
        storage_descriptor=_parquet(f"{location}/", COLUMNS),
    )


def _bill_table(name: str, place: str) -> glue.CfnTable.TableInputProperty:
    """Of the rows of one run: a query names it, as others of the period do not hold any longer."""
    path, columns = TABLES[name]
    return glue.CfnTable.TableInputProperty(
        name=name,
        description="What the job `bill` wrote: docs/billing.md",
        table_type="EXTERNAL_TABLE",
        parameters={
            "classification": "parquet",
            "projection.enabled": "true",
            "projection.period.type": "injected",
            "projection.run.type": "injected",
            "projection.date.type": "date",
            "projection.date.format": "yyyy-MM-dd",
            "projection.date.range": f"{_SINCE},NOW",
            "storage.location.template": f"{place}/{path}",
        },
        partition_keys=_columns(PARTITIONS),
        storage_descriptor=_parquet(f"{place}/{path.partition('/')[0]}/", columns),
    )


def _audit_table(name: str, columns: Sequence[str], place: str) -> glue.CfnTable.TableInputProperty:
    """Of the rows of one audit: a query names it by the moment that it is of."""
    return glue.CfnTable.TableInputProperty(
        name=f"audit_{name}",
        description="What the job `audit` found: docs/audit.md",
        table_type="EXTERNAL_TABLE",
        parameters={
            "classification": "csv",
            "skip.header.line.count": "1",
            "projection.enabled": "true",
            "projection.moment.type": "injected",
            "storage.location.template": f"{place}/${{moment}}/{name}",
        },
        partition_keys=_columns([("moment", "string")]),
        storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
            location=f"{place}/",
            columns=_columns([(column, "string") for column in columns]),
            input_format="org.apache.hadoop.mapred.TextInputFormat",
            output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serde_info=glue.CfnTable.SerdeInfoProperty(
                serialization_library="org.apache.hadoop.hive.serde2.OpenCSVSerde"
            ),
        ),
    )


def _parquet(
    location: str, columns: Sequence[tuple[str, str]]
) -> glue.CfnTable.StorageDescriptorProperty:
    return glue.CfnTable.StorageDescriptorProperty(
        location=location,
        columns=_columns(columns),
        input_format=f"{_PARQUET}.MapredParquetInputFormat",
        output_format=f"{_PARQUET}.MapredParquetOutputFormat",
        serde_info=glue.CfnTable.SerdeInfoProperty(
            serialization_library=f"{_PARQUET}.serde.ParquetHiveSerDe"
        ),
    )


def _columns(columns: Sequence[tuple[str, str]]) -> list[glue.CfnTable.ColumnProperty]:
    return [glue.CfnTable.ColumnProperty(name=name, type=kind) for name, kind in columns]

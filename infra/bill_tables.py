"""What the job `bill` writes, as tables: docs/billing.md. Names and types alone."""

from collections.abc import Mapping
from typing import Final

_SUMMED: Final = ("records", "requests", "units", "messages", "bytes", "failed_entries")

_CHARGED: Final = (
    ("quantity", "bigint"),
    ("price", "decimal(20,10)"),
    ("cost", "decimal(38,19)"),
    ("list_price", "decimal(20,10)"),
)

TABLES: Final[Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "usage_hourly": (
        "usage_hourly/period=${period}/run=${run}/date=${date}",
        (
            ("hour", "bigint"),
            *((name, "string") for name in ("account", "region", "queue", "operation")),
            *((name, "string") for name in ("status", "code")),
            *((name, "bigint") for name in (*_SUMMED, "empty_receives")),
        ),
    ),
    "rated": (
        "rated/period=${period}/run=${run}/date=${date}",
        (
            ("hour", "bigint"),
            *((name, "string") for name in ("account", "region", "queue", "queue_type")),
            *((name, "string") for name in ("operation", "sku")),
            ("tier", "int"),
            *_CHARGED,
        ),
    ),
    "invoice_lines": (
        "invoices/period=${period}/run=${run}/lines/date=${date}",
        (
            *((name, "string") for name in ("account", "kind", "of_period", "region", "queue")),
            *((name, "string") for name in ("queue_type", "operation", "sku")),
            ("tier", "int"),
            *_CHARGED,
        ),
    ),
}
"""By their names: where each day of a run lies below the place of bills, and the columns.

A query names a period and a run, which the period's pointer says: other runs hold no longer."""

PARTITIONS: Final = (("period", "string"), ("run", "string"), ("date", "string"))

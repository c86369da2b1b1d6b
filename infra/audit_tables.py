"""What the job `audit` writes, as tables of texts: docs/audit.md. Names alone."""

from collections.abc import Mapping
from typing import Final

AUDITS: Final = "audit"
"""Folder of all audits, each under the moment that it is of."""

_QUEUE: Final = ("account", "region", "queue")
_FATES: Final = (
    *("deleted", "dead_lettered", "redriven", "expired", "purged"),
    *("gone_with_queue", "stored", "lost"),
)

AUDIT_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "conservation": (*_QUEUE, "uid", "partition", "sent", "came_by_move", *_FATES),
    "metered": (
        *(*_QUEUE, "sent", "metered_sent", "metered_received", "deleted", "metered_deleted"),
    ),
    "findings": (
        *("severity", "kind", *_QUEUE, "uid", "partition", "message", "count", "detail", "sent"),
    ),
    "access": (
        *("account", "principal", "access_key_id", "client"),
        *("region", "queue", "operation", "status", "code"),
        *("requests", "first_minute", "last_minute", "denied"),
    ),
}
"""By their names: the columns of each `rows.csv`, in their order."""

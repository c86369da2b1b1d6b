"""What an audit has found in one sentence, and in one row for each queue. Needs Python alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_QUEUE: Final = ("account", "region", "queue")
_MISSING: Final = frozenset({"lost", "sent_and_not_seen"})
_EXTRA: Final = frozenset({"not_sent", "stored_twice"})
_MOVED_ON: Final = ("dead_lettered", "redriven")
_OF_ITEMS: Final = ("deleted", "expired", "purged", "gone_with_queue")

COUNTS: Final = (
    *("sent", "moved_here", "received", "deleted", "expired", "purged", "moved_on"),
    *("gone_with_queue", "present", "missing", "extra", "errors"),
)
"""Columns of a queue's row. sent + moved here = deleted + expired + purged + moved on + gone with
the queue + present + missing; `received` is what usage has, `extra` messages that nobody sent."""

Row = Mapping[str, Any]


def by_queue(
    conservation: Iterable[Row], metered: Iterable[Row], findings: Iterable[Row]
) -> list[dict[str, Any]]:
    """Where the messages of each queue went, in the order of their names.

    What vanished before any export saw it counts as sent and as missing. A queue that no export
    defines goes by its uid.
    """
    rows: dict[tuple[str, str, str], dict[str, int]] = {}

    def row_of(its: Row) -> dict[str, int]:
        queue = its["queue"] or its.get("uid") or ""
        key = (its["account"] or "", its["region"] or "", queue)
        return rows.setdefault(key, dict.fromkeys(COUNTS, 0))

    for its in conservation:
        row = row_of(its)
        row["sent"] += its["sent"] - its["came_by_move"]
        row["moved_here"] += its["came_by_move"]
        row["moved_on"] += sum(its[name] for name in _MOVED_ON)
        row["present"] += its["stored"]
        row["missing"] += its["lost"]
        for name in _OF_ITEMS:
            row[name] += its[name]
    for its in metered:
        # Requests about no queue, or about all, have a row, too.
        if its["queue"]:
            row_of(its)["received"] += its["metered_received"]
    for its in findings:
        if its["severity"] != "error" or not (its["queue"] or its["uid"]):
            continue
        row = row_of(its)
        row["errors"] += 1
        row["extra"] += its["count"] if its["kind"] in _EXTRA else 0
        if its["kind"] == "sent_and_not_seen":
            row["sent"] += its["count"]
            row["missing"] += its["count"]
    named = (dict(zip(_QUEUE, key, strict=True)) | row for key, row in rows.items())
    return sorted(named, key=lambda row: [row[name] for name in _QUEUE])


def sentence(queues: Sequence[Row], findings: Iterable[Row], errors: int) -> str:
    """What there is to know first: whether all is well, else how much is not, and where."""
    if not errors:
        sent = sum(row["sent"] for row in queues)
        queues_text = _count(len(queues), "queue")
        return (
            "Every message that was sent is accounted for: "
            f"{sent:,} in {queues_text}, and none is missing."
        )
    missing, extra = (sum(row[name] for row in queues) for name in ("missing", "extra"))
    others = errors - sum(
        its["severity"] == "error" and its["kind"] in _MISSING | _EXTRA for its in findings
    )
    parts = [
        f"{_count(missing, 'message')} {'is' if missing == 1 else 'are'} missing" * bool(missing),
        f"{_count(extra, 'message')} too many" * bool(extra),
        f"{_count(others, 'other difference')}" * bool(others),
    ]
    told = ", ".join(filter(None, parts))
    wrong = sum(row["errors"] > 0 for row in queues)
    where = f", in {wrong} of {_count(len(queues), 'queue')}" if wrong else ""
    return f"Not everything is as it should be: {told}{where}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")

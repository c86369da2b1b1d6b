"""What an audit's page begins with: a sentence, and a row for each queue."""

from typing import Any

from glue_jobs.audit_summary import by_queue, sentence

FATES = ("deleted", "dead_lettered", "redriven", "expired", "purged", "gone_with_queue")
ORDERS = {"account": "1", "region": "r", "queue": "orders", "uid": "u"}


def partition(**counts: int) -> dict[str, Any]:
    """A row of `conservation`."""
    none = dict.fromkeys(("sent", "came_by_move", "stored", "lost", *FATES), 0)
    return {**ORDERS, "partition": "00|0", **none, **counts}


def finding(kind: str, count: int = 1, severity: str = "error", **its: Any) -> dict[str, Any]:
    return {**ORDERS, "kind": kind, "count": count, "severity": severity, **its}


def balance(row: dict[str, Any]) -> int:
    """What came less what became of it."""
    gone = ("deleted", "expired", "purged", "moved_on", "gone_with_queue", "present", "missing")
    return int(row["sent"] + row["moved_here"] - sum(row[name] for name in gone))


def test_a_queue_has_one_row_whatever_its_partitions() -> None:
    rows = [
        partition(sent=9, deleted=4, dead_lettered=1, expired=1, purged=1, stored=2),
        partition(sent=5, came_by_move=2, redriven=1, gone_with_queue=3, stored=1),
    ]
    metered = [{**ORDERS, "queue": name, "metered_received": 7} for name in ("orders", "")]
    (row,) = by_queue(rows, metered, [finding("deleted_again", 3, "note")])
    assert (row["queue"], row["sent"], row["moved_here"], row["received"]) == ("orders", 12, 2, 7)
    assert (row["moved_on"], row["present"], row["missing"], row["errors"]) == (2, 3, 0, 0)
    assert balance(row) == 0
    assert sentence([row], [], 0) == (
        "Every message that was sent is accounted for: 12 in 1 queue, and none is missing."
    )


def test_what_no_export_ever_saw_is_missing_too() -> None:
    findings = [
        finding("lost"),
        finding("sent_and_not_seen", 3),
        finding("not_sent", 2),
        finding("changed"),
        # Of no queue.
        finding("ledger_gap", queue=None, uid=None, account=None, region=None),
        finding("not_sent_candidate", severity="note"),
    ]
    (row,) = by_queue([partition(sent=4, stored=3, lost=1)], [], findings)
    assert (row["sent"], row["missing"], row["extra"], row["errors"]) == (7, 4, 2, 4)
    assert balance(row) == 0
    assert sentence([row], findings, 5) == (
        "Not everything is as it should be: 4 messages are missing, 2 messages too many,"
        " 2 other differences, in 1 of 1 queue."
    )


def test_a_queue_that_nothing_defines_goes_by_its_uid() -> None:
    nameless: dict[str, Any] = {"account": None, "region": None, "queue": None}
    rows = by_queue([{**partition(sent=1, lost=1), **nameless}], [], [])
    assert [(row["queue"], row["missing"]) for row in rows] == [("u", 1)]
    told = sentence(rows, [finding("lost", **nameless)], 1)
    assert told.endswith("1 message is missing.")

"""Messages that a cell says it removed rightly, where nothing else says so."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from glue_jobs import audit
from tests.spark.cells import ACCOUNT, MINUTE_US, T0_US, Cell, Value, be64, changes, write_export
from tests.spark.test_audit import END_US, ORDERS, S, block, fates, named, run

EARLY, UNPURGED, THERE, VANISHED, DELETED = (letter * 16 for letter in "56789")
LATER_US = END_US + 60 * MINUTE_US
EXPIRES_S = T0_US // S + 345_600 + 3_600
NAMES = {"early": EARLY, "unpurged": UNPURGED, "there": THERE}
CAUSES = {EARLY: "x", UNPURGED: "p", THERE: "q"}


def cell_of(**queues: str) -> Cell:
    cell = Cell()
    for name, uid in queues.items():
        cell.queue(name, uid)
    return cell


def test_why_a_cell_removed_a_message_is_held_to_what_else_there_is(
    session: SparkSession, tmp_path: Path
) -> None:
    before = cell_of(**NAMES, vanished=VANISHED, deleted=DELETED)
    after = cell_of(**NAMES)
    for uid in (*CAUSES, VANISHED, DELETED):
        before.segment(uid, block(1), 0, 1, T0_US + S)
    for uid, cause in CAUSES.items():
        its = {"t": T0_US + S, "s": T0_US + S, "u": EXPIRES_S, "y": 10}
        after.trace(uid, END_US + S, block(1), cause, i=0, n=1, **its)
    # Two definitions are gone: of one it is known that somebody deleted the queue.
    name = {"a": ACCOUNT, "e": "us-east-1", "q": "deleted", "c": "local"}
    after.put(f"X|{ACCOUNT}", be64(END_US + S) + DELETED.encode(), x=EXPIRES_S, **name)
    write_export(tmp_path / "exports", before.lines(), END_US)
    write_export(tmp_path / "exports", after.lines(), LATER_US)
    report = run(session, tmp_path)
    message = f"block {block(1).hex()} index 0"
    assert named(report) == {("lost", name, message, 1) for name in (*NAMES, "vanished")}
    assert fates(report, DELETED) == {"sent": 1, "gone_with_queue": 1}
    details = {its["queue"]: its["detail"].partition("UTC, ")[2] for its in report["findings"]}
    assert details == {
        "early": "removed before its time was over, and nobody had deleted it",
        "unpurged": "removed as purged, and nobody had purged it",
        "there": "removed as if its queue had been deleted",
        "vanished": "its queue has no definition any more, and nobody had deleted it",
    }


def test_of_a_queue_that_was_gone_after_days_nobody_knows_whether_it_was_deleted(
    session: SparkSession, tmp_path: Path
) -> None:
    """Its name is kept for three days, and these full exports of a table are further apart."""
    before = cell_of(orders=ORDERS, vanished=VANISHED)
    before.segment(VANISHED, block(1), 0, 1, T0_US + S)
    write_export(tmp_path / "exports", before.lines(), END_US)
    days_us = 4 * 86_400 * S
    write_export(tmp_path / "exports", cell_of(orders=ORDERS).lines(), END_US + days_us)
    report = run(session, tmp_path)
    assert named(report) == set()
    assert fates(report, VANISHED) == {"sent": 1, "gone_with_queue": 1}


def test_a_table_that_is_exported_no_more_is_named(session: SparkSession, tmp_path: Path) -> None:
    """What was sent to its queues since then nobody knows. One without queues may be gone."""
    root, last_us = tmp_path / "exports", END_US + 5 * 86_400 * S
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table"
    registry = cell_of()
    for name in ("one", "two", "three"):
        registry.put("C|", name.encode(), a=f'{{"table":"table-{name}"}}')
    where: dict[str, Value] = {"k": "q", "u": ORDERS, "p": 0, "a": "{}", "c": "two"}
    registry.put(f"Q|{ACCOUNT}|us-east-1", b"orders", **where)
    two = Cell()
    two.segment(ORDERS, block(1), 0, 1, T0_US + S)
    for number, (name, cell) in enumerate({"one": registry, "two": two, "three": Cell()}.items()):
        at_us, prefix = END_US + number * S, f"of-{name}"
        write_export(root, cell.lines(), at_us, table=f"{arn}/table-{name}", prefix=prefix)
    its: dict[str, Any] = {"table": f"{arn}/table-one", "prefix": "of-one"}
    for day in range(5):
        at_us = END_US + day * 86_400 * S
        write_export(root, changes(registry, registry, 0), at_us + 86_400 * S, at_us, **its)
    places = {name: str(tmp_path / name) for name in ("exports", "out")}
    report = audit.run({**places, "usage": "", "table": "all", "restored": ""}, session)
    assert [(its["kind"], its["detail"]) for its in report["findings"]] == [
        (
            "export_gap",
            "the last export of table-two is 5.0 days older than that of table-one",
        )
    ]
    assert report["as_of_us"] == last_us

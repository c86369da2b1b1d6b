"""The audit of what was put back to an earlier moment: what came after that is named as lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit
from glue_jobs.arguments import JobError
from tests.spark.cells import MINUTE_US, T0_US, Cell, be64
from tests.spark.cells import write_export as put_export
from tests.spark.test_audit import LEDGER, M0, ORDERS, S, block, named, record
from tests.spark.usage_places import write_mark, write_records

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table"
END_US = T0_US + 30 * MINUTE_US


def report_of(session: SparkSession, tmp_path: Path, restored: str = "") -> dict[str, Any]:
    places = {name: str(tmp_path / name) for name in ("exports", "usage", "out")}
    folder = audit.run({**places, "table": "", "restored": restored}, session)["folder"]
    found: dict[str, Any] = json.loads((tmp_path / "out" / folder / "report.json").read_bytes())
    return found


def backed_up() -> Cell:
    cell = Cell()
    cell.queue("orders", ORDERS)
    cell.segment(ORDERS, block(1), 0, 4, T0_US + S)
    return cell


def used() -> Cell:
    """The same later: more was sent, and some deleted."""
    cell = Cell(dict(backed_up().items))
    cell.done(ORDERS, block(1), {0})
    cell.segment(ORDERS, block(2), 0, 3, T0_US + 2 * MINUTE_US)
    cell.segment(ORDERS, block(3), 0, 2, T0_US + 3 * MINUTE_US)
    cell.done(ORDERS, block(3), {1})
    # Four are a record; three of a minute that is over, and two of one that is not, are rows.
    cell.ledger_mark(last=1, recorded_to=be64(M0 + 1))
    cell.ledger(M0 + 2, "orders", ORDERS, 3)
    cell.ledger(M0 + 3, "orders", ORDERS, 2)
    return cell


@pytest.mark.parametrize("is_last_minute_recorded", [True, False])
def test_what_came_after_a_backup_is_lost(
    session: SparkSession, tmp_path: Path, *, is_last_minute_recorded: bool
) -> None:
    put_export(tmp_path / "exports", used().lines(), T0_US + 4 * MINUTE_US)
    put_export(tmp_path / "exports", backed_up().lines(), END_US)
    records = [
        record(LEDGER, 1, "orders", "SendMessage", 4),
        record(LEDGER, 2, "orders", "SendMessage", 3) | {"minute": M0 + 2},
    ]
    expected = {
        *(("lost", "orders", f"block {block(2).hex()} index {index}", 1) for index in range(3)),
        ("lost", "orders", f"block {block(3).hex()} index 0", 1),
        ("deletion_forgotten", "orders", f"block {block(1).hex()} index 0", 1),
        ("deletion_forgotten", "orders", f"block {block(3).hex()} index 1", 1),
        ("ledger_gap", "", "", 1),
    }
    if is_last_minute_recorded:
        # In the minute of the export five more were sent, and in a later one seven.
        records += [
            record(LEDGER, 3, "orders", "SendMessage", 7) | {"minute": M0 + 3},
            record(LEDGER, 4, "orders", "SendMessage", 7) | {"minute": M0 + 9},
        ]
        expected |= {
            ("sent_and_not_seen", "orders", "", 5),
            ("sent_and_not_seen", "orders", "", 7),
        }
    write_records(tmp_path / "usage", records)
    write_mark(tmp_path / "usage", LEDGER, kind="ledger", opened=M0, records=len(records))
    report = report_of(session, tmp_path)
    meters = {"deletes_not_metered"}
    assert {its for its in named(report) if its[0] not in meters} == expected
    details = {its["message"]: its["detail"] for its in report["findings"] if its["message"]}
    assert "not there either" in details[f"block {block(3).hex()} index 1"]
    assert "not there either" not in details[f"block {block(1).hex()} index 0"]


def test_a_table_under_another_name_goes_on_with_what_was_there(
    session: SparkSession, tmp_path: Path
) -> None:
    before, after = used(), backed_up()
    for cell in (before, after):
        for key in [key for key in cell.items if key[0] in {"L|", "M|ledger"}]:
            del cell.items[key]
    put_export(tmp_path / "exports", before.lines(), T0_US + 4 * MINUTE_US, table=f"{ARN}/tidegate")
    put_export(tmp_path / "exports", after.lines(), END_US, table=f"{ARN}/tidegate-2")
    (tmp_path / "usage").mkdir()
    with pytest.raises(JobError, match="there are exports of several"):
        report_of(session, tmp_path)
    with pytest.raises(JobError, match="OLD=NEW"):
        report_of(session, tmp_path, "tidegate")
    found = named(report_of(session, tmp_path, "tidegate=tidegate-2"))
    assert sum(count for kind, _queue, _message, count in found if kind == "lost") == 4
    assert {kind for kind, *_ in found} == {"lost", "deletion_forgotten"}

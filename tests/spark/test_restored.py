"""The audit of what was put back to an earlier moment: what came after that is named as lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit
from glue_jobs.arguments import JobError
from glue_jobs.exports import Export
from tests.spark.cells import MINUTE_US, T0_US, Cell, be64
from tests.spark.cells import write_export as put_export
from tests.spark.test_audit import LEDGER, M0, ORDERS, SERVER, S, block, named, record
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


@pytest.mark.parametrize(
    "is_last_minute_recorded", [pytest.param(True, marks=pytest.mark.nightly), False]
)
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


def without_ledger(cell: Cell) -> Cell:
    for key in [key for key in cell.items if key[0] in {"L|", "M|ledger"}]:
        del cell.items[key]
    return cell


@pytest.mark.parametrize(
    ("counted_to_s", "unseen"), [(20, 7), pytest.param(50, 0, marks=pytest.mark.nightly)]
)
def test_what_was_sent_in_the_minute_of_a_restore_is_missed(
    session: SparkSession, tmp_path: Path, counted_to_s: int, unseen: int
) -> None:
    """If the server had ended by then: a later one may have sent it after the export."""
    minute = M0 + 4
    before_us = T0_US + 4 * MINUTE_US
    put_export(tmp_path / "exports", without_ledger(used()).lines(), before_us)
    put_export(tmp_path / "exports", without_ledger(backed_up()).lines(), before_us + 40 * S)
    sent = ((M0, 4), (M0 + 2, 3), (M0 + 3, 2), (minute, 7))
    records = [
        record(SERVER, number, "orders", "SendMessage", count) | {"minute": at}
        for number, (at, count) in enumerate(sent, start=1)
    ]
    write_records(tmp_path / "usage", records)
    its: dict[str, Any] = {"opened": M0, "complete_to": minute, "records": len(records)}
    write_mark(tmp_path / "usage", SERVER, **its, counted_to=before_us + counted_to_s * S)
    found = {its for its in named(report_of(session, tmp_path)) if its[0].startswith("sends")}
    assert found == ({("sends_without_message", "orders", "", unseen)} if unseen else set())


def test_all_cells_have_what_was_served_before_their_first_export() -> None:
    def export(cell: str, as_of_us: int) -> Export:
        return Export("", f"{ARN}/{cell}", as_of_us, 0, is_full=True, files=())

    exports = [export("one", END_US - 5 * S), export("two", END_US + 5 * S)]
    its_minute = END_US // MINUTE_US - 1
    for ended_us, before in ((-1, 0), (END_US - 6 * S, 1), (END_US - 4 * S, 0)):
        assert audit.surely_before(exports, ended_us) == its_minute + before


def test_a_table_under_another_name_goes_on_with_what_was_there(
    session: SparkSession, tmp_path: Path
) -> None:
    before, after = without_ledger(used()), without_ledger(backed_up())
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

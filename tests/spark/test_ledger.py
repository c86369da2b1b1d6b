"""The ledger of sends says what was stored: calls, units and bytes, by queue and minute."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.cells import ACCOUNT, MINUTE_US, REGION, T0_US, Cell, be64, write_export
from tests.spark.test_audit import END_US, LEDGER, M0, block, record, run
from tests.spark.usage_places import write_records

WHEN = "minute 2026-11-06 21:20:00 UTC"
ROWS: dict[str, dict[str, Any]] = {
    # Of each queue what its row has more than what was stored.
    "calls": {"r": 3},
    "units": {"u": 3},
    "bytes": {"y": 21},
    "whole": {},
    "removed-bytes": {"y": 21},
    "removed-calls": {"r": 3, "u": 3},
    "removed-units": {"u": 33},
    "removed-half": {"u": 4},
    "removed": {"r": 0, "u": 0},
}


def test_a_row_or_record_that_says_something_else_than_what_was_stored_is_named(
    session: SparkSession, tmp_path: Path
) -> None:
    before, cell = Cell(), Cell()
    for number, (name, others) in enumerate(ROWS.items()):
        uid = f"{number:016x}"
        cell.queue(name, uid)
        if name.startswith("removed"):
            times = {"t": T0_US, "s": T0_US, "u": T0_US // 1_000_000 + 3660}
            for index in range(2):
                its = {"i": index, "n": 1, "y": 10, **times}
                cell.trace(uid, T0_US + 60, block(number), "x", **its)
        else:
            cell.segment(uid, block(number), 0, 2, T0_US)
        cell.ledger(M0, name, uid, 2, **others)
    uids = {name: f"{number:016x}" for number, name in enumerate(("batch.fifo", "record", "row"))}
    for name, uid in uids.items():
        cell.queue(name, uid := uid.replace("0000", "ffff", 1))
        uids[name] = uid
    # Two batches of three messages in four units, and a message that came by itself.
    sums = bytes((2,)) + (4).to_bytes(2, "big") + bytes((3,)) + (30).to_bytes(4, "big")
    alone = bytes((1,)) + (1).to_bytes(2, "big") + bytes((1,)) + (10).to_bytes(4, "big")
    cell.slot(uids["batch.fifo"], 1, 1, 0, 4, T0_US, r=3, p=5, rb=sums + alone)
    cell.ledger(M0, "batch.fifo", uids["batch.fifo"], 4, r=3, u=5)
    cell.segment(uids["record"], block(91), 0, 2, T0_US)
    cell.segment(uids["row"], block(92), 0, 2, T0_US)
    # An earlier export has the row of a record; what is a record by now only grew until then.
    first = be64(M0) + be64(0)
    what = f"{ACCOUNT}|{REGION}|row|{uids['row']}".encode()
    before.items = dict(cell.items)
    before.put("L|", first + b"s" + what, r=2, u=2, m=2, y=21)
    before.ledger_mark()
    cell.ledger_mark(last=2, recorded_to=first + b"s" + what)
    write_export(tmp_path / "exports", before.lines(), T0_US + 30 * MINUTE_US)
    write_export(tmp_path / "exports", cell.lines(), END_US)
    records = [
        record(LEDGER, 1, "record", "SendMessage", 2) | {"units": 4},
        record(LEDGER, 2, "row", "SendMessage", 2),
    ]
    write_records(tmp_path / "usage", records)
    told: dict[str, Any] = {
        its["queue"]: its["detail"]
        for its in run(session, tmp_path)["findings"]
        if its["kind"] == "ledger_differs"
    }
    assert set(told) == {
        *("calls", "units", "bytes", "removed-bytes", "removed-calls", "removed-units"),
        *("record", "row"),
    }
    by_ledger = "calls: 3, units: 2, bytes: 20 by the ledger"
    assert told["calls"] == f"{WHEN}: {by_ledger}; calls: 2, units: 2, bytes: 20 as stored"
    assert told["removed-bytes"].endswith("bytes: 20 as stored, and by traces alone messages: 2")
    assert "SendMessage: rows have more than the records of them: requests: 2 (2)" in told["row"]
    assert "units: 4, bytes: 20 by the ledger" in told["record"]


def test_a_ledger_that_is_compared_with_no_usage_is_noted(
    session: SparkSession, tmp_path: Path
) -> None:
    cell = Cell()
    cell.queue("orders", "0" * 16)
    cell.segment("0" * 16, block(0), 0, 2, T0_US)
    cell.ledger(M0, "orders", "0" * 16, 2)
    write_export(tmp_path / "exports", cell.lines(), END_US)
    (found,) = run(session, tmp_path)["findings"]
    assert (found["kind"], found["severity"]) == ("no_usage", "note")

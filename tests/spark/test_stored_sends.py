"""Sends whose records functions lost are billed by what is stored, once, whatever comes later."""

import json
import shutil
import struct
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs.billing_options import Summary
from tests.spark.cells import (
    ACCOUNT,
    MINUTE_US,
    REGION,
    T0_US,
    Cell,
    Value,
    changes,
    write_export,
)
from tests.spark.fresh import bill_afresh
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.test_bill import NEXT, bill, bytes_of

BOX, SERVER = "f0" * 8, "5e" * 8
ORDERS, FIFO, GONE = "0" * 16, "f" * 16, "d" * 16
TABLES = ("usage_hourly", "rated", "invoices", "focus")
LATE = MINUTE + 7
DAY = f"{PERIOD}-01"


def ra(number: int, minute: int = MINUTE, writer: str = BOX) -> bytes:
    return struct.pack(">8sII", bytes.fromhex(writer), number, minute)


def rb(calls: int, units: int, messages: int, size_bytes: int) -> bytes:
    return struct.pack(">BHBI", calls, units, messages, size_bytes)


def block(number: int) -> bytes:
    return b"front." + number.to_bytes(4, "big")


def stored() -> Cell:
    """A cell that has what a sandbox has sent, and what others have."""
    cell = Cell()
    cell.queue("orders", ORDERS)
    cell.queue("mail.fifo", FIFO, FifoQueue="true")
    cell.segment(ORDERS, block(1), 0, 1, T0_US, ra=ra(1), y=100)
    cell.segment(ORDERS, block(1), 1, 1, T0_US + 1, ra=ra(2), y=70_000, p=2)
    # A batch lies in two segments, of which one counts it.
    cell.segment(ORDERS, block(1), 2, 4, T0_US + 2, ra=ra(3), y=90_000, p=3, rb=rb(1, 3, 4, 90_000))
    its: dict[str, Value] = {"ra": ra(3), "y": 60_000, "r": 0, "p": 0}
    its["rb"] = rb(0, 0, 6, 60_000)
    cell.segment(ORDERS, block(2), 0, 6, T0_US + 3, **its)
    cell.slot(FIFO, 1, 1, 0, 1, T0_US + 4, ra=ra(4, LATE), y=10)
    # A batch of which all but two were duplicates.
    cell.slot(FIFO, 2, 1, 1, 2, T0_US + 5, ra=ra(5, LATE), y=20, rb=rb(1, 1, 2, 20))
    # A server's, and what came by a move.
    cell.segment(ORDERS, block(3), 0, 5, T0_US + 6, y=50)
    cell.segment(ORDERS, block(4), 0, 1, T0_US + 7, y=10, r=0, p=0)
    return cell


def known() -> list[dict[str, Any]]:
    """Records of all that the sandbox has answered, and of what others have sent."""

    def of(number: int, operation: str, queue: str, *sums: int, minute: int) -> dict[str, Any]:
        its = dict(zip(("units", "messages", "bytes"), sums, strict=True))
        where = {"account": ACCOUNT, "region": REGION, "queue": queue, "operation": operation}
        return record(writer=BOX, number=number, minute=minute, **where, **its)

    return [
        of(1, "SendMessage", "orders", 1, 1, 100, minute=MINUTE),
        of(2, "SendMessage", "orders", 2, 1, 70_000, minute=MINUTE),
        of(3, "SendMessageBatch", "orders", 3, 10, 150_000, minute=MINUTE),
        of(4, "SendMessage", "mail.fifo", 1, 1, 10, minute=LATE),
        of(5, "SendMessageBatch", "mail.fifo", 1, 2, 20, minute=LATE),
        of(7, "DeleteMessage", "orders", 1, 1, 0, minute=LATE),
        record(writer=SERVER, requests=5, units=5, messages=5),
    ]


def without(*numbers: int) -> list[dict[str, Any]]:
    return [row for row in known() if row["writer"] != BOX or row["number"] not in numbers]


def lines_of(out: Path, period: str) -> list[dict[str, Any]]:
    folder = next((out / f"invoices/period={period}").rglob("lines"))
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return rows


def place_of(root: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A usage place with these records, the sandbox's mark and the server's."""
    put_records(root, rows)
    its: dict[str, Any] = {"kind": "function", "closed": False, "complete_to": LATE}
    put_mark(root, BOX, day=DAY, records=7, **its)
    put_mark(root, SERVER)
    return root


def payable(summary: Summary) -> dict[str, Decimal]:
    """What each account owes: statements are files of their runs."""
    return {its.account: its.payable for its in summary.invoices}


def gaps_of(summary: Summary) -> list[str]:
    return [line for line in summary.findings if line.startswith("lost:")]


@pytest.mark.nightly
def test_lost_sends_are_billed_as_if_they_were_known(session: SparkSession, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    write_export(exports, stored().lines(), T0_US + 60 * MINUTE_US)
    whole, short = place_of(tmp_path / "whole", known()), tmp_path / "short"
    place_of(short, without(2, 3, 4, 5))
    first = bill(session, whole, tmp_path / "first", exports=str(exports))
    second = bill(session, short, tmp_path / "second", exports=str(exports))
    # Number 6 was a receive: nothing of it is stored.
    assert gaps_of(first) == gaps_of(second)
    assert len(gaps_of(first)) == 1
    assert f"writer {BOX}: record 6" in gaps_of(first)[0]
    assert bytes_of(tmp_path / "first", TABLES) == bytes_of(tmp_path / "second", TABLES)
    assert "derived: 4 sends of functions have no record; they are stored" in second.findings
    assert not [line for line in first.findings if line.startswith("derived")]
    # What comes late adds nothing, and what comes twice neither.
    put_records(short, [row for row in known() if row["number"] in {2, 5}])
    put_records(short, [row for row in known() if row["number"] in {4, 5}])
    third = bill(session, short, tmp_path / "second", exports=str(exports))
    assert "derived: 1 send of functions has no record; it is stored" in third.findings
    assert payable(third) == payable(second)
    assert bytes_of(tmp_path / "second", TABLES) == bytes_of(tmp_path / "first", TABLES)
    # Again: the run stands.
    assert bill(session, short, tmp_path / "second", exports=str(exports)) == third
    assert len(list((tmp_path / "second/runs").rglob("*.json"))) == 2


@pytest.mark.nightly
def test_without_exports_sends_are_short_and_that_is_said(
    session: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path / "usage", without(2, 3))
    summary = bill(session, place, tmp_path / "bills")
    assert (
        "no exports: what functions sent in gaps is not looked for where it is stored"
        in summary.findings
    )
    assert f"writer {BOX}: records 2 to 3" in "\n".join(gaps_of(summary))
    assert sum(line["quantity"] for line in lines_of(tmp_path / "bills", PERIOD)) == 9
    # Servers have no such gaps.
    alone = tmp_path / "alone"
    put_records(alone, [record(writer=SERVER, number=2)])
    put_mark(alone, SERVER, records=2)
    assert len(bill(session, alone, tmp_path / "its").findings) == 1


@pytest.mark.nightly
def test_what_was_derived_once_stays_when_exports_are_gone(
    session: SparkSession, tmp_path: Path
) -> None:
    exports, out = tmp_path / "exports", tmp_path / "bills"
    write_export(exports, stored().lines(), T0_US + 60 * MINUTE_US)
    place = place_of(tmp_path / "usage", without(2, 3, 4, 5))
    first = bill(session, place, out, exports=str(exports))
    shutil.rmtree(exports)
    write_export(exports, Cell().lines(), T0_US + 120 * MINUTE_US)
    put_records(place, [row for row in known() if row["number"] == 2])
    assert payable(bill(session, place, out, exports=str(exports))) == payable(first)
    closed = bill(session, place, out, close=True)
    assert payable(closed) == payable(first)
    # A closed period is corrected by what is new alone: a receive, and no send.
    put_records(place, [row for row in known() if row["number"] in {3, 4}])
    received = {"account": ACCOUNT, "region": REGION, "operation": "ReceiveMessage", "bytes": 0}
    put_records(place, [record(writer=BOX, number=6, minute=LATE, **received)])
    later = bill(session, place, out, period="2026-12")
    assert "corrected: 2026-11" in later.findings
    # All of it is free.
    rows = [row for row in lines_of(out, "2026-12") if row["kind"] == "correction"]
    assert [(row["operation"], row["quantity"]) for row in rows] == [("ReceiveMessage", 1)]
    bill(session, place, out, period="2026-12", close=True)
    put_records(place, [row for row in known() if row["number"] == 5])
    assert not bill(session, place, out, period="2027-01").invoices


@pytest.mark.nightly
def test_copies_and_images_of_a_message_are_one(session: SparkSession, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    cell, before = stored(), Cell()
    before.queue("orders", ORDERS)
    before.queue("mail.fifo", FIFO, FifoQueue="true")
    write_export(exports, before.lines(), T0_US)
    half = Cell({**before.items})
    half.items |= dict(list(cell.items.items())[2:5])
    at_us = [T0_US + hour * 60 * MINUTE_US for hour in range(4)]
    write_export(exports, changes(before, half, at_us[0]), at_us[1], at_us[0])
    write_export(exports, changes(half, cell, at_us[1]), at_us[2], at_us[1])
    # TTL has removed all of it: old images are left.
    write_export(exports, changes(cell, before, at_us[2]), at_us[3], at_us[2])
    # Another table has copies, under an incarnation of its own.
    other = {(f"{key[0]}@3", key[1]): item for key, item in cell.items.items() if key[0][0] in "BG"}
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/other"
    write_export(exports, Cell(other).lines(), at_us[3] + 1000, table=table)
    whole, short = place_of(tmp_path / "whole", known()), tmp_path / "short"
    place_of(short, without(2, 3, 4, 5))
    bill_afresh(whole, tmp_path / "first", period=PERIOD)
    summary = bill(session, short, tmp_path / "second", exports=str(exports))
    assert bytes_of(tmp_path / "first", TABLES) == bytes_of(tmp_path / "second", TABLES)
    assert not [line for line in summary.findings if line.startswith("export")]


@pytest.mark.nightly
def test_only_sends_of_the_period_without_a_record_are_derived(
    session: SparkSession, tmp_path: Path
) -> None:
    exports, cell = tmp_path / "exports", Cell()
    cell.queue("orders", ORDERS)
    # A sandbox of which nothing came, not even its mark; one of a queue that nobody knows.
    cell.segment(ORDERS, block(1), 0, 1, T0_US, ra=ra(1, MINUTE, "aa" * 8), y=7)
    cell.segment(ORDERS, block(1), 1, 1, T0_US, ra=ra(2, MINUTE + NEXT, "aa" * 8), y=7)
    cell.segment(ORDERS, block(1), 2, 1, T0_US, ra=ra(1, MINUTE - 1, "bb" * 8), y=7)
    cell.segment(GONE, block(9), 0, 1, T0_US, ra=ra(1, MINUTE, "cc" * 8), y=7)
    # Refused in the end, or not billed: what is known of it is its record.
    cell.segment(ORDERS, block(1), 3, 1, T0_US, ra=ra(1, MINUTE, "dd" * 8), y=7)
    write_export(exports, cell.lines(), T0_US + 60 * MINUTE_US)
    damaged = write_export(exports, cell.lines(), T0_US + 120 * MINUTE_US)
    damaged.write_bytes(b"?")
    place = tmp_path / "usage"
    failed = {"status": "5xx", "code": "ServiceUnavailable", "messages": 0}
    put_records(place, [record(writer="dd" * 8, **failed)])
    summary = bill(session, place, tmp_path / "bills", exports=str(exports))
    (derived,) = lines_of(tmp_path / "bills", PERIOD)
    assert (derived["account"], derived["queue"], derived["quantity"]) == (ACCOUNT, "orders", 1)
    text = "\n".join(summary.findings)
    assert "derived: 1 send" in text
    assert "stored for nobody: 1 send, to queues that no export defines" in text
    assert "is not the file of the manifest" in text
    # The next period has its own, and does not take what was before it for missing.
    after = bill(session, place, tmp_path / "bills", period="2026-12", exports=str(exports))
    assert "derived: 1 send" in "\n".join(after.findings)
    assert not gaps_of(after)


def test_a_place_without_exports_is_said(session: SparkSession, tmp_path: Path) -> None:
    place = place_of(tmp_path / "usage", known())
    (tmp_path / "exports").mkdir()
    summary = bill(session, place, tmp_path / "bills", exports=str(tmp_path / "exports"))
    assert f"exports: there is none to read in {tmp_path / 'exports'}" in summary.findings
    (pointer,) = (tmp_path / "bills/runs").rglob("*.json")
    assert json.loads(pointer.read_bytes())["exports"] == []

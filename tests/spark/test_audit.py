"""The audit over cells made by hand: what is whole is whole, and what is planted is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit, evidence
from glue_jobs.conservation import ERRORS, by_item
from glue_jobs.evidence import moved_block
from glue_jobs.exports import find_exports, gaps_between, observations
from glue_jobs.places import FolderPlace
from tests.spark.cells import ACCOUNT, MINUTE_US, REGION, T0_US, Cell, be64, changes, write_export
from tests.spark.usage_places import write_mark, write_records

ORDERS, DEAD, PURGED, SHORT, FIFO = (letter * 16 for letter in "0123f")
GONE, FDEAD = "4" * 16, "5" * 16
FIRST_ID = b"of some message."
SLOT_ID = bytes((100, 0)) + bytes(14)
LEDGER, SERVER = "00112233445566aa", "bbbbbbbbbbbbbbbb"
M0 = T0_US // MINUTE_US
END_US = T0_US + 60 * MINUTE_US
S = 1_000_000


def block(number: int) -> bytes:
    return b"front." + number.to_bytes(4, "big")


def log_block(slot: int) -> bytes:
    return slot.to_bytes(8, "big")


def whole_cell() -> Cell:
    """A cell in which every message met its fate, and one of each is there."""
    cell = Cell()
    cell.queue("orders", ORDERS)
    cell.queue("dead", DEAD)
    cell.queue("purged", PURGED, purged_us=T0_US + 20 * S)
    cell.queue("short", SHORT, MessageRetentionPeriod="60")
    cell.queue("fifo.fifo", FIFO, FifoQueue="true")
    cell.queue("fdead.fifo", FDEAD, FifoQueue="true")
    # Four and two messages, of which two are deleted and one is moving.
    cell.segment(ORDERS, block(1), 0, 4, T0_US + 1 * S)
    cell.segment(ORDERS, block(1), 4, 2, T0_US + 2 * S)
    cell.done(ORDERS, block(1), {0, 1}, q3="d|a|r|dead|u|1")
    # Three that were sent, received and deleted, and whose block is gone.
    cell.trace(ORDERS, T0_US + 9 * S, block(2), "n", i=0, n=3, t=T0_US, s=T0_US, u=1, y=30)
    cell.trace(ORDERS, T0_US + 9 * S, block(2), "n", d={0, 1, 2})
    # A dead letter, and its copy.
    cell.segment(ORDERS, block(3), 0, 1, T0_US + 3 * S)
    cell.done(ORDERS, block(3), {0}, gd={0})
    copy = bytes.fromhex(moved_block(ORDERS, "00|0", block(3).hex()))
    cell.segment(DEAD, copy, 0, 1, T0_US + 15 * S, v=2, l=T0_US + 3 * S)
    cell.segment(PURGED, block(4), 0, 2, T0_US + 10 * S)
    cell.segment(PURGED, block(4), 2, 1, T0_US + 30 * S)
    cell.segment(SHORT, block(5), 0, 4, T0_US)
    its_time = {"t": T0_US, "s": T0_US, "u": T0_US // S + 3590}
    cell.trace(SHORT, END_US - S, block(6), "x", i=0, n=1, y=10, **its_time)
    cell.trace(GONE, T0_US + 40 * S, block(7), "q", i=0, n=6, y=60, **its_time)
    # Markers and the rest of what lies among segments are no messages.
    cell.put(f"B|{ORDERS}|00|0", bytes(8) + block(1) + b"\xff", k="m", t=1, b=block(1))
    cell.slot(FIFO, 100, 100, 0, 3, T0_US + 4 * S)
    cell.slot(FIFO, 101, 100, 3, 1, T0_US + 5 * S)
    cell.put(f"G|{FIFO}|00|0", (102).to_bytes(8, "big"), k="p", t=T0_US, b=100, i=4, n=0)
    cell.done(FIFO, log_block(100), {0, 3}, gd={3})
    cell.slot(FDEAD, 7, 7, 0, 1, T0_US + 50 * S, j=1)
    # A row that is a record already, and not removed yet.
    before_all = be64(M0) + be64(0)
    what = f"{ACCOUNT}|{REGION}|orders|{ORDERS}".encode()
    cell.put("L|", before_all + b"s" + what, m=4, r=4, u=4, y=40)
    cell.ledger_mark(last=2, recorded_to=before_all + b"s" + what)
    cell.ledger(M0, "purged", PURGED, 3)
    cell.ledger(M0, "short", SHORT, 5)
    cell.ledger(M0, "fifo.fifo", FIFO, 3)
    cell.ledger(M0, "fifo.fifo", FIFO, 1, kind=b"b")
    cell.ledger(M0, "gone", GONE, 6)
    cell.put(f"Q|{ACCOUNT}|{REGION}", b"gone", k="d", u=GONE, t=T0_US + 39 * S)
    return cell


NONE_FAILED = {"failed_entries": 0}


def record(writer: str, number: int, queue: str, operation: str, messages: int) -> dict[str, Any]:
    its = {"writer": writer, "number": number, "minute": M0, "account": ACCOUNT}
    its |= {"region": REGION, "queue": queue, "operation": operation, "status": "2xx", "code": ""}
    counts = dict.fromkeys(("requests", "units", "messages"), messages)
    return {"schema": "tidegate.usage/1", **its, **counts, "bytes": 10 * messages, **NONE_FAILED}


LEDGER_RECORDS = [
    record(LEDGER, 1, "orders", "SendMessage", 4),
    record(LEDGER, 2, "orders", "SendMessageBatch", 6),
    # Sent after the last export was made.
    record(LEDGER, 3, "orders", "SendMessage", 99),
]


def run(session: SparkSession, tmp_path: Path) -> dict[str, Any]:
    places = {name: str(tmp_path / name) for name in ("exports", "usage", "out")}
    folder = audit.run({**places, "table": "", "restored": ""}, session)["folder"]
    found: dict[str, Any] = json.loads((tmp_path / "out" / folder / "report.json").read_bytes())
    return found


def named(report: dict[str, Any]) -> set[tuple[str, str, str, int]]:
    return {
        (its["kind"], its["queue"] or its["uid"] or "", its["message"] or "", its["count"])
        for its in report["findings"]
    }


def fates(report: dict[str, Any], uid: str) -> dict[str, int]:
    rows = [row for row in report["conservation"] if row["uid"] == uid]
    assert len(rows) == 1
    return {name: row for name, row in rows[0].items() if isinstance(row, int) and row}


def test_a_whole_cell_has_no_differences(session: SparkSession, tmp_path: Path) -> None:
    write_export(tmp_path / "exports", whole_cell().lines(), END_US)
    deletes = [
        record(SERVER, 1, "orders", "DeleteMessageBatch", 5),
        record(SERVER, 2, "fifo.fifo", "DeleteMessage", 1),
    ]
    # What is delivered twice counts once.
    write_records(tmp_path / "usage", LEDGER_RECORDS + deletes)
    write_records(tmp_path / "usage", deletes)
    # What was served after the last export was made is not in it, and is compared with nothing.
    end = END_US // MINUTE_US
    for number, minute, messages in ((3, end, 2), (4, end + 1, 70)):
        later = record(SERVER, number, "orders", "DeleteMessage", messages)
        write_records(tmp_path / "usage", [later | {"minute": minute}])
    report = run(session, tmp_path)
    assert not report["findings"]
    assert (report["errors"], report["notes"]) == (0, 0)
    (metered,) = [its for its in report["metered"] if its["queue"] == "orders"]
    assert (metered["deleted"], metered["metered_deleted"]) == (5, 7)
    assert fates(report, ORDERS) == {"sent": 10, "deleted": 5, "dead_lettered": 1, "stored": 4}
    assert fates(report, DEAD) == {"sent": 1, "came_by_move": 1, "stored": 1}
    assert fates(report, PURGED) == {"sent": 3, "purged": 2, "stored": 1}
    assert fates(report, SHORT) == {"sent": 5, "expired": 5}
    assert fates(report, GONE) == {"sent": 6, "gone_with_queue": 6}
    assert fates(report, FIFO) == {"sent": 4, "deleted": 1, "dead_lettered": 1, "stored": 2}
    page = next((tmp_path / "out").rglob("report.html")).read_text()
    assert "Every message that was sent is accounted for: 28 in 7 queues" in page
    (row,) = [row for row in report["queues"] if row["queue"] == "orders"]
    told = {name: count for name, count in row.items() if isinstance(count, int) and count}
    assert told == {"sent": 10, "deleted": 5, "moved_on": 1, "present": 4}


def test_a_queue_that_was_made_anew_is_not_taken_for_another(
    session: SparkSession, tmp_path: Path
) -> None:
    """Deleted, swept, and made again under its name, before any export saw the first one."""
    cell = Cell()
    cell.queue("gone", ORDERS)
    cell.segment(ORDERS, block(1), 0, 2, T0_US + 50 * S)
    its_time = {"t": T0_US, "s": T0_US, "u": T0_US // S + 3660}
    cell.trace(GONE, T0_US + 40 * S, block(7), "q", i=0, n=6, y=60, **its_time)
    cell.trace(GONE, T0_US + 41 * S, block(8), "n", i=0, n=2, y=20, **its_time)
    cell.trace(GONE, T0_US + 41 * S, block(8), "n", d={0, 1})
    named = {"a": ACCOUNT, "e": REGION, "q": "gone", "c": "local"}
    cell.put(f"X|{ACCOUNT}", be64(T0_US + 39 * S) + GONE.encode(), x=T0_US // S + 262_800, **named)
    cell.ledger_mark()
    cell.ledger(M0, "gone", GONE, 8)
    cell.ledger(M0, "gone", ORDERS, 2)
    write_export(tmp_path / "exports", cell.lines(), END_US)
    write_records(tmp_path / "usage", [record(SERVER, 1, "gone", "DeleteMessage", 2)])
    report = run(session, tmp_path)
    assert not report["findings"]
    assert fates(report, GONE) == {"sent": 8, "deleted": 2, "gone_with_queue": 6}


def plant(before: Cell, cell: Cell) -> bytes:
    """Plant everything in the cell, as it was before and is now; the block of a stray copy."""
    # Vanished, after an export had seen it.
    before.segment(ORDERS, block(20), 0, 2, T0_US + 11 * S)
    # Vanished before any export: the ledger alone has it.
    for each in (before, cell):
        each.ledger(M0 + 1, "orders", ORDERS, 2)
        each.ledger(M0 + 2, "orders", ORDERS, 1, kind=b"s")
    cell.segment(ORDERS, block(21), 0, 1, T0_US + 2 * MINUTE_US)
    # Nobody sent it.
    cell.segment(ORDERS, block(22), 0, 1, T0_US + 2 * MINUTE_US + S)
    # The same message under two keys; the ledger has it once.
    cell.segment(PURGED, block(4), 2, 1, T0_US + 31 * S)
    # A message that was removed as if it had been deleted.
    its_time = {"t": T0_US + MINUTE_US, "s": T0_US + MINUTE_US, "u": 1, "y": 10}
    cell.trace(ORDERS, T0_US + 70 * S, block(23), "n", i=5, n=1, **its_time)
    # A delete of what never was, and one that came again after its block was gone.
    cell.done(SHORT, block(99), {17})
    cell.done(ORDERS, block(2), {1})
    # Half a move each way.
    cell.segment(ORDERS, block(24), 0, 1, T0_US + 3 * MINUTE_US)
    cell.done(ORDERS, block(24), {0}, gd={0})
    cell.ledger(M0 + 3, "orders", ORDERS, 1)
    stray = bytes.fromhex(moved_block(ORDERS, "00|0", block(77).hex()))
    cell.segment(DEAD, stray, 9, 1, T0_US + 15 * S)
    cell.slot(FDEAD, 8, 7, 1, 1, T0_US + 51 * S, j=1)
    cell.put(f"E|{DEAD}|00|0", bytes(8) + b"?", k="u", c="x", b=b"?")
    cell.segment("e" * 16, block(30), 0, 1, T0_US)
    # An item that is written once, and changed; a message that is there and was removed; a delete
    # that an earlier export has, and no later one.
    before.segment(ORDERS, block(40), 0, 2, T0_US + 4 * MINUTE_US)
    cell.segment(ORDERS, block(40), 0, 1, T0_US + 4 * MINUTE_US)
    cell.ledger(M0 + 4, "orders", ORDERS, 1)
    cell.segment(ORDERS, block(41), 0, 1, T0_US + 5 * MINUTE_US)
    cell.ledger(M0 + 5, "orders", ORDERS, 1)
    its_time = {"t": T0_US + 5 * MINUTE_US, "s": T0_US + 5 * MINUTE_US, "u": 1, "y": 10}
    cell.trace(ORDERS, T0_US + 6 * MINUTE_US, block(41), "n", i=0, n=1, **its_time)
    cell.trace(ORDERS, T0_US + 6 * MINUTE_US, block(41), "n", d={0})
    before.done(ORDERS, block(1), {0, 1, 2})
    return stray


def test_each_planted_difference_is_named(session: SparkSession, tmp_path: Path) -> None:
    before, cell = whole_cell(), whole_cell()
    stray = plant(before, cell)
    write_export(tmp_path / "exports", before.lines(), T0_US + 30 * MINUTE_US)
    write_export(tmp_path / "exports", cell.lines(), END_US)
    refused = write_export(tmp_path / "exports", cell.lines(), END_US + S)
    refused.write_bytes(refused.read_bytes()[:-9] + b"\0" + refused.read_bytes()[-8:])
    usage = [
        *LEDGER_RECORDS[1:],
        # One more delete than messages that were deleted: somebody did it twice.
        record(SERVER, 1, "orders", "DeleteMessage", 8),
    ]
    write_records(tmp_path / "usage", usage)
    report = run(session, tmp_path)
    found = named(report)

    def message(number: int, index: int) -> str:
        return f"block {block(number).hex()} index {index}"

    assert ("lost", "orders", message(20, 0), 1) in found
    assert ("lost", "orders", message(20, 1), 1) in found
    assert ("lost", "orders", message(23, 5), 1) in found
    assert ("sent_and_not_seen", "orders", "", 1) in found
    assert ("not_sent", "orders", "", 1) in found
    assert ("not_sent_candidate", "orders", message(22, 0), 1) in found
    assert ("stored_twice", "purged", message(4, 2), 1) in found
    assert ("deleted_and_never_seen", "short", message(99, 17), 1) in found
    assert ("deleted_again", "orders", message(2, 1), 1) in found
    assert ("copy_missing", "orders", message(24, 0), 1) in found
    assert ("copy_without_source", "dead", f"block {stray.hex()} index 9", 1) in found
    assert ("copy_without_source", "", "", 1) in found
    assert ("removed_unread", DEAD, "", 1) in found
    assert ("changed", "orders", message(40, 0), 1) in found
    assert ("removed_and_stored", "orders", message(41, 0), 1) in found
    assert ("deletion_forgotten", "orders", message(1, 2), 1) in found
    assert ("queue_unknown", "e" * 16, message(30, 0), 1) in found
    assert ("ledger_gap", "", "", 1) in found
    assert ("deletes_repeated", "orders", "", 1) in found
    (not_read,) = [its for its in report["findings"] if its["kind"] == "not_read"]
    assert "is not the file of the manifest" in not_read["detail"]
    assert fates(report, ORDERS)["lost"] == 3
    page = next((tmp_path / "out").rglob("report.html")).read_text()
    assert message(20, 0) in page


def test_a_bit_of_what_is_written_once_is_named_with_queue_and_time(
    session: SparkSession, tmp_path: Path
) -> None:
    """Of a live segment, a slot and a trace; what a purge has emptied is as it should be."""
    looks = [Cell(), Cell()]
    moved = bytes.fromhex(moved_block(ORDERS, "00|0", block(9).hex()))
    for bit, cell in enumerate(looks):
        cell.queue("orders", ORDERS)
        cell.queue("fifo.fifo", FIFO, FifoQueue="true")
        cell.queue("purged", PURGED, purged_us=T0_US + 20 * S)
        cell.segment(ORDERS, block(1), 0, 2, T0_US + 1 * S, e=0, z=b"same")
        sealed: dict[str, Any] = {"e": 16, "z": bytes((97 ^ bit,)), "a": FIRST_ID + bytes(16)}
        cell.segment(ORDERS, block(1), 2, 2, T0_US + 2 * S, **sealed)
        cell.slot(FIFO, 100, 100, 0, 1, T0_US + 4 * S, e=0, z=b"same", c=bytes((bit,)))
        of_block = {"t": T0_US + 5 * S, "s": T0_US + 5 * S, "u": T0_US // S + 3600 + bit, "y": 1}
        cell.trace(ORDERS, T0_US + 9 * S, block(3), "n", i=0, n=1, **of_block)
        cell.trace(ORDERS, T0_US + 9 * S, block(3), "n", d={0})
        # A copy that a move has brought: a purge takes its messages and leaves the rest.
        full: dict[str, Any] = {} if bit else {"e": 0, "z": b"full"}
        for uid in (ORDERS, PURGED):
            cell.segment(uid, moved, 0, 1, T0_US + 6 * S, v=2, l=T0_US, **full)
        write_export(tmp_path / "exports", cell.lines(), T0_US + (bit + 1) * MINUTE_US)
    report = run(session, tmp_path)
    its = [found for found in report["findings"] if found["kind"] == "changed"]
    t0 = "2026-11-06 21:20:0"
    assert {(found["queue"], found["message"], found["sent"]) for found in its} == {
        ("orders", f"block {block(1).hex()} index 2 id {FIRST_ID.hex()}", f"{t0}2"),
        ("orders", f"block {block(3).hex()} index 0", f"{t0}5"),
        ("orders", f"block {moved.hex()} index 0", f"{t0}6"),
        ("fifo.fifo", f"block {log_block(100).hex()} index 0 id {SLOT_ID.hex()}", f"{t0}4"),
    }
    page = next((tmp_path / "out").rglob("report.html")).read_text()
    assert f"{t0}2</td>" in page


def test_a_time_to_live_that_fell_or_rose_unasked_is_named(
    session: SparkSession, tmp_path: Path
) -> None:
    """What is stored lives longer after its queue's retention was raised, and never shorter."""
    looks = [Cell(), Cell()]
    expires_s = T0_US // S + 345_600
    for bit, cell in enumerate(looks):
        cell.queue("orders", ORDERS)
        cell.queue("raised", SHORT)
        for name, modified_s in (("orders", T0_US // S - 3600), ("raised", T0_US // S + 90)):
            cell.items[f"Q|{ACCOUNT}|{REGION}", name.encode()]["m"] = modified_s
        for uid in (ORDERS, SHORT):
            for number, change_s in enumerate((0, -1, 4), start=1):
                expiry = {"x": expires_s + bit * change_s}
                cell.segment(uid, block(number), 0, 1, T0_US + number * S, **expiry)
        write_export(tmp_path / "exports", cell.lines(), T0_US + (bit + 1) * MINUTE_US)
    place = FolderPlace(tmp_path / "exports")
    seen = observations(session, place, find_exports(place)[0]).localCheckpoint()
    its = by_item(evidence.changed(seen), evidence.definitions(seen)).collect()
    assert sorted((each["queue"], each["message"]) for each in its) == [
        ("orders", f"block {block(1 + 1).hex()} index 0"),
        ("orders", f"block {block(1 + 2).hex()} index 0"),
        ("raised", f"block {block(1 + 1).hex()} index 0"),
    ]
    (fell,) = (each for each in its if each["queue"] == "raised")
    ended = "2026-11-10 21:20:00 UTC, and then at 2026-11-10 21:19:59 UTC"
    assert fell["detail"] == f"its time to live ended at {ended}"


def test_a_table_is_followed_through_incremental_exports(
    session: SparkSession, tmp_path: Path
) -> None:
    first = Cell()
    first.queue("orders", ORDERS)
    old = first.segment(ORDERS, block(1), 0, 2, T0_US)
    taken = first.segment(ORDERS, block(2), 0, 1, T0_US + S)
    first.segment(ORDERS, block(3), 0, 1, T0_US + 2 * S)
    late_us = T0_US + 6 * 24 * 60 * MINUTE_US
    second = Cell(dict(first.items))
    # The TTL took what was expired; somebody took what came later.
    del second.items[old]
    second.done(ORDERS, block(3), {0})
    second.segment(ORDERS, block(4), 0, 3, late_us - MINUTE_US)
    early = second.segment(ORDERS, block(5), 0, 1, late_us - MINUTE_US)
    third = Cell(dict(second.items))
    del third.items[early], third.items[taken]
    prefix = "audit/table"
    root = tmp_path / "exports"
    middle_us, end_us = late_us, late_us + 60 * MINUTE_US
    begun_us = T0_US + 10 * S
    write_export(root, first.lines(), begun_us, prefix=prefix)
    write_export(root, changes(first, second, middle_us), middle_us, begun_us, prefix=prefix)
    write_export(root, changes(second, third, end_us), end_us, middle_us, prefix=prefix)
    sends = record(SERVER, 1, "orders", "SendMessage", 7)
    write_records(tmp_path / "usage", [sends, record(SERVER, 2, "orders", "DeleteMessage", 1)])
    write_mark(tmp_path / "usage", SERVER, opened=M0, complete_to=M0 + 1, records=2)
    report = run(session, tmp_path)
    told = {"sent": 8, "deleted": 1, "expired": 3, "stored": 3, "lost": 1}
    assert fates(report, ORDERS) == told
    lost = ("lost", "orders", f"block {block(5).hex()} index 0", 1)
    assert named(report) == {lost, ("not_sent", "orders", "", 1)}
    assert not report["has_ledger"]
    # The same inputs give the same bytes: else what is there would be refused.
    assert run(session, tmp_path) == report


def purged_table() -> tuple[Cell, list[tuple[str, bytes]]]:
    """A table in which two queues were purged; and what dropping removes from it."""
    cell = Cell()
    cell.queue("purged", PURGED, purged_us=T0_US + 20 * S)
    cell.queue("fifo.fifo", FIFO, purged_us=T0_US + 20 * S, FifoQueue="true")
    gone = [
        cell.segment(PURGED, block(4), 0, 2, T0_US + 10 * S),
        cell.segment(PURGED, block(5), 0, 4, T0_US + 11 * S),
        cell.slot(FIFO, 100, 100, 0, 3, T0_US + 4 * S),
        (f"F|{FIFO}|00|0", log_block(100)),
    ]
    cell.segment(PURGED, block(6), 0, 1, T0_US + 30 * S)
    # Deleted before the purge; the states of a standard queue stay.
    cell.done(PURGED, block(4), {0}, x=1 << 40)
    cell.done(FIFO, log_block(100), {0}, x=1 << 40)
    cell.slot(FIFO, 200, 200, 0, 2, T0_US + 40 * S)
    return cell, gone


@pytest.mark.parametrize(
    "half",
    [pytest.param(0, marks=pytest.mark.nightly), 1, pytest.param(3, marks=pytest.mark.nightly)],
)
def test_what_is_dropped_from_a_table_after_a_purge_is_purged(
    session: SparkSession, tmp_path: Path, half: int
) -> None:
    """Exports before, while and after it is dropped."""
    looks = [purged_table()[0] for _ in range(3)]
    gone = purged_table()[1]
    for cell, keys in ((looks[1], gone[:half]), (looks[2], gone)):
        for key in keys:
            del cell.items[key]
    places = tmp_path / "exports"
    write_export(places, looks[0].lines(), T0_US + 60 * S)
    times = [T0_US + 60 * S, T0_US + 16 * MINUTE_US, T0_US + 32 * MINUTE_US]
    for number in (1, 2):
        lines = changes(looks[number - 1], looks[number], times[number] - S)
        write_export(places, lines, times[number], from_us=times[number - 1])
    report = run(session, tmp_path)
    errors = {its for its in named(report) if its[0] in ERRORS}
    assert not errors
    assert fates(report, PURGED) == {"sent": 7, "deleted": 1, "purged": 5, "stored": 1}
    assert fates(report, FIFO) == {"sent": 5, "deleted": 1, "purged": 2, "stored": 2}


@pytest.mark.parametrize(
    "half",
    [pytest.param(0, marks=pytest.mark.nightly), 1, pytest.param(2, marks=pytest.mark.nightly)],
)
def test_what_an_embedded_cell_drops_after_a_purge_is_purged(
    session: SparkSession, tmp_path: Path, half: int
) -> None:
    """Exports before, while and after it is dropped."""
    looks = [purged_table()[0] for _ in range(3)]
    of_block = {"u": T0_US // S + 3660, "y": 1}
    for cell, dropped in ((looks[1], half), (looks[2], 4)):
        for key in purged_table()[1][:dropped]:
            del cell.items[key]
        if dropped > 0:
            its = {"i": 0, "n": 2, "t": T0_US + 10 * S, "s": T0_US + 10 * S, **of_block}
            cell.trace(PURGED, T0_US + 50 * S, block(4), "p", **its)
        if dropped > 1:
            its = {"i": 0, "n": 4, "t": T0_US + 11 * S, "s": T0_US + 11 * S, **of_block}
            cell.trace(PURGED, T0_US + 51 * S, block(5), "p", **its)
    its = {"i": 0, "n": 3, "t": T0_US + 4 * S, "s": T0_US + 4 * S, **of_block}
    looks[2].trace(FIFO, T0_US + 52 * S, log_block(100), "p", **its)
    looks[2].trace(FIFO, T0_US + 53 * S, log_block(100), "p", d={0})
    del looks[2].items[f"S|{PURGED}|00|0", block(4)]
    looks[2].trace(PURGED, T0_US + 54 * S, block(4), "p", d={0})
    for number, cell in enumerate(looks):
        write_export(tmp_path / "exports", cell.lines(), T0_US + (number + 1) * MINUTE_US)
    report = run(session, tmp_path)
    assert not {its for its in named(report) if its[0] in ERRORS}
    assert fates(report, PURGED) == {"sent": 7, "deleted": 1, "purged": 5, "stored": 1}
    assert fates(report, FIFO) == {"sent": 5, "deleted": 1, "purged": 2, "stored": 2}


def test_exports_of_several_tables_are_not_mixed(tmp_path: Path) -> None:
    write_export(tmp_path / "exports", [], T0_US, table="arn:one")
    write_export(tmp_path / "exports", [], T0_US + S, table="arn:two")
    arguments = ["--exports", str(tmp_path / "exports"), "--out", str(tmp_path / "out")]
    assert audit.main(arguments) == 2


def test_usage_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_export(tmp_path / "exports", [], T0_US)
    arguments = [f"--{name}={tmp_path / name}" for name in ("exports", "usage", "out")]
    assert audit.main(arguments) == 2
    assert f"audit: usage: there is no folder {tmp_path / 'usage'}" in capsys.readouterr().err


def test_what_no_export_covers_is_told(tmp_path: Path) -> None:
    hour_us, day_us = 60 * MINUTE_US, 24 * 60 * MINUTE_US
    cell = whole_cell().lines()
    write_export(tmp_path, cell, T0_US)
    write_export(tmp_path, [], T0_US + hour_us, T0_US)
    write_export(tmp_path, [], T0_US + 3 * hour_us, T0_US + 2 * hour_us)
    # Nothing is known of a table between full exports, and nothing is missing: items stay.
    write_export(tmp_path, cell, T0_US + 9 * day_us)
    (tmp_path / "AWSDynamoDB/data/other.json.gz").write_bytes(b"?")
    exports, refused, strays = find_exports(FolderPlace(tmp_path))
    assert [its.is_full for its in exports] == [True, False, False, True]
    (gap,) = gaps_between(exports)
    assert gap.startswith(f"{exports[2].name} begins after {exports[1].name} ended")
    assert (refused, strays) == ([], ["AWSDynamoDB/data/other.json.gz"])


def test_traces_that_are_gone_are_told(tmp_path: Path) -> None:
    for days in (0, 3, 7):
        at_us = T0_US + days * 24 * 60 * MINUTE_US
        file = write_export(tmp_path, [], at_us, cell="local")
    exports, refused, strays = find_exports(FolderPlace(tmp_path))
    assert (refused, strays) == ([], [])
    (gap,) = gaps_between(exports)
    assert "is 4.0 days after" in gap
    # A manifest that was changed is not read.
    summary = file.parents[1] / "manifest-summary.json"
    summary.write_text(summary.read_text().replace('"version"', '"Version"'))
    exports, refused, strays = find_exports(FolderPlace(tmp_path))
    assert (len(exports), strays) == (2, [])
    assert "is not what its checksum says" in refused[0].reason

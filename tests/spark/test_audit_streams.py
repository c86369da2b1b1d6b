"""The audit of records of streams, and of queues over them, over cells made by hand."""

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs.evidence import moved_block
from tests.spark.cells import ACCOUNT, REGION, T0_US, Cell, Value, be64, changes, write_export
from tests.spark.test_audit import fates, named, record, run
from tests.spark.test_replicas import MEMBERS
from tests.spark.test_replicas import run as of_cells
from tests.spark.usage_places import write_mark, write_records

CLICKS, OVER, PLAIN, DEAD, FDEAD = ("a" * 16, "b" * 16, "c" * 16, "d" * 16, "e" * 16)
S = 1_000_000
HOUR_US = 3_600 * S
DAY_US = 24 * HOUR_US
SERVER = "bbbbbbbbbbbbbbbb"
STREAM = "stream/clicks"


def log_block(first: int) -> bytes:
    return be64(first)


def whole_cell(name: str = "clicks", uid: str = CLICKS) -> Cell:
    """A stream of two shards, of which one was split; the records of a day and an hour."""
    cell = Cell()
    cell.stream(name, uid)
    cell.records(uid, 0, 1, 3, T0_US + 1 * S)
    cell.records(uid, 0, 4, 500, T0_US + 2 * S)
    cell.records(uid, 0, 504, 1, T0_US + HOUR_US)
    cell.records(uid, 0, 505, 0, T0_US + HOUR_US + S)  # its end
    cell.records(uid, 1, 1, 2, T0_US + 3 * S)
    cell.records(uid, 2, 1, 7, T0_US + 2 * HOUR_US)
    cell.anchor(uid, 1, 3, T0_US + 3 * S)
    # Others' items that look alike.
    cell.put("N|AKIAAAAAAAAAAAAAAAAA", b"k", k="k")
    cell.put("A|", ACCOUNT.encode(), k="a")
    return cell


def later(cell: Cell) -> Cell:
    return copy.deepcopy(cell)


def audited(session: SparkSession, tmp_path: Path, *looks: tuple[Cell, int]) -> dict[str, Any]:
    for cell, at_us in looks:
        write_export(tmp_path / "exports", cell.lines(), at_us)
    return run(session, tmp_path)


def test_a_whole_stream_has_no_differences(session: SparkSession, tmp_path: Path) -> None:
    first = whole_cell()
    second = later(first)
    second.records(CLICKS, 2, 8, 4, T0_US + 5 * HOUR_US)
    third = later(second)
    # What is past its retention goes, and a shard that rested goes on behind its last record.
    for shard, offset in ((0, 1), (0, 4), (1, 1)):
        del third.items[f"N|{CLICKS}|{shard:08x}|0", be64(offset)]
    third.records(CLICKS, 1, 3, 1, T0_US + 25 * HOUR_US)
    write_records(
        tmp_path / "usage",
        [
            record(SERVER, 1, "clicks", "kinesis:PutRecords", 516),
            record(SERVER, 2, "clicks", "kinesis:PutRecord", 2),
            record(SERVER, 3, "clicks", "kinesis:GetRecords", 880),
            record(SERVER, 4, "clicks", "kinesis:GetRecords/long-term", 20),
        ],
    )
    report = audited(
        session,
        tmp_path,
        (first, T0_US + 3 * HOUR_US),
        (second, T0_US + 6 * HOUR_US),
        (third, T0_US + 26 * HOUR_US),
    )
    assert report["findings"] == []
    shards = {row["partition"]: row for row in report["conservation"] if row["uid"] == CLICKS}
    assert {row["queue"] for row in shards.values()} == {STREAM}
    told = [(shards[f"{n:08x}|0"][name]) for n in range(3) for name in ("sent", "expired")]
    assert told == [504, 504, 3, 2, 11, 7]
    (row,) = [row for row in report["queues"] if row["queue"] == STREAM]
    assert (row["sent"], row["received"], row["missing"]) == (518, 900, 0)
    assert "Every message that was sent is accounted for: 518 in 1 queue" in report["sentence"]


Plant = Callable[[Cell, str], None]


def _lose_the_first(cell: Cell, uid: str) -> None:
    del cell.items[f"N|{uid}|{0:08x}|0", be64(1)]


def _lose_one_in_the_middle(cell: Cell, uid: str) -> None:
    del cell.items[f"N|{uid}|{0:08x}|0", be64(4)]


def _lose_the_last(cell: Cell, uid: str) -> None:
    del cell.items[f"N|{uid}|{1:08x}|0", be64(1)]


def _store_one_twice_elsewhere(cell: Cell, uid: str) -> None:
    its = cell.items[f"N|{uid}|{1:08x}|0", be64(1)]
    cell.items[f"N|{uid}|{2:08x}|0", be64(8)] = its | {"t": T0_US + 2 * HOUR_US + S}


def _store_one_twice_beside(cell: Cell, uid: str) -> None:
    cell.records(uid, 0, 3, 1, T0_US + 1 * S + 1)


def _turn_the_time(cell: Cell, uid: str) -> None:
    cell.items[f"N|{uid}|{0:08x}|0", be64(504)]["t"] = T0_US + S + 1


def _go_on_behind_the_end(cell: Cell, uid: str) -> None:
    cell.records(uid, 0, 506, 2, T0_US + 2 * HOUR_US)


PLANTED: list[tuple[Plant, tuple[str, str, int]]] = [
    (_lose_the_first, ("offsets_missing", "offset 4", 3)),
    (_lose_one_in_the_middle, ("offsets_missing", "offset 504", 500)),
    (_lose_the_last, ("offsets_missing", "", 2)),
    (_store_one_twice_elsewhere, ("stored_twice", "offset 8", 2)),
    (_store_one_twice_beside, ("stored_twice", "offset 3", 1)),
    (_turn_the_time, ("changed", "offset 504", 1)),
    (_go_on_behind_the_end, ("changed", "offset 506", 2)),
]


def test_what_is_wrong_before_any_export_is_named(session: SparkSession, tmp_path: Path) -> None:
    """Each in a stream of its own, which has nothing else."""
    cell, expected = Cell(), set()
    for number, (plant, (kind, message, count)) in enumerate(PLANTED):
        uid, name = f"{number:016}", f"stream-{number}"
        of_one = whole_cell(name, uid)
        plant(of_one, uid)
        cell.items |= of_one.items
        expected.add((kind, f"stream/{name}", message, count))
    found = named(audited(session, tmp_path, (cell, T0_US + 3 * HOUR_US)))
    # What lies elsewhere, and beside, is out of order, too.
    also = {
        ("changed", 4, "offset 4"),
        ("changed", 6, "offset 506"),
        ("offsets_missing", 6, "offset 506"),
    }
    beside = {(kind, f"stream/stream-{number}", at) for kind, number, at in also}
    assert expected <= found
    assert {its for its in found - expected if its[:3] not in beside} == set()


def test_a_record_that_vanishes_before_its_time_is_lost(
    session: SparkSession, tmp_path: Path
) -> None:
    first = whole_cell()
    second = later(first)
    del second.items[f"N|{CLICKS}|{0:08x}|0", be64(504)]  # its time is not over
    del second.items[f"N|{CLICKS}|{0:08x}|0", be64(4)]  # its is
    slot = second.items[f"N|{CLICKS}|{2:08x}|0", be64(1)]
    slot["y"] = 12
    report = audited(
        session, tmp_path, (first, T0_US + 3 * HOUR_US), (second, T0_US + 24 * HOUR_US + 3 * S)
    )
    assert named(report) == {
        ("lost", STREAM, "offset 504", 1),
        ("changed", STREAM, "offset 1", 1),
    }
    assert report["sentence"].startswith("Not everything is as it should be: 1 message is missing")


def test_how_long_a_record_is_to_be_there_is_what_its_stream_says(
    session: SparkSession, tmp_path: Path
) -> None:
    """Of a raised retention what goes after a day is lost, of a lowered one it is not."""
    looks = [Cell(), Cell(), Cell()]
    for number, hours in enumerate(((24, 48, 48), (48, 48, 24), (48, 24, 48))):
        uid, name = f"{number:016}", f"stream-{number}"
        for cell, at in zip(looks, hours, strict=True):
            cell.items |= whole_cell(name, uid).items
            cell.stream(name, uid, hours=at)
        del looks[2].items[f"N|{uid}|{2:08x}|0", be64(1)]
    moments = (T0_US + 3 * HOUR_US, T0_US + 4 * HOUR_US, T0_US + 30 * HOUR_US)
    report = audited(session, tmp_path, *zip(looks, moments, strict=True))
    assert named(report) == {("lost", "stream/stream-0", "offset 1", 7)}


def test_what_went_by_a_lower_retention_is_not_missed_when_it_is_raised(
    session: SparkSession, tmp_path: Path
) -> None:
    cell = Cell()
    cell.stream("clicks", CLICKS, hours=24)
    # What lay before it was a day old when the first export was made; the anchor knows of more.
    cell.records(CLICKS, 0, 7, 2, T0_US + 50 * HOUR_US)
    cell.anchor(CLICKS, 1, 4, T0_US + 27 * HOUR_US)
    raised = later(cell)
    raised.stream("clicks", CLICKS, hours=72)
    report = audited(
        session,
        tmp_path,
        (cell, T0_US + 51 * HOUR_US + HOUR_US // 2),
        (raised, T0_US + 53 * HOUR_US),
    )
    assert report["findings"] == []


def test_what_had_expired_before_its_retention_was_raised_is_not_lost(
    session: SparkSession, tmp_path: Path
) -> None:
    """By incremental exports, which tell of a definition only when it is changed."""
    looks = [Cell() for _ in range(4)]
    for cell, hours in zip(looks, (24, 24, 24, 48), strict=True):
        cell.stream("clicks", CLICKS, hours=hours)
    looks[1].records(CLICKS, 0, 1, 3, T0_US + 3 * HOUR_US)
    moments = [T0_US + hours * HOUR_US for hours in (2, 4, 28, 30)]
    write_export(tmp_path / "exports", looks[0].lines(), moments[0])
    for (before, after), (from_us, at_us) in zip(pairwise(looks), pairwise(moments), strict=True):
        write_export(tmp_path / "exports", changes(before, after, at_us), at_us, from_us)
    report = run(session, tmp_path)
    assert report["findings"] == []
    assert fates(report, CLICKS) == {"sent": 3, "expired": 3}


def test_a_stream_that_was_deleted_before_the_first_export_loses_nothing(
    session: SparkSession, tmp_path: Path
) -> None:
    """Its records are there until the sweep comes, and it is known by what that goes by."""
    first, second = whole_cell(), Cell()
    del first.items[f"A|{ACCOUNT}|{REGION}", b"clicks"]
    named_by = be64(T0_US + 3 * HOUR_US - S) + CLICKS.encode()
    first.put("X|", named_by, a=ACCOUNT, e=REGION, q="clicks", c="a", s="[0,1,2]")
    report = audited(session, tmp_path, (first, T0_US + 3 * HOUR_US), (second, T0_US + 4 * HOUR_US))
    assert report["findings"] == []
    assert {row["queue"] for row in report["conservation"]} == {STREAM}
    assert sum(row["gone_with_queue"] for row in report["conservation"]) == 513


def test_a_stream_that_was_deleted_loses_nothing(session: SparkSession, tmp_path: Path) -> None:
    first, second = whole_cell(), Cell()
    write_export(tmp_path / "exports", first.lines(), T0_US + 3 * HOUR_US)
    at_us = T0_US + 4 * HOUR_US
    lines = changes(first, second, at_us)
    write_export(tmp_path / "exports", lines, at_us, from_us=T0_US + 3 * HOUR_US)
    report = run(session, tmp_path)
    assert report["findings"] == []
    assert sum(row["gone_with_queue"] for row in report["conservation"]) == 513


def test_what_a_rest_has_skipped_is_a_note(session: SparkSession, tmp_path: Path) -> None:
    cell = Cell()
    cell.stream("clicks", CLICKS, hours=72)
    cell.records(CLICKS, 0, 1, 3, T0_US + S)
    cell.records(CLICKS, 0, 4 + (1 << 32), 2, T0_US + 30 * HOUR_US)
    report = audited(session, tmp_path, (cell, T0_US + 31 * HOUR_US))
    assert {its["kind"]: its["severity"] for its in report["findings"]} == {
        "offsets_skipped": "note"
    }


def test_more_records_than_were_put_are_told(session: SparkSession, tmp_path: Path) -> None:
    puts = [record(SERVER, 1, "clicks", "kinesis:PutRecords", 512)]
    write_records(tmp_path / "usage", puts)
    write_mark(tmp_path / "usage", SERVER, records=1, closed=True)
    report = audited(session, tmp_path, (whole_cell(), T0_US + 3 * HOUR_US))
    assert ("not_sent", STREAM, "", 1) in named(report)


def queues_cell() -> Cell:
    """Queues over the stream: a FIFO queue from the beginning, a standard one from later on."""
    cell = whole_cell()
    reading: dict[str, Value] = {"v": 3, "n": CLICKS}
    for name, uid, began_us in (("over.fifo", OVER, 0), ("plain", PLAIN, T0_US + 1 * S)):
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        cell.queue(name, uid, began_us, **fifo)
        cell.items[f"Q|{ACCOUNT}|{REGION}", name.encode()] |= reading
    cell.queue("dead", DEAD)
    cell.queue("fdead.fifo", FDEAD, FifoQueue="true")
    state = {"x": T0_US // S + 21 * 86_400}
    cell.put(f"F|{OVER}|{0:08x}|0", log_block(1), d={0, 2, 63}, gd={2}, **state)
    cell.put(f"F|{OVER}|{0:08x}|0", log_block(449), d={55}, **state)
    cell.slot(FDEAD, 1, 1, 0, 1, T0_US + 9 * S, j=1)
    cell.put(f"F|{PLAIN}|{2:08x}|0", log_block(1), d={0, 6}, gd={6}, **state)
    copied = bytes.fromhex(moved_block(PLAIN, "02|0", log_block(1).hex()))
    cell.segment(DEAD, copied, 6, 1, T0_US + 3 * HOUR_US - S, v=2, l=T0_US + 2 * HOUR_US)
    return cell


def test_queues_over_streams_have_its_records(session: SparkSession, tmp_path: Path) -> None:
    cell = queues_cell()
    cell.ledger_mark()
    report = audited(session, tmp_path, (cell, T0_US + 3 * HOUR_US))
    assert [its["kind"] for its in report["findings"]] == ["no_usage"]
    rows = [row for row in report["conservation"] if row["queue"] == "over.fifo"]
    told = {row["partition"]: (row["sent"], row["deleted"], row["dead_lettered"]) for row in rows}
    assert told == {
        f"{0:08x}|0": (504, 3, 1),
        f"{1:08x}|0": (2, 0, 0),
        f"{2:08x}|0": (7, 0, 0),
    }
    rows = [row for row in report["conservation"] if row["queue"] == "plain"]
    told = {row["partition"]: (row["sent"], row["deleted"], row["dead_lettered"]) for row in rows}
    assert told[f"{0:08x}|0"] == (501, 0, 0)  # what was put before the queue began is not its
    assert told[f"{2:08x}|0"] == (7, 1, 1)
    assert fates(report, DEAD) == {"sent": 1, "came_by_move": 1, "stored": 1}


def test_half_a_move_from_a_queue_over_a_stream_is_named(
    session: SparkSession, tmp_path: Path
) -> None:
    cell = queues_cell()
    cell.ledger_mark()
    for partition, sort in list(cell.items):
        if partition.startswith((f"B|{DEAD}", f"G|{FDEAD}")):
            del cell.items[partition, sort]
    # And one that is done which no record ever was.
    cell.put(f"F|{OVER}|{1:08x}|0", log_block(1), d={0, 5}, x=T0_US // S + 21 * 86_400)
    report = audited(session, tmp_path, (cell, T0_US + 3 * HOUR_US))
    kinds = {kind for kind, *_ in named(report)}
    assert kinds == {"copy_missing", "deleted_and_never_seen", "no_usage"}
    missing = {(kind, queue) for kind, queue, *_ in named(report)}
    assert ("copy_missing", "plain") in missing
    assert ("deleted_and_never_seen", "over.fifo") in missing


def copies() -> dict[str, Cell]:
    """A stream in three cells, of which one has joined anew, and a standard queue over it."""
    cells = {}
    for name, incarnation, _full in MEMBERS:
        cell = Cell()
        cell.stream("clicks", CLICKS)
        cell.items[f"A|{ACCOUNT}|{REGION}", b"clicks"]["c"] = "g3.00"
        cell.queue("plain", PLAIN)
        cell.items[f"Q|{ACCOUNT}|{REGION}", b"plain"] |= {"v": 3, "n": CLICKS, "c": "g3.00"}
        cell.put("P|", b"g3.00", m=json.dumps(MEMBERS), e=4, s=T0_US, f=3)
        cell.records(CLICKS, 0, 1, 3, T0_US + 1 * S, R=1, E=incarnation)
        cell.records(CLICKS, 0, 4, 2, T0_US + 2 * S, R=1, E=incarnation)
        cell.put(f"F|{PLAIN}|{0:08x}|0", log_block(1), d={1}, x=T0_US // S + 21 * 86_400, R=1)
        if incarnation:
            its = {(f"{key[0]}@{incarnation}", key[1]): item for key, item in cell.items.items()}
            cell = Cell(its)
            cell.records(CLICKS, 0, 1, 9, T0_US)  # of before it joined anew
        cell.put("M|cells", b"\0", m=json.dumps(MEMBERS), e=2, s=T0_US, n=name, c="{}")
        cells[name] = cell
    return cells


def test_records_of_a_stream_in_several_cells_count_once(
    session: SparkSession, tmp_path: Path
) -> None:
    report = of_cells(session, tmp_path, copies())
    assert report["findings"] == []
    told = {row["queue"]: (row["sent"], row["deleted"]) for row in report["conservation"]}
    assert told == {STREAM: (5, 0), "plain": (5, 1)}


def test_a_copy_does_not_lack_what_went_before_the_retention_was_raised(
    session: SparkSession, tmp_path: Path
) -> None:
    first, second = copies(), copies()
    for cells, hours in ((first, 1), (second, 100)):
        for cell in cells.values():
            for (_, sort), item in cell.items.items():
                if sort == b"clicks":
                    item["h"] = hours
    del second["cell-1"].items[f"N|{CLICKS}|{0:08x}|0", be64(1)]
    report = of_cells(session, tmp_path, first, second)
    assert "copy_lacks" not in {kind for kind, *_ in named(report)}


@pytest.mark.parametrize("at", [pytest.param("cell-2", marks=pytest.mark.nightly), "cell-3"])
def test_copies_of_a_stream_are_compared(session: SparkSession, tmp_path: Path, at: str) -> None:
    cells = copies()
    incarnation = dict(name[:2] for name in MEMBERS)[at]
    log = f"N|{CLICKS}|{0:08x}|0" + (f"@{incarnation}" if incarnation else "")
    del cells[at].items[log, be64(1)]
    cells[at].items[log, be64(4)]["y"] = 7
    found = named(of_cells(session, tmp_path, cells))
    planted = {("copy_lacks", STREAM, "offset 1", 3), ("copies_differ", STREAM, "offset 4", 1)}
    # The last member is the one that counts.
    gap = {("offsets_missing", STREAM, "offset 4", 3)} if at == "cell-3" else set()
    assert found >= planted | gap

"""Marks are held to the register of writers, which lies with the queues."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.exports import find_exports
from glue_jobs.identities import PUT_ASIDE, Run, Window
from glue_jobs.inputs import Inputs
from glue_jobs.places import FolderPlace
from glue_jobs.records import Mark, minute_writer
from glue_jobs.register import (
    NONE,
    Entry,
    Register,
    against_register,
    forged_of,
    read_register,
)
from glue_jobs.screening import Screened
from glue_jobs.sealed_hours import Hour
from glue_jobs.writers import refuse
from tests.spark.cells import MINUTE_US, Cell, changes, write_export
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.test_bill import bill

A, B, C = "a" * 16, "b" * 16, "c" * 16
WINDOW = Window(MINUTE, MINUTE + 30 * 1440)
MARK = Mark(A, MINUTE + 10, "", MINUTE + 20, 5, closed=True)
REGISTER = Register((Entry(A, MINUTE + 10, 5),), MINUTE, MINUTE + 1440)
FORGED = f"writer {B} has a mark, and was never registered"
GONE = f"writer {A} was registered and is gone: 5 records"


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        ([MARK], []),
        ([], [(A, GONE)]),
        ([MARK, replace(MARK, writer=B)], [(B, FORGED)]),
        ([MARK, replace(MARK, writer=B, kind="function")], [(B, FORGED)]),
        ([MARK, replace(MARK, writer=B, kind="ledger")], []),
        # Of before the register, and too new for the export.
        ([MARK, replace(MARK, writer=B, opened=MINUTE - 1)], []),
        ([MARK, replace(MARK, writer=B, opened=MINUTE + 1400)], []),
    ],
)
def test_a_mark_has_an_entry_and_an_entry_a_mark(
    marks: list[Mark], told: list[tuple[str, str]]
) -> None:
    of = {mark.writer: mark for mark in marks}
    assert against_register(REGISTER, of, {B}, WINDOW) == told
    assert against_register(NONE, of, {B}, WINDOW) == []


def entered(cell: Cell, writer: str, opened: int, **its: int) -> None:
    cell.put("M|writers", writer.encode(), k="server", o=opened, a="", **its)


def read(session: SparkSession, exports: Path) -> Register:
    place = FolderPlace(exports)
    return read_register(session, place, find_exports(place)[0], WINDOW)


def test_the_register_is_as_of_the_last_export(session: SparkSession, tmp_path: Path) -> None:
    first, at_us = Cell(), (MINUTE + 100) * MINUTE_US
    write_export(tmp_path, first.lines(), at_us)
    assert read(session, tmp_path) == NONE
    entered(first, A, MINUTE + 10)
    entered(first, C, MINUTE + 30 * 1440)  # of the next month
    write_export(tmp_path, first.lines(), at_us + 60 * MINUTE_US)
    assert read(session, tmp_path).entries == (Entry(A, MINUTE + 10, -1),)
    second = Cell(dict(first.items))
    entered(second, A, MINUTE + 10, e=1, n=7, m=7)
    entered(second, B, MINUTE + 150)
    lines = changes(first, second, at_us + 120 * MINUTE_US)
    write_export(tmp_path, lines, at_us + 120 * MINUTE_US, at_us + 60 * MINUTE_US)
    its = read(session, tmp_path)
    assert its.entries == (Entry(A, MINUTE + 10, 7), Entry(B, MINUTE + 150, -1))
    assert (its.from_minute, its.to_minute) == (MINUTE + 10, MINUTE + 220)


@pytest.mark.nightly
def test_who_removes_a_writer_and_forges_another_is_told(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, exports, cell = *(tmp_path / its for its in ("usage", "bills", "exports")), Cell()
    entered(cell, A, MINUTE, e=1, n=5, m=5)
    write_export(exports, cell.lines(), (MINUTE + 1440) * MINUTE_US)
    put_records(place, [record(writer=B)])
    put_mark(place, B)
    findings = bill(session, place, out, exports=str(exports), accept=()).findings
    assert [line for line in findings if line.startswith("not as registered: ")] == [
        f"not as registered: {GONE}",
        f"not as registered: {FORGED}",
    ]
    with pytest.raises(JobError, match=FORGED):
        bill(session, place, out, exports=str(exports), accept=(A,), close=True)
    assert bill(session, place, out, accept=(A, B), close=True, exports=str(exports)).invoices
    assert PERIOD in next((out / "runs").rglob("*.json")).as_posix()


def test_a_forged_mark_vouches_for_nothing_and_nothing_is_missing_by_it() -> None:
    desk, of_desk = "0123456789ab", minute_writer("0123456789ab", MINUTE + 9)
    forged = replace(MARK, writer=B, after=C, desks=desk, records=900, closed=False)
    runs = sorted(Run(one, 1, 1, MINUTE + 9, MINUTE + 9) for one in (A, B, C, of_desk))
    its = Screened("file", 1, rows=4, runs=tuple(runs))
    marks = {A: replace(MARK, opened=MINUTE, complete_to=MINUTE + 9, records=1), B: forged}
    told = [(B, FORGED), (C, GONE)]
    found = forged_of(told, marks, ())
    assert found == {B: FORGED}
    inputs = Inputs(PERIOD, [], marks, [], 0, forged=frozenset(found))
    ((left,), refused) = refuse([its], inputs.real_marks, (), found)
    assert [run.writer for run in left.runs] == [A]
    assert [(one.writer, one.why) for one in sorted(refused)] == [
        (of_desk, f"unknown: writer {of_desk} has records and no mark"),
        (B, FORGED),
        (C, f"unknown: writer {C} has records and no mark"),
    ]
    hour = Hour("date=2026-11-01/hour=00", MINUTE // 60, runs=left.runs)
    gaps = replace(inputs, hours=[hour], refused=refused).gaps({})
    assert {(gap.writer, gap.state) for gap in gaps} == {
        (one, PUT_ASIDE) for one in (B, C, of_desk)
    }
    assert forged_of(told, marks, (B,)) == {}


@pytest.mark.nightly
def test_what_a_forged_mark_vouches_for_is_billed_neither_while_a_month_is_open_nor_later(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, exports, cell = *(tmp_path / its for its in ("usage", "bills", "exports")), Cell()
    entered(cell, A, MINUTE, e=1, n=1, m=1)
    write_export(exports, cell.lines(), (MINUTE + 1440) * MINUTE_US)
    put_records(place, [record(writer=A, units=4_000_000)])
    put_mark(place, A)
    given: dict[str, Any] = {"exports": str(exports), "accept": ()}
    honest = bill(session, place, out, **given)
    put_mark(place, B)
    forged = put_records(place, [record(writer=B, units=10**9)])
    found = bill(session, place, out, **given)
    assert [its.payable for its in found.invoices] == [its.payable for its in honest.invoices]
    new = set(found.findings) - set(honest.findings)
    name = forged[0].relative_to(place)
    assert new == {f"put aside: {name}: {FORGED}", f"not as registered: {FORGED}"}
    assert bill(session, place, out, **given) == found
    for path in (*forged, *place.rglob(f"{B}.json")):
        path.rename(tmp_path / path.name)
    closed = bill(session, place, out, close=True, **given)
    assert [its.payable for its in closed.invoices] == [its.payable for its in honest.invoices]
    (tmp_path / forged[0].name).rename(forged[0])
    put_mark(place, B)
    put_records(place, [record(writer=A, number=2, minute=MINUTE + 31 * 1440)])
    put_mark(place, A, records=2, complete_to=MINUTE + 31 * 1440)
    later = bill(session, place, out, period="2026-12", **given)
    assert sum(its.payable for its in later.invoices) == 0

"""Records that cannot be their writers' are put aside with a reason and a gap, and never billed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.identities import PUT_ASIDE, Run, Window
from glue_jobs.outputs import pointer_of
from glue_jobs.places import FolderPlace
from glue_jobs.records import Mark, minute_writer
from glue_jobs.screening import Screened
from glue_jobs.writers import accepted_by, refuse, suspects, unknown_writers
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.statement_files import statement_at
from tests.spark.test_bill import TENANT, bill

A, B, C = "a" * 16, "b" * 16, "c" * 16
WEEK = 7 * 24 * 60
DESK = "0123456789ab"
MARK = Mark(A, MINUTE, "", MINUTE + 9, 5, closed=True)
UNKNOWN = f"unknown: writer {B} has records and no mark"
NOT_AT_WORK = f"writer {A} has records of a time in which it was not at work"


def file(*runs: Run, name: str = "file") -> Screened:
    return Screened(name, 1, rows=sum(run.last - run.first + 1 for run in runs), runs=runs)


@pytest.mark.parametrize(
    ("mark", "run", "why"),
    [
        (MARK, Run(A, 1, 5, MINUTE, MINUTE + 9), ""),
        (MARK, Run(A, 5, 6, MINUTE, MINUTE), f"writer {A} ended with record 5, and here is 6"),
        (replace(MARK, closed=False), Run(A, 5, 6, MINUTE, MINUTE), ""),
        (MARK, Run(A, 1, 1, MINUTE + 60, MINUTE + 69), ""),
        (MARK, Run(A, 1, 1, MINUTE + 70, MINUTE + 70), NOT_AT_WORK),
        (MARK, Run(A, 1, 1, MINUTE + WEEK, MINUTE + WEEK), NOT_AT_WORK),
        (MARK, Run(A, 1, 1, MINUTE - 61, MINUTE), NOT_AT_WORK),
        (replace(MARK, kind="function"), Run(A, 1, 1, MINUTE + 1440, MINUTE + 1440), ""),
        (replace(MARK, kind="function"), Run(A, 1, 1, MINUTE + 1501, MINUTE + 1501), NOT_AT_WORK),
        (replace(MARK, after=B), Run(B, 1, 1, MINUTE, MINUTE), ""),
        (replace(MARK, desks=DESK), Run(minute_writer(DESK, 7), 1, 1, 7, 7), ""),
        (MARK, Run(B, 1, 1, MINUTE, MINUTE), UNKNOWN),
    ],
)
def test_records_are_of_the_time_and_the_numbers_of_their_writer(
    mark: Mark, run: Run, why: str
) -> None:
    marks = {A: mark}
    unknown = unknown_writers([run], marks)
    ((its,), refused) = refuse([file(run)], marks)
    assert (its.reason, [one.why for one in refused]) == (why, [why] if why else [])
    assert refuse([file(run)], marks, [run.writer]) == ([file(run)], [])
    # Whoever is refused is suspected by the hour that the record is of.
    hour = run.from_minute // 60 * 60
    assert suspects([run], Window(hour, hour + 60), marks, unknown) >= (
        {run.writer} if why else set()
    )


def test_who_is_at_work_in_an_hour_is_no_suspect() -> None:
    run, hour = Run(A, 1, 5, MINUTE, MINUTE + 9), Window(MINUTE, MINUTE + 60)
    assert suspects([run], hour, {A: MARK}, []) == set()
    assert suspects([replace(run, last=6)], hour, {A: MARK}, []) == {A}
    assert suspects([run], Window(MINUTE + 120, MINUTE + 180), {A: MARK}, []) == {A}


def test_what_is_right_in_a_file_stays() -> None:
    right, wrong = Run(A, 1, 2, MINUTE, MINUTE), Run(B, 1, 4, MINUTE, MINUTE)
    ((its,), (refused,)) = refuse([file(right, wrong)], {A: MARK})
    assert (its.reason, its.without, its.runs, its.rows) == ("", (B,), (right,), 2)
    assert (refused.file, refused.runs) == ("file", (wrong,))


def test_what_a_run_counted_it_counts_when_it_is_looked_at_again() -> None:
    assert accepted_by({"accepted": [A], "refused": [], "unknown_writers": [B]}) == [A]
    assert accepted_by({"unknown_writers": [B]}) == [B]


def without_mark(place: Path, row: dict[str, Any]) -> None:
    put_records(place, [row])
    (place / "writers" / f"{row['writer']}.json").unlink()


@pytest.mark.nightly
def test_a_forged_writer_changes_no_bill_and_is_told_while_a_month_is_open(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, units=4_000_000)])
    put_mark(place, A)
    honest = bill(session, place, out, accept=())
    assert honest.findings == []
    without_mark(place, record(writer=B, minute=MINUTE + WEEK, units=10**9))
    put_records(place, [record(writer=C), record(writer=A, number=9, units=10**9)])
    forged = bill(session, place, out, accept=())
    assert [its.payable for its in forged.invoices] == [its.payable for its in honest.invoices]
    pointer = pointer_of(FolderPlace(out), PERIOD)
    assert pointer is not None
    ended = f"writer {A} ended with record 1, and here is 9"
    assert sorted(why for _, _, why in pointer.said["refused"]) == [UNKNOWN, ended]
    assert sum(UNKNOWN in line for line in forged.findings) == 1
    assert sum(ended in line for line in forged.findings) == 1
    assert {its["writer"] for its in pointer.said["gaps"] if its["state"] == PUT_ASIDE} == {A, B}
    assert pointer.said["unknown_writers"] == [B]
    with pytest.raises(JobError, match=UNKNOWN):
        bill(session, place, out, accept=(A,), close=True)
    accepted = bill(session, place, out, accept=(A, B), close=True)
    assert sum(its.payable for its in accepted.invoices) > 300


def test_a_mark_that_cannot_be_read_is_told_as_damaged(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, units=4_000_000)])
    put_records(place, [record(writer=B), record(writer=B, number=2, operation="TidegateGetUsage")])
    put_mark(place, B, records=2, opened=MINUTE + 9, complete_to=MINUTE + 12, after=A)
    (place / "writers" / f"{A}.json").write_text("{")
    damaged = f"its mark writers/{A}.json cannot be read"
    with pytest.raises(JobError, match=damaged):
        bill(session, place, out, accept=(), close=True)
    summary = bill(session, place, out, accept=())
    lost = [its for its in summary.findings if its.startswith("lost:")]
    assert lost
    assert all(its.endswith(damaged) for its in lost)
    assert any(
        its.startswith(f"bad mark: writers/{A}.json cannot be read") for its in summary.findings
    )
    # Of what costs nothing no unit is chargeable.
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert "4,000,001 chargeable units of 64 KiB" in page


@pytest.mark.nightly
def test_no_file_and_no_mark_keeps_a_month_from_being_billed(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, units=4_000_000)])
    put_mark(place, A)
    honest = bill(session, place, out).invoices
    put_records(place, [record(writer=C, units=2**62)])
    put_records(place, [record(writer=C, number=2, requests=1000)])
    put_records(place, [record(writer=C, number=3, schema="tidegate.usage/9")])
    (place / "writers" / f"{B}.json").write_text("[" * 100_000)
    put_mark(place, "d" * 16, opened=10**15)
    summary = bill(session, place, out, accept=())
    assert [its.payable for its in summary.invoices] == [its.payable for its in honest]
    said = "\n".join(summary.findings)
    for reason in (
        "its units add up to 2^53 or more",
        "a record has fewer units than requests",
        "records of schema tidegate.usage/9",
        f"bad mark: writers/{B}.json",
        "its opened is 1000000000000000",
        f"lost: writer {C}: records 1 to 3",
    ):
        assert reason in said

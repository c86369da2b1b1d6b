"""What keeps a month open, what is told by exit codes, and what becomes of altered outputs."""

import json
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import bill as job
from glue_jobs.arguments import JobError
from glue_jobs.bill import due
from glue_jobs.billing_options import Invoiced, Options, Summary
from glue_jobs.closing import check_closing, unknown_writers
from glue_jobs.findings import findings
from glue_jobs.identities import LOST, NOT_YET, PERHAPS, Gap, Run
from glue_jobs.inputs import Inputs
from glue_jobs.outputs import Pointer
from glue_jobs.records import Mark, minute_writer
from glue_jobs.screening import Screened
from glue_jobs.sealed_hours import Hour
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.statement_files import statement_at
from tests.spark.test_bill import NO_USAGE, TENANT, A, B, bill, bytes_of

DESK = "0123456789ab"


def pointer(period: str, *, closed: bool) -> Pointer:
    return Pointer(1, period, "0" * 16, closed, {})


def inputs(*writers: str) -> Inputs:
    """A file with a record of each, and the mark of the first, which has a desk."""
    runs = tuple(Run(writer, 1, 1, MINUTE, MINUTE) for writer in writers)
    mark = Mark(writers[0], MINUTE, "", MINUTE + 1, 1, closed=True, desks=f"{DESK} {DESK[::-1]}")
    return Inputs(
        PERIOD, [Hour("date=2026-11-01/hour=00", 0, runs=runs)], {mark.writer: mark}, [], 0
    )


def test_a_writer_is_known_by_its_mark_or_by_the_desk_whose_minute_it_is() -> None:
    its = minute_writer(DESK, MINUTE)
    assert unknown_writers(inputs(A, its)) == []
    of_another_minute = minute_writer(DESK, MINUTE + 1)
    assert unknown_writers(inputs(A, B, its, of_another_minute)) == sorted([B, of_another_minute])


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (Gap(A, 0, 0, MINUTE, MINUTE + 2), ""),
        (Gap(A, 2, 0, MINUTE, MINUTE + 9, PERHAPS), ""),
        (Gap(A, 0, 0, MINUTE, MINUTE + 3), f"lost: writer {A}: what it answered last"),
        (Gap(A, 7, 7, MINUTE, MINUTE), f"lost: writer {A}: record 7"),
        (Gap(A, 0, 0, MINUTE, -1, NOT_YET), f"not yet known: writer {A}"),
    ],
)
def test_gaps_above_the_stated_size_keep_a_month_open(gap: Gap, said: str) -> None:
    if not said:
        check_closing(inputs(A), [gap], [], accepted=(), gap_minutes=2)
        return
    with pytest.raises(JobError, match=said):
        check_closing(inputs(A), [gap], [], accepted=(B,), gap_minutes=2)
    check_closing(inputs(A), [gap], [], accepted=(A,), gap_minutes=2)


def test_of_very_many_doubts_the_first_are_said_and_all_can_be_accepted() -> None:
    gaps = [Gap(f"{number:016x}", 1, 1, MINUTE, MINUTE, LOST) for number in range(30)]
    with pytest.raises(JobError, match="and 11 more") as refused:
        check_closing(inputs(A), gaps, [(A, 3)], accepted=(), gap_minutes=2)
    names = str(refused.value).rpartition("--accept=")[2].split(",")
    check_closing(inputs(A), gaps, [(A, 3)], accepted=names, gap_minutes=2)


def test_a_name_with_commas_is_accepted_as_it_is_said() -> None:
    odd = "records/date=2026-11-01/hour=00/a, b=100%,%2C \n.txt"
    files = [Screened(odd, 1, reason="it is none"), Screened("plain", 1, reason="it is none")]
    its = Inputs(PERIOD, [], {}, [], 0, files)
    with pytest.raises(JobError, match="it is not closed") as refused:
        check_closing(its, [], [], accepted=(), gap_minutes=2)
    said = str(refused.value).rpartition("--accept=")[2]
    assert not set(said) & set(" \n'\"")
    arguments = {argument.name: argument.default or "" for argument in job.ARGUMENTS}
    given = {**arguments, "close": "yes", "accept": said, "kept_from": ""}
    options = Options.of(given)
    assert set(options.accept) == {odd, "plain"}
    check_closing(its, [], [], accepted=options.accept, gap_minutes=2)


def test_what_is_due_is_never_passed_over() -> None:
    assert due([], "2026-10") == "2026-10"
    assert due([pointer("2026-11", closed=False)], "2026-10") == "2026-10"
    assert due([pointer("2026-08", closed=False)], "2026-10") == "2026-08"
    behind = [pointer("2026-08", closed=True), pointer("2026-10", closed=False)]
    assert due(behind, "2026-10") == "2026-09"
    assert due([pointer("2026-10", closed=True)], "2026-10") == "2026-11"


def test_exit_codes_tell_success_findings_and_failure_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "usage").mkdir()
    found: list[str] = []

    class Run:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> Summary:
            if found == ["refused"]:
                raise JobError("period 2026-10: it is not closed, for usage of it is in doubt:")
            if found == ["broken"]:
                raise RuntimeError("nobody expected this")
            return Summary("run", [Invoiced(TENANT, Decimal(1), "page")], found)

    class Session:
        def stop(self) -> None:
            pass

    monkeypatch.setattr(job, "BillingRun", Run)
    monkeypatch.setattr(job, "open_session", lambda *_, **__: Session())
    monkeypatch.setattr(job, "told_by_spark", lambda *_: nullcontext())
    given = [f"--usage={tmp_path}/usage", f"--out={tmp_path}/bills", "--period=2026-10"]
    assert job.main(given) == 0
    found.append("lost: writer")
    assert job.main(given) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "lost: writer"
    found[:] = ["refused"]
    assert job.main(given) == 2
    found[:] = ["broken"]
    assert job.main(given) == 2
    assert "RuntimeError: nobody expected this" in capsys.readouterr().err
    assert [job.exit_code(code) for code in (0, 1, 2)] == [0, 1, 2]
    monkeypatch.setattr(job, "find_spec", lambda _: "Glue's own")
    assert [job.exit_code(code) for code in (0, 1, 2)] == [0, 0, 2]


@pytest.mark.nightly
def test_a_month_in_doubt_is_closed_only_by_name(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, number=n) for n in (1, 3)])
    put_records(place, [record(writer=B, units=2**62)])
    put_records(place, [record(writer="d" * 16)])
    (place / "writers" / f"{'d' * 16}.json").unlink()
    put_mark(place, A, records=3)
    with pytest.raises(JobError, match="it is not closed") as refused:
        bill(session, place, out, close=True, accept=())
    said = str(refused.value)
    assert "its units add up to 2^53 or more" in said
    assert f"lost: writer {A}: record 2" in said
    assert f"unknown: writer {'d' * 16} has records and no mark" in said
    assert {its.relative_to(out).parts[0] for its in out.rglob("*")} == {"hours"}
    names = tuple(said.rpartition("--accept=")[2].split(","))
    with pytest.raises(JobError, match="it is not closed"):
        bill(session, place, out, close=True, accept=names[1:])
    bill(session, place, out, close=True, accept=names)
    (its,) = (out / "runs").rglob("*.json")
    kept = json.loads(its.read_bytes())
    assert (kept["state"], kept["accepted"]) == ("closed", list(names))
    assert kept["unknown_writers"] == ["d" * 16]


@pytest.mark.nightly
def test_what_was_altered_is_told_and_made_again_while_a_month_is_open(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A)])
    put_mark(place, A)
    first = bill(session, place, out)
    assert first.findings == []
    made = bytes_of(out, ("",))
    page = statement_at(out, TENANT, PERIOD)
    table = next((out / "invoices").rglob("*.parquet"))
    page.write_bytes(page.read_bytes().replace(b"0.00", b"9.99"))
    flipped = bytearray(table.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    table.write_bytes(flipped)
    again = bill(session, place, out)
    assert [line.partition(" is not what run ")[0] for line in again.findings] == [
        f"altered: {table.relative_to(out)}",
        f"altered: {page.relative_to(out)}",
    ]
    assert table.read_bytes() != bytes(flipped)
    kept = {its.read_bytes() for its in (out / "altered").iterdir()}
    assert bytes(flipped) in kept
    for its in (out / "altered").iterdir():
        its.unlink()
    (out / "altered").rmdir()
    assert bytes_of(out, ("",)) == made
    assert bill(session, place, out) == first


def test_what_was_altered_of_a_closed_month_is_told_by_each_run(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(units=4_000_000)])
    bill(session, place, out, close=True)
    page = statement_at(out, TENANT, PERIOD)
    content = page.read_bytes()
    page.write_bytes(content.replace(b"0.40", b"0.10"))
    (told,) = bill(session, place, out).findings
    assert told.startswith(f"altered: {page.relative_to(out)} is not what run ")
    # Nor is anything corrected by what cannot be trusted, until it is as it was.
    put_records(place, [record(number=2, units=1_000_000)])
    december = bill(session, place, out, period="2026-12")
    assert (december.invoices, december.findings) == ([], [NO_USAGE, told])
    page.write_bytes(content)
    assert bill(session, place, out, period="2026-12").findings == [
        NO_USAGE,
        f"corrected: {PERIOD}",
    ]


def test_of_very_many_findings_it_is_said_where_all_are() -> None:
    aside = [{"name": f"{number:02}", "reason": "no Parquet"} for number in range(25)]
    said = {"quarantined": aside, "records": 1, "malformed_lines": 0, "requests_of_nobody": 0}
    lists: dict[str, Any] = {its: [] for its in ("bad_marks", "gaps", "conflicts", "corrects")}
    told = findings(Pointer(3, PERIOD, "0" * 16, closed=False, said={**said, **lists}))
    assert told[19] == "put aside: 19: no Parquet"
    assert told[20] == f"and 5 more findings: all are in runs/period={PERIOD}/000003.json"

"""What comes, or goes, after a month was closed: corrections in the next one."""

import json
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.billing_options import Options
from glue_jobs.billing_run import BillingRun
from glue_jobs.inputs import files_of
from glue_jobs.outputs import canonical
from glue_jobs.places import FolderPlace
from glue_jobs.progress import Progress
from glue_jobs.sealed_hours import listing_of
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.test_bill import MILLION, NEXT, NO_USAGE, A, B, bill
from tests.spark.test_price_book import TEXT


@pytest.mark.nightly
def test_late_records_of_a_closed_period_are_corrections(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    prices = tmp_path / "prices.json"
    book = json.loads(TEXT)
    book["free"]["quantity"] = 0
    prices.write_text(json.dumps(book))
    asked = {"prices": str(prices)}
    put_records(place, [record(units=MILLION)])
    closed = bill(session, place, out, close=True, **asked)
    put_records(
        place, [record(number=2, units=2 * MILLION), record(writer=B, minute=MINUTE + NEXT)]
    )
    assert bill(session, place, out, **asked) == closed
    late = bill(session, place, out, period="2026-12", **asked)
    assert [its.payable for its in late.invoices] == [Decimal("0.80")]
    assert "corrected: 2026-11" in late.findings
    table = pq.read_table(next((out / "invoices/period=2026-12").rglob("lines")))
    rows = [row for row in table.to_pylist() if row["kind"] == "correction"]
    assert [(row["of_period"], row["date"], row["quantity"]) for row in rows] == [
        ("2026-11", "2026-11-01", 2 * MILLION)
    ]
    with pytest.raises(JobError, match="2026-12 is to be closed before it"):
        bill(session, place, out, period="2027-01", close=True, **asked)
    bill(session, place, out, period="2026-12", close=True, **asked)
    after = bill(session, place, out, period="2027-01", **asked)
    assert after.invoices == []


@pytest.mark.nightly
def test_what_a_closed_period_was_invoiced_from_is_never_given_back_when_it_is_gone(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    files = put_records(place, [record(units=4 * MILLION), record(number=2, minute=MINUTE + 60)])
    bill(session, place, out, close=True)
    (came,) = put_records(place, [record(number=3, units=MILLION)])
    gone, new = (str(its.relative_to(place)) for its in (files[0], came))
    (late,) = bill(session, place, out, period="2026-12").invoices
    assert late.payable == Decimal("0.40")
    # What it was made from is removed by its age, or by somebody.
    files[0].unlink()
    after = bill(session, place, out, period="2026-12")
    assert after.invoices == []
    assert after.findings == [
        NO_USAGE,
        (
            f"not corrected: 2026-11: 1 file of records that it was invoiced from is gone: {gone};"
            f" 1 new one is not billed: {new}"
        ),
    ]


@pytest.mark.nightly
def test_what_is_gone_of_a_correction_is_not_given_back(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(units=4 * MILLION)])
    bill(session, place, out, close=True)
    (late,) = put_records(place, [record(number=2, units=MILLION)])
    bill(session, place, out, period="2026-12", close=True)
    assert bill(session, place, out, period="2027-01").findings == [NO_USAGE]
    late.unlink()
    after = bill(session, place, out, period="2027-01")
    assert after.invoices == []
    assert after.findings == [
        NO_USAGE,
        (
            "not corrected: 2026-11: 1 file of records that it was invoiced from is gone:"
            f" {late.relative_to(place)}"
        ),
    ]


def test_what_comes_while_a_month_is_closed_is_billed_by_the_next(
    session: SparkSession, tmp_path: Path
) -> None:
    """After its files were listed, and before the pointer says which of them it covers."""
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, units=4_000_000)])

    def come_late(line: str) -> None:
        if "rating by price book" in line:
            put_records(place, [record(writer=A, number=2, units=1_000_000)])

    its: dict[str, Any] = {"usage": str(place), "out": str(out)}
    closing = Options(**its, period=PERIOD, close=True)
    (invoice,) = BillingRun(session, closing, Progress("", come_late)).run().invoices
    assert invoice.payable == Decimal("1.20")
    late = bill(session, place, out, period="2026-12")
    assert [one.payable for one in late.invoices] == [Decimal("0.40")]
    assert f"corrected: {PERIOD}" in late.findings


def as_of_before(place: Path, out: Path) -> None:
    """Let a closed month be as versions wrote it that knew no hours: with a list of its files."""
    (path,) = (out / "runs").rglob("*.json")
    said = json.loads(path.read_bytes())
    files = files_of(FolderPlace(place), PERIOD)
    said["covers"] = {PERIOD: listing_of(files)}
    (hours,) = (out / "inputs").rglob("hours.json")
    listed = canonical([[its.name, its.bytes, "", ""] for its in files])
    hours.unlink()
    (hours.parent / "files.json").write_bytes(listed)
    its = (hours.parent / "files.json").relative_to(out).as_posix()
    kept = [one for one in said["files"] if not one["name"].endswith("/hours.json")]
    digest = sha256(listed).hexdigest()
    said["files"] = [*kept, {"name": its, "bytes": len(listed), "sha256": digest}]
    # Nor had pointers copies then, or hashes of earlier ones.
    del said["bound"]
    rmtree(out / "pointed")
    path.write_bytes(canonical(said))


@pytest.mark.nightly
def test_months_that_were_closed_before_there_were_hours_are_corrected(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    (first,) = put_records(place, [record(units=4 * MILLION)])
    bill(session, place, out, close=True)
    as_of_before(place, out)
    assert bill(session, place, out, period="2026-12").findings == [NO_USAGE]
    put_records(place, [record(number=2, units=MILLION)])
    (late,) = bill(session, place, out, period="2026-12").invoices
    assert late.payable == Decimal("0.40")
    first.unlink()
    after = bill(session, place, out, period="2026-12")
    assert after.findings[1].startswith("not corrected: 2026-11: 1 file of records that it was")


def test_what_came_late_to_a_closed_month_is_not_missing_in_the_next_one(
    session: SparkSession, tmp_path: Path
) -> None:
    """Lines of a sandbox at work over the turn of the month, delivered after the closing."""
    place, out = tmp_path / "usage", tmp_path / "bills"
    december = MINUTE + NEXT
    its: dict[str, Any] = {"kind": "function", "closed": False, "complete_to": december + 1}
    put_mark(place, B, day="2026-11-30", opened=december - 5, records=6, **its)
    put_records(place, [record(writer=B, minute=december - 5)])
    bill(session, place, out, close=True)
    put_records(place, [record(writer=B, minute=december - 2, number=n) for n in (2, 4)])
    put_records(place, [record(writer=B, minute=december + 1, number=n) for n in (5, 6)])
    after = bill(session, place, out, period="2026-12", close=True)
    assert [line for line in after.findings if line.startswith("lost")] == [
        f"lost: writer {B}: record 3, 2026-11-30 23:58 UTC"
    ]
    (reached,) = (out / "usage_hourly/period=2026-12").rglob("writers.json")
    assert json.loads(reached.read_bytes()) == {B: [6, december + 1]}


def test_what_is_in_doubt_of_a_closed_month_keeps_its_correction_open(
    session: SparkSession, tmp_path: Path
) -> None:
    """Without a writer's mark nobody gives back what was invoiced of it, and says nothing."""
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A, units=4 * MILLION), record(writer=B)])
    bill(session, place, out, close=True, accept=())
    (mark,) = (place / "writers").rglob(f"{A}.json")
    mark.unlink()
    put_records(place, [record(writer=B, number=2, status="5xx")])
    late: dict[str, Any] = {"period": "2026-12", "accept": ()}
    unknown = f"unknown: writer {A} has records and no mark"
    told = [line for line in bill(session, place, out, **late).findings if unknown in line]
    assert len(told) == 1
    with pytest.raises(JobError, match=f"2026-12: it is not closed, .*\n  {unknown}"):
        bill(session, place, out, close=True, **late)
    accepted = bill(session, place, out, **{**late, "accept": (A,)}, close=True)
    assert accepted.invoices == []
    # It is accepted for good.
    put_records(place, [record(writer=B, number=3, status="5xx")])
    after = bill(session, place, out, period="2027-01", close=True, accept=())
    assert after.invoices == []

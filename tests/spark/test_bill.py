"""The job `bill` from records to statements: again, with copies, in other orders, late, wrong."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs import billing_run
from glue_jobs.arguments import JobError
from glue_jobs.billing_run import BillingRun, Options, Summary
from glue_jobs.progress import Progress
from infra.bill_tables import TABLES
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.test_price_book import TEXT

A, B = "a" * 16, "b" * 16
TENANT, OTHER = "111122223333", "222233334444"
NEXT = 30 * 24 * 60
"""Minutes of the period."""

MILLION = 1_000_000


def bill(session: SparkSession, place: Path, out: Path, **options: Any) -> Summary:
    given = {"usage": str(place), "out": str(out), "period": PERIOD, **options}
    return BillingRun(session, Options(**given), Progress("test", lambda _: None)).run()


def some_records() -> list[dict[str, Any]]:
    random = Random(8)
    rows = [
        record(
            writer=writer,
            number=number,
            minute=MINUTE + number * 7,
            account=random.choice((TENANT, OTHER)),
            queue=random.choice(("orders", "mail.fifo")),
            operation=random.choice(("SendMessage", "DeleteMessage")),
            requests=10,
            units=random.randrange(10, 200_000),
        )
        for writer in (A, B)
        for number in range(1, 31)
    ]
    rows += [
        record(writer=A, number=31, operation="ReceiveMessage", messages=0, requests=9, units=9),
        record(writer=A, number=32, status="4xx", code="RequestThrottled", requests=5, units=5),
        record(writer=A, number=33, account="", queue="", requests=2, units=2),
        record(writer=A, number=34, queue="<b>&", status="4xx", code="InvalidAddress"),
    ]
    return rows


def bytes_of(out: Path, tables: tuple[str, ...]) -> Mapping[str, bytes]:
    """Files of tables without the names of runs."""
    return {
        "/".join(part for part in path.relative_to(out).parts if not part.startswith("run=")): (
            path.read_bytes()
        )
        for table in tables
        for path in sorted((out / table).rglob("*"))
        if path.is_file()
    }


WRITTEN = ("usage_hourly", "rated", "invoices", "focus", "statements")


def test_what_was_made_already_is_not_made_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, some_records())
    (place / "records" / f"date={PERIOD}-03").mkdir(parents=True, exist_ok=True)
    (place / "records" / f"date={PERIOD}-03" / "notes.txt").write_text("mine")
    first = bill(session, place, out)
    made = bytes_of(out, ("",))

    def screened(*_: object) -> Any:
        raise AssertionError("files are looked at")

    with monkeypatch.context() as patch:
        patch.setattr(billing_run, "look_at", screened)
        assert bill(session, place, out) == first
        assert bytes_of(out, ("",)) == made
        # Whatever is not as it was: a file of records, one more of them, one that was written.
        path = next((place / "records").rglob("*.parquet"))
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"?")
        with pytest.raises(AssertionError, match="are looked at"):
            bill(session, place, out)
        path.write_bytes(content)
        put_mark(place, A, records=34)
        with pytest.raises(AssertionError, match="are looked at"):
            bill(session, place, out)
        (place / "writers" / f"{A}.json").unlink()
        next((out / "statements").rglob("*.html")).unlink()
        with pytest.raises(AssertionError, match="are looked at"):
            bill(session, place, out)


def test_copies_order_and_grouping_change_no_byte(session: SparkSession, tmp_path: Path) -> None:
    rows = some_records()
    once, again = tmp_path / "once", tmp_path / "again"
    put_records(once, rows)
    first = bill(session, once, tmp_path / "first")
    written = bytes_of(tmp_path / "first", WRITTEN)
    # The same run again writes the same bytes, and nothing beside them.
    assert bill(session, once, tmp_path / "first") == first
    assert bytes_of(tmp_path / "first", WRITTEN) == written
    assert len(list((tmp_path / "first/runs").rglob("*.json"))) == 1
    # Copies in other groups, of which some overlap.
    put_records(again, rows[:20])
    put_records(again, rows[10:])
    put_records(again, rows[40:45])
    second = bill(session, again, tmp_path / "second")
    assert second.run != first.run
    assert bytes_of(tmp_path / "second", WRITTEN) == written
    check_first(tmp_path / "first", first)
    check_tables(tmp_path / "first")


def check_first(out: Path, summary: Summary) -> None:
    """What the bill says, held to sums in Python."""
    rows = [row for row in some_records() if row["account"] and row["code"] != "RequestThrottled"]
    fifo = {"SendMessage", "DeleteMessage"}
    exact = {}
    for account in (TENANT, OTHER):
        left, cost = MILLION, Decimal(0)
        ordered = sorted(
            (
                (row["minute"] // 60, its, row["queue"], row["operation"], row["units"])
                for row in rows
                if row["account"] == account
                for its in [row["queue"].endswith(".fifo") and row["operation"] in fifo]
            ),
            key=lambda its: (its[0], not its[1], its[2], its[3]),
        )
        for _, is_fifo, _, _, units in ordered:
            free = min(left, units)
            left -= free
            cost += (units - free) * Decimal("0.0000005" if is_fifo else "0.0000004")
        exact[account] = round(cost + Decimal("1e-15"), 2)
    assert {its.account: its.payable for its in summary.invoices} == exact
    assert "of nobody: 2 requests have no account" in summary.findings
    page = (out / f"statements/{TENANT}/{PERIOD}.html").read_text()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "://" not in page
    lines = pq.read_table(next((out / "invoices").rglob("lines"))).to_pylist()
    for account, payable in exact.items():
        assert sum(line["cost"] for line in lines if line["account"] == account) == payable


def check_tables(out: Path) -> None:
    """The catalog of a deployment has the columns that were written."""
    kinds = {"int64": "bigint", "int32": "int"}
    for path, columns in TABLES.values():
        pattern = re.sub(r"\$\{\w+\}", "*", path) + "/rows.parquet"
        schema = pq.read_schema(next(out.glob(pattern)))
        found = [(field.name, str(field.type)) for field in schema]
        assert columns == tuple(
            (name, kinds.get(kind, kind.replace("decimal128", "decimal").replace(" ", "")))
            for name, kind in found
        )


def test_what_is_wrong_is_put_aside_said_and_never_billed(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(number=n, writer=A) for n in (1, 2, 5)])
    # Two records of one identity, and a writer that was cut off.
    put_records(place, [record(number=5, writer=A, units=7)])
    put_mark(place, A, records=6, closed=False, complete_to=MINUTE + 3)
    folder = place / "records/date=2026-11-01/hour=00"
    (folder / "notes.txt").write_text("hello")
    (folder / f"{'0' * 64}.parquet").write_bytes(b"PAR1")
    malformed = place / "malformed/date=2026-11-01/hour=00/x.jsonl"
    malformed.parent.mkdir(parents=True)
    malformed.write_text("{}\n{}\n")
    summary = bill(session, place, out)
    text = "\n".join(summary.findings)
    for said in (
        "notes.txt: its name is not that of an object of records",
        "its bytes do not hash to its name",
        f"gap: writer {A}: records 3 to 4",
        f"gap: writer {A}: records 6 to 6",
        f"gap: writer {A}: its end",
        f"conflict: writer {A}: record 5",
        "malformed: 2 lines",
    ):
        assert said in text
    assert len(list((out / "quarantine").iterdir())) == 2
    lines = pq.read_table(next((out / "invoices").rglob("lines"))).to_pylist()
    assert sum(line["quantity"] for line in lines) == 2
    assert "3 usage records" in (out / f"statements/{TENANT}/{PERIOD}.html").read_text()


def test_ends_of_sandboxes_are_said_in_one_line(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    its: dict[str, Any] = {"kind": "function", "closed": False, "complete_to": MINUTE}
    for writer in (A, "d" * 16):
        put_records(place, [record(number=n, writer=writer) for n in (1, 2)])
        put_mark(place, writer, day="2026-11-01", records=1, **its)
    # Of another month, and read by nobody.
    put_mark(place, "e" * 16, day="2026-10-04", records=9, **its)
    summary = bill(session, place, out)
    assert summary.findings == [
        "ends: 2 sandboxes of functions, of each the last minute in part maybe",
        "no exports: what functions sent in gaps is not looked for where it is stored",
    ]
    page = (out / f"statements/{TENANT}/{PERIOD}.html").read_text()
    assert "Of 2 sandboxes of functions, what they answered last" in page
    assert "are not known" not in page
    # One of them has marked what did not come.
    put_mark(place, A, day="2026-11-01", records=3, **its)
    assert bill(session, place, out).findings[0].startswith(f"gap: writer {A}: records 3 to 3")


def test_what_cannot_be_billed_stops_the_bill(session: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "usage"
    put_records(place, [record()])
    accounts = tmp_path / "accounts.json"
    accounts.write_text(
        f'{{"schema":"tidegate.accounts/1","accounts":{{"{OTHER}":{{"name":"x"}}}}}}'
    )
    with pytest.raises(JobError, match=f"account {TENANT}: there is usage, and no such account"):
        bill(session, place, tmp_path / "bills", accounts=str(accounts))
    with pytest.raises(JobError, match="has none for 2020-01"):
        bill(session, place, tmp_path / "bills", period="2020-01")
    put_records(place, [record(schema="tidegate.usage/2", number=2)])
    with pytest.raises(JobError, match=r"records of schema tidegate\.usage/2; these jobs read"):
        bill(session, place, tmp_path / "bills")
    assert not (tmp_path / "bills/runs").exists()


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

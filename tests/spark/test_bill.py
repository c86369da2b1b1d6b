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
from glue_jobs.bill import main
from glue_jobs.billing_options import Options, Summary
from glue_jobs.billing_run import BillingRun
from glue_jobs.progress import Progress
from infra.bill_tables import TABLES
from tests.spark.fresh import bill_afresh
from tests.spark.generator import MINUTE, PERIOD, put_mark, put_records, record
from tests.spark.statement_files import statement_at
from tests.spark.test_price_book import TEXT

A, B = "a" * 16, "b" * 16
TENANT, OTHER = "111122223333", "222233334444"
NEXT = 30 * 24 * 60
"""Minutes of the period."""

MILLION = 1_000_000
NO_EXPORTS = "no exports: what functions sent in gaps is not looked for where it is stored"
NO_USAGE = "no usage: the usage place has no records of this month"


class Anything(tuple[str, ...]):
    """Accepts whatever is in doubt: records of most tests have no mark."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


def bill(session: SparkSession, place: Path, out: Path, **options: Any) -> Summary:
    its: dict[str, Any] = {"usage": str(place), "out": str(out), "period": PERIOD}
    given = {**its, "accept": Anything(), **options}
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


def told_in(page: str) -> list[tuple[str, ...]]:
    """What a page says is missing: the state, when, and how many records."""
    row = r'<th scope="row">([^<]*)<span class="note">[^<]*</span></th><td>(.*?)</td><td>(.*?)</td>'
    return re.findall(row, page)


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

    def sealed(*_: object) -> Any:
        raise AssertionError("hours are sealed")

    with monkeypatch.context() as patch:
        patch.setattr(billing_run, "look_at", sealed)
        assert bill(session, place, out) == first
        assert bytes_of(out, ("",)) == made
        # Whatever is not as it was: one more file of records, one less, a mark, what was written.
        mark = (place / "writers" / f"{A}.json").read_bytes()
        (path,) = put_records(place, [record(writer=A, number=77)])
        with pytest.raises(AssertionError, match="are sealed"):
            bill(session, place, out)
        path.unlink()
        (place / "writers" / f"{A}.json").write_bytes(mark)
        assert bill(session, place, out) == first
        path = next((place / "records").rglob("*.parquet"))
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(AssertionError, match="are sealed"):
            bill(session, place, out)
        path.write_bytes(content)
        put_mark(place, A, records=34)
        with pytest.raises(AssertionError, match="are sealed"):
            bill(session, place, out)
        (place / "writers" / f"{A}.json").write_bytes(mark)
        next((out / "statements").rglob("*.html")).unlink()
        with pytest.raises(AssertionError, match="are sealed"):
            bill(session, place, out)


@pytest.mark.parametrize(
    "altered",
    ["*.parquet", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("*.json", "*.zst"))],
)
def test_an_hour_that_was_altered_is_made_again_as_it_was(
    session: SparkSession, tmp_path: Path, altered: str
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, some_records())
    bill(session, place, out)
    made = bytes_of(out, ("",))
    path = next((out / "hours").rglob(altered))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    told = bill(session, place, out).findings
    assert [line for line in told if line.startswith("altered: hours/")]
    kept = bytes_of(out, ("",))
    assert {name: kept[name] for name in made} == made


@pytest.mark.nightly
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
    second = bill_afresh(again, tmp_path / "second", period=PERIOD)
    assert second["run"] != first.run
    assert bytes_of(tmp_path / "second", WRITTEN) == written
    check_first(tmp_path / "first", first)
    check_tables(tmp_path / "first")


def check_first(out: Path, summary: Summary) -> None:
    """What the bill says, held to sums in Python."""
    rows = [row for row in some_records() if row["account"] and row["code"] != "RequestThrottled"]
    fifo = {"SendMessage", "DeleteMessage"}
    exact = {}
    for account in (TENANT, OTHER):
        begin, cost = 0, Decimal(0)
        ordered = sorted(
            (
                (row["minute"] // 60, its, row["queue"], row["operation"], row["units"])
                for row in rows
                if row["account"] == account
                for its in [row["queue"].endswith(".fifo") and row["operation"] in fifo]
            ),
            key=lambda its: (its[0], not its[1], its[2], its[3]),
        )
        whole = sum(units for *_, units in ordered)
        given = min(MILLION, whole)
        for _, is_fifo, _, _, units in ordered:
            # Each has its share of what is free.
            end = begin + units
            free = end * given // whole - begin * given // whole
            begin = end
            cost += (units - free) * Decimal("0.0000005" if is_fifo else "0.0000004")
        exact[account] = round(cost + Decimal("1e-15"), 2)
    assert {its.account: its.payable for its in summary.invoices} == exact
    assert "of nobody: 2 requests have no account" in summary.findings
    page = statement_at(out, TENANT, PERIOD).read_text()
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
    put_records(place, [record(number=5, writer=A, units=7)])
    put_mark(place, A, records=6, closed=False, complete_to=MINUTE + 3)
    folder = place / "records/date=2026-11-01/hour=00"
    (folder / "notes.txt").write_text("hello")
    (folder / f"{'0' * 64}.parquet").write_bytes(b"PAR1")
    (malformed := place / "malformed/date=2026-11-01/hour=00").mkdir(parents=True)
    (malformed / "x.jsonl").write_text("{}\n{}\n")
    summary = bill(session, place, out)
    text = "\n".join(summary.findings)
    for said in (
        "notes.txt: its name is not that of an object of records",
        "its bytes do not hash to its name",
        f"lost: writer {A}: records 3 to 4, 2026-11-01 00:00 UTC",
        f"lost: writer {A}: record 6, 2026-11-01 00:00 to 00:03 UTC",
        f"not yet known: writer {A}, at work or cut off, from 2026-11-01 00:03 UTC on",
        f"conflict: writer {A}: record 5",
        "malformed: 2 lines",
    ):
        assert said in text
    assert len(list((out / "quarantine").iterdir())) == 2
    lines = pq.read_table(next((out / "invoices").rglob("lines"))).to_pylist()
    assert sum(line["quantity"] for line in lines) == 2
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert told_in(page) == [("Lost", "2026-11-01 00:00 to 00:03 UTC", "3"),
                             ("Not yet known", "from 2026-11-01 00:03 UTC on", "")]  # fmt: skip


@pytest.mark.nightly
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
        "perhaps incomplete: the last minute of each of 2 sandboxes of functions",
        NO_EXPORTS,
    ]
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert told_in(page) == [("Perhaps incomplete", "2026-11-01 00:00 UTC", "")]
    assert "Not all usage of this month" not in page
    # One of them has marked what did not come.
    put_mark(place, A, day="2026-11-01", records=3, **its)
    assert bill(session, place, out).findings[0].startswith(f"lost: writer {A}: record 3")


def test_what_cannot_be_billed_stops_the_bill(session: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "usage"
    put_records(place, [record()])
    accounts = tmp_path / "accounts.json"
    accounts.write_text(
        f'{{"schema":"tidegate.accounts/1","accounts":{{"{OTHER}":{{"name":"x"}}}}}}'
    )
    with pytest.raises(JobError, match=f"account {TENANT}: there is usage, and the accounts file"):
        bill(session, place, tmp_path / "bills", accounts=str(accounts))
    with pytest.raises(JobError, match="has none for 2020-01"):
        bill(session, place, tmp_path / "bills", period="2020-01")
    assert not (tmp_path / "bills/runs").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"period": "2999-01"}, "period 2999-01: it has not begun; this month is 20"),
        ({"period": "current", "close": "yes"}, "it is not over; it can be closed from 20"),
        ({"period": "2026-1"}, "period: '2026-1' is no month"),
        ({"out": "FILE"}, "is no folder that can be written, or made"),
        ({"usage": "/nowhere"}, "usage: there is no folder /nowhere"),
        ({"prices": "FILE.json"}, "FILE.json: it is no JSON: Expecting value"),
        ({"prices": "/nowhere"}, "price book /nowhere: there is no such folder"),
        ({"period": "2020-01"}, "has none for 2020-01 (there is sqs-us-east-1-2026-01 from 2026"),
        ({"accounts": "FILE.json"}, "FILE.json: it is no JSON: Expecting value"),
        ({"account": "999"}, "account: '999' is no account id of 12 digits"),
        ({"memory": "3x"}, "memory: '3x' is no size, such as 3g or 512m"),
        ({"kept_days": "a year"}, "kept_days: 'a year' is no whole number"),
        ({"close": "maybe"}, "close: 'maybe' is neither yes nor no"),
        ({"gap_minutes": "few"}, "gap_minutes: 'few' is no whole number"),
        ({"accept": "x"}, "accept: nothing is refused, and so to be accepted, without close"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, str], said: str
) -> None:
    for name in ("FILE", "FILE.json"):
        (tmp_path / name).write_text("not that")
    place = tmp_path / "usage"
    put_records(place, [record()])
    given = {"usage": str(place), "out": str(tmp_path / "bills"), "period": "2026-10"}
    given |= {
        name: str(tmp_path / value) if value.startswith("FILE") else value
        for name, value in wrong.items()
    }
    assert main([f"--{name}={value}" for name, value in given.items()]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "starting" not in line]
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "bills").exists()


def test_a_month_without_usage_is_said_to_have_none(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    summary = bill(session, tmp_path / "usage", tmp_path / "bills")
    assert summary.findings == [NO_USAGE]


def test_what_was_not_metered_is_not_lost(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(number=n, writer=A) for n in (1, 2)])
    put_mark(place, A, records=2, complete_to=MINUTE + 5)
    put_records(place, [record(writer=B, minute=MINUTE + 3000)])
    again: dict[str, Any] = {"opened": MINUTE + 2900, "complete_to": MINUTE + 3001, "after": A}
    put_mark(place, B, records=1, off_from=MINUTE + 60, **again)
    summary = bill(session, place, out)
    when = "2026-11-01 01:00 to 2026-11-03 00:20 UTC"
    assert summary.findings == [f"not metered: usage was off, {when}"]
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert told_in(page) == [("Not metered", when, "")]
    assert "Not all usage of this month is known" in page
    assert page.count('class="gap"') == len(("1st", "2nd", "3rd"))
    table = statement_at(out, TENANT, PERIOD).with_suffix(".csv").read_text().splitlines()
    assert table[-1] == f"2026-11-01,not metered,{PERIOD},,,,,,,0,0,0,0,{when}"
    (pointer,) = (out / "runs").rglob("*.json")
    assert [its["state"] for its in json.loads(pointer.read_bytes())["gaps"]] == ["not metered"]


@pytest.mark.nightly
def test_what_is_kept_no_longer_is_not_lost(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    rows = [record(number=n, minute=MINUTE + n * 1440, writer=A) for n in range(1, 6)]
    files = put_records(place, rows)
    put_mark(place, A, records=5, complete_to=MINUTE + 5 * 1440)
    for file in files[:2]:
        file.unlink()
    lost = bill(session, place, out).findings
    assert lost == [f"lost: writer {A}: records 1 to 2, 2026-11-01 00:00 to 2026-11-04 00:00 UTC"]
    assert bill(session, place, out, kept_from="2026-11-04").findings == [
        lost[0].replace("lost: ", "expired: "),
        (
            "expired: records of this month may have been removed by their age, until"
            " 2026-11-04 00:00 UTC"
        ),
    ]
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert told_in(page) == [("Expired", "2026-11-01 00:00 to 2026-11-04 00:00 UTC", "2")]
    # Nothing of a month is said to have gone that is younger than what is kept.
    assert bill(session, place, out, kept_from="2026-10-04").findings == lost


@pytest.mark.nightly
def test_a_month_that_was_not_billed_makes_no_gaps(session: SparkSession, tmp_path: Path) -> None:
    """Not of servers and not of sandboxes: what they wrote in it is there."""
    place, out = tmp_path / "usage", tmp_path / "bills"
    december = MINUTE + NEXT
    january = december + 31 * 24 * 60
    put_records(place, [record(writer=A, number=1)])
    put_records(place, [record(writer=A, number=2, minute=december)])
    put_records(place, [record(writer=A, number=n, minute=january + 5) for n in (3, 5)])
    put_mark(place, A, records=5, complete_to=january + 6)
    # A sandbox at work over the turn of the year.
    its: dict[str, Any] = {"kind": "function", "closed": False, "complete_to": january + 1}
    put_records(place, [record(writer=B, number=n, minute=january - 3 + n) for n in (1, 2, 3, 4)])
    put_mark(place, B, day="2026-12-31", opened=january - 2, records=4, **its)
    bill(session, place, out)
    skipped = bill(session, place, out, period="2027-01")
    perhaps = "perhaps incomplete: the last minute of each of 1 sandbox of functions"
    lost = f"lost: writer {A}: record 4, 2027-01-01 00:05 UTC"
    assert skipped.findings == [lost, perhaps, NO_EXPORTS]
    # Once it is billed, what is missing between the two shows.
    for path in (place / "records/date=2026-12-31").rglob("*.parquet"):
        path.unlink()
    bill(session, place, out, period="2026-12")
    after = bill(session, place, out, period="2027-01")
    assert after.findings == [
        lost,
        f"lost: writer {B}: records 1 to 2, 2026-12-31 23:58 to 2027-01-01 00:00 UTC",
        perhaps,
        NO_EXPORTS,
    ]


def test_a_mark_that_closes_ends_what_was_not_known(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A)])
    put_mark(place, A, closed=False)
    assert bill(session, place, out).findings[0].startswith(f"not yet known: writer {A}")
    put_mark(place, A)
    assert bill(session, place, out).findings == []


def test_what_is_priced_and_not_metered_is_said(session: SparkSession, tmp_path: Path) -> None:
    place, out, book = tmp_path / "usage", tmp_path / "bills", json.loads(TEXT)
    book["skus"]["storage"]["regions"]["*"] = [[0, "0.00003"]]
    prices, accounts = tmp_path / "prices.json", tmp_path / "accounts.json"
    prices.write_text(json.dumps(book))
    its = {TENANT: {"name": "x", "fair_queues": ["orders", "order"]}}
    accounts.write_text(json.dumps({"schema": "tidegate.accounts/1", "accounts": its}))
    put_records(place, [record()])
    asked = {"prices": str(prices), "accounts": str(accounts)}
    assert bill(session, place, out, **asked).findings == [
        "not metered: storage has a price, and no export says what was stored",
        f"fair queue without usage: order of {TENANT}",
    ]
    # Somebody else may write it.
    put_records(place, [record(number=2, operation="StoredMessages", bytes=10**9)])
    assert "storage" not in str(bill(session, place, out, **asked).findings)


def test_a_statement_stays_as_it_is_when_its_month_is_billed_again(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(writer=A)])
    first = Path(bill(session, place, out).invoices[0].statement)
    content = {its: its.read_bytes() for its in (first, first.with_suffix(".csv"))}
    put_records(place, [record(writer=A, number=2, units=4_000_000)])
    second = Path(bill(session, place, out).invoices[0].statement)
    assert (first == second, second == statement_at(out, TENANT, PERIOD)) == (False, True)
    assert {its: its.read_bytes() for its in content} == content


def test_what_changes_of_streams_say_is_no_message_on_a_statement(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    changes = ("IncreaseStreamRetentionPeriod", "UpdateShardCount", "CreateStream/on-demand")
    rows = [
        record(writer=A, number=n, operation=f"kinesis:{name}", messages=8760)
        for n, name in enumerate(changes, start=1)
    ]
    carrying = ("kinesis:PutRecords", "kinesis:GetRecords/long-term", "ReceiveMessage")
    rows += [
        record(writer=A, number=n, operation=name, messages=25)
        for n, name in enumerate(carrying, start=4)
    ]
    put_records(place, rows)
    bill(session, place, out)
    page = statement_at(out, TENANT, PERIOD).read_text()
    assert "<dt>Messages</dt><dd>75</dd>" in page

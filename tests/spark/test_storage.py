"""What was stored is charged where it has a price, by exports, each message and time once."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from glue_jobs.exports import find_exports
from glue_jobs.places import place_of
from glue_jobs.storage_samples import samples_of
from glue_jobs.stored_bytes import Samples
from tests.spark.cells import ACCOUNT, MINUTE_US, REGION, Cell, Value, changes, write_export
from tests.spark.fresh import bill_afresh
from tests.spark.generator import MINUTE, PERIOD, put_records, record
from tests.spark.statement_files import statement_at
from tests.spark.test_bill import NEXT, bill, bytes_of
from tests.spark.test_price_book import TEXT

T_US = MINUTE * MINUTE_US
HOUR_US = 60 * MINUTE_US
ORDERS, MAIL, DEAD = "0" * 16, "f" * 16, "d" * 16
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/"
TABLES = ("usage_hourly", "rated", "invoices", "focus", "statements")


def block(number: int) -> bytes:
    return b"front." + number.to_bytes(4, "big")


def levels(session: SparkSession, root: Path) -> dict[str, list[tuple[int, int]]]:
    """By queue: hours after the beginning, and bytes."""
    return told(samples_of(session, place_of(str(root)), find_exports(place_of(str(root)))[0]))


def told(its: Samples) -> dict[str, list[tuple[int, int]]]:
    return {
        queue: sorted(((at_us - T_US) // HOUR_US, level) for (_, at_us), level in found.items())
        for (_, _, queue), found in its.stored.items()
    }


def stored() -> list[Cell]:
    """A cell, hour by hour, in which messages end in all ways."""
    cells = [Cell()]

    def then() -> Cell:
        cells.append(Cell(dict(cells[-1].items)))
        return cells[-1]

    cell = cells[0]
    cell.queue("orders", ORDERS)
    cell.queue("mail.fifo", MAIL, FifoQueue="true", MessageRetentionPeriod="7200")
    cell.segment(ORDERS, block(1), 0, 3, T_US - 5, y=100)
    cell.slot(MAIL, 1, 1, 0, 2, T_US - 4, y=2_000)
    # What nobody knows the queue of; and one that is under another key once more.
    cell.segment(DEAD, block(9), 0, 1, T_US - 3, y=10**6)
    cell.segment(ORDERS, block(2), 0, 1, T_US - 2, y=7)
    key = cell.segment(ORDERS, block(2), 0, 1, T_US - 1, y=7)
    cell.items[key] |= {"t": T_US - 2}
    cell = then()  # 1: a message of three is deleted, one of a slot
    cell.done(ORDERS, block(1), {1})
    cell.done(MAIL, (1).to_bytes(8, "big"), {0})
    cell = then()  # 2: a dead letter, sent long ago; mail has expired
    cell.segment(ORDERS, block(3), 0, 1, T_US + HOUR_US, v=2, l=T_US - 345_598 * 1_000_000, y=40)
    cell = then()  # 3: that, too; all of a block is deleted
    cell.done(ORDERS, block(1), {0, 1, 2})
    cell.segment(ORDERS, block(4), 0, 1, T_US + 2 * HOUR_US, y=500)
    cell = then()  # 4: purged
    cell.queue("orders", ORDERS, purged_us=T_US + 2 * HOUR_US)
    cell.segment(ORDERS, block(5), 0, 1, T_US + 3 * HOUR_US, y=30)
    cell = then()  # 5: deleted with its messages in it
    del cell.items[f"Q|{ACCOUNT}|{REGION}", b"orders"]
    return cells


EXPECTED = {
    "orders": [(0, 107), (1, 74), (2, 74), (3, 507), (4, 30)],
    "mail.fifo": [(0, 2_000), (1, 1_000)],
}
"""Of 100 bytes the second of three messages has 33. Mail of before the beginning is expired by the
second hour; a dead letter of two seconds before its end was expired when it was seen."""


def full(root: Path, cells: list[Cell], **others: Any) -> None:
    for hour, cell in enumerate(cells):
        write_export(root, cell.lines(), T_US + hour * HOUR_US, **others)


def test_a_sample_has_what_is_stored_and_nothing_else(
    session: SparkSession, tmp_path: Path
) -> None:
    full(tmp_path, stored())
    assert levels(session, tmp_path) == EXPECTED


def test_changes_say_what_full_exports_say(session: SparkSession, tmp_path: Path) -> None:
    cells = stored()
    write_export(tmp_path, cells[0].lines(), T_US)
    for hour in range(1, len(cells)):
        at_us = T_US + hour * HOUR_US
        lines = changes(cells[hour - 1], cells[hour], at_us - 1)
        write_export(tmp_path, lines, at_us, at_us - HOUR_US)
        # A copy of it, elsewhere; and a full export of the same moment.
        write_export(tmp_path, lines, at_us, at_us - HOUR_US, prefix="again")
        if hour == 2:
            write_export(tmp_path, cells[2].lines(), at_us, prefix="week")
    assert levels(session, tmp_path) == EXPECTED


def test_behind_a_gap_nothing_is_known_until_there_is_a_full_export(
    session: SparkSession, tmp_path: Path
) -> None:
    cells = stored()
    write_export(tmp_path, cells[0].lines(), T_US)
    for hour in (1, 3):
        at_us = T_US + hour * HOUR_US
        write_export(tmp_path, changes(cells[hour - 1], cells[hour], at_us), at_us, at_us - HOUR_US)
    write_export(tmp_path, cells[4].lines(), T_US + 4 * HOUR_US)
    its = samples_of(session, place_of(str(tmp_path)), find_exports(place_of(str(tmp_path)))[0])
    assert sorted((at_us - T_US) // HOUR_US for _, at_us in its.taken) == [0, 1, 4]
    assert told(its)["orders"] == [(0, 107), (1, 74), (4, 30)]


def test_copies_in_several_cells_are_one(session: SparkSession, tmp_path: Path) -> None:
    cells = ("one", "two")
    for number, name in enumerate(cells):
        cell = Cell()
        queue: dict[str, Value] = {"k": "q", "u": ORDERS, "p": 0, "a": "{}", "c": "g2.00"}
        cell.put(f"Q|{ACCOUNT}|{REGION}", b"orders", **queue)
        cell.put("P|", b"g2.00", m='[["one",0,1],["two",3,1]]', e=1)
        cell.segment(ORDERS, block(1), 0, 1, T_US - 5, y=100)
        if name == "two":
            # Under its incarnation; what it has under none is left from before.
            key, item = next(its for its in cell.items.items() if its[0][0].startswith("B|"))
            cell.items[f"{key[0]}@3", key[1]] = item
        for hour in range(2):
            at_us = T_US + hour * HOUR_US + number * 1_000
            write_export(tmp_path, cell.lines(), at_us, cell=name, cells=cells)
    its = samples_of(session, place_of(str(tmp_path)), find_exports(place_of(str(tmp_path)))[0])
    assert len(its.taken) == 4
    assert told(its) == {"orders": [(0, 100), (1, 100)]}


def priced(path: Path, price: str = "0.5") -> str:
    book = json.loads(TEXT)
    book["skus"]["storage"]["regions"]["*"] = [[0, price]]
    path.write_text(json.dumps(book))
    return str(path)


def much() -> Cell:
    """Two gigabytes in one queue."""
    cell = Cell()
    cell.queue("orders", ORDERS)
    for number in range(20):
        cell.segment(ORDERS, block(number), 0, 10, T_US - 100 + number, y=10**8)
    return cell


def lines_of(out: Path, period: str = PERIOD) -> list[dict[str, Any]]:
    rows = [
        row
        for folder in sorted((out / f"invoices/period={period}").rglob("lines"))
        for row in pq.read_table(folder).to_pylist()
    ]
    return [row for row in rows if row["operation"] == "StoredMessages"]


@pytest.mark.nightly
def test_storage_is_charged_and_kept(session: SparkSession, tmp_path: Path) -> None:
    place, out, exports = tmp_path / "usage", tmp_path / "bills", tmp_path / "exports"
    put_records(place, [record(account=ACCOUNT, region=REGION)])
    cell = much()
    asked = {"prices": priced(tmp_path / "prices.json"), "exports": str(exports)}
    write_export(exports, cell.lines(), T_US + HOUR_US)
    cell.done(ORDERS, block(0), range(10))
    write_export(exports, cell.lines(), T_US + 2 * HOUR_US)
    first = bill(session, place, out, **asked)
    # Two gigabytes for an hour, 1.9 of them for one and a quarter.
    assert [(row["quantity"], str(row["cost"])[:6], row["queue"]) for row in lines_of(out)] == [
        (4_375_000_000, "2.1875", "orders")
    ]
    none = "storage not metered: no export of tidegate says what was stored"
    assert [line for line in first.findings if "storage" in line] == [
        f"{none}, 2026-11-01 00:00 to 00:59 UTC",
        f"{none}, from 2026-11-01 03:15 UTC on",
    ]
    table = statement_at(out, ACCOUNT, PERIOD).with_suffix(".csv").read_text()
    assert "2026-11-01,storage not metered," in table
    assert ",StoredMessages,storage,1,4375000000,0.5000000000,2.1875" in table
    page = statement_at(out, ACCOUNT, PERIOD).read_text()
    assert "Messages stored" in page
    # It stands; and with copies of exports in another place, and without any, it is the same.
    assert bill(session, place, out, **asked) == first
    assert len(list((out / "runs").rglob("*.json"))) == 1
    made = bytes_of(out, TABLES)
    for number, path in enumerate(sorted((exports / "AWSDynamoDB").iterdir())):
        shutil.copytree(path, exports / f"again{number}/AWSDynamoDB" / path.name)
    bill(session, place, out, **asked)
    assert bytes_of(out, TABLES) == made
    shutil.rmtree(exports)
    without = bill(session, place, out, prices=asked["prices"])
    assert (without.invoices, without.findings) == (first.invoices, first.findings)
    assert bytes_of(out, TABLES) == made


@pytest.mark.nightly
def test_storage_without_a_price_changes_nothing(session: SparkSession, tmp_path: Path) -> None:
    place, exports = tmp_path / "usage", tmp_path / "exports"
    put_records(place, [record(account=ACCOUNT, region=REGION)])
    write_export(exports, much().lines(), T_US + HOUR_US)
    bill_afresh(place, tmp_path / "with", period=PERIOD, exports=str(exports))
    bill(session, place, tmp_path / "without")
    assert bytes_of(tmp_path / "with", TABLES) == bytes_of(tmp_path / "without", TABLES)
    assert not list((tmp_path / "with").rglob("stored_bytes.json"))


@pytest.mark.nightly
def test_late_exports_change_open_months_and_correct_closed_ones(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, exports = tmp_path / "usage", tmp_path / "bills", tmp_path / "exports"
    put_records(place, [record(account=ACCOUNT, region=REGION)])
    asked = {"prices": priced(tmp_path / "prices.json"), "exports": str(exports)}
    cell = much()
    hours = [1, 2, 3, 5]
    Random(8).shuffle(hours)
    for hour in hours:
        write_export(exports, cell.lines(), T_US + hour * HOUR_US, prefix=f"at{hour}")
    late = tmp_path / "late"
    (exports / "at2").rename(late)
    bill(session, place, out, **asked)
    # The hour from 2:15 to 3:00 is not known.
    assert [row["quantity"] for row in lines_of(out)] == [2 * 10**9 * 15 // 4]
    closed = bill(session, place, out, close=True, **asked)
    late.rename(exports / "at2")
    assert bill(session, place, out, **asked).invoices == closed.invoices
    after = bill(session, place, out, period="2026-12", **asked)
    assert "corrected: 2026-11" in after.findings
    (line,) = lines_of(out, "2026-12")
    assert (line["kind"], line["of_period"], line["quantity"]) == (
        *("correction", PERIOD),
        2 * 10**9 * 3 // 4,
    )
    # Again, also when exports are gone; and what was corrected once is not corrected once more.
    assert bill(session, place, out, period="2026-12", **asked) == after
    shutil.rmtree(exports)
    again = bill(session, place, out, period="2026-12", prices=asked["prices"])
    assert again.invoices == after.invoices
    bill(session, place, out, period="2026-12", prices=asked["prices"], close=True)
    put_records(place, [record(account=ACCOUNT, region=REGION, number=2, minute=MINUTE + 2 * NEXT)])
    assert not lines_of(out, "2027-01")
    bill(session, place, out, period="2027-01", prices=asked["prices"])
    assert not lines_of(out, "2027-01")

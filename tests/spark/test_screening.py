"""Files that are none of records are put aside with their reason."""

import io
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glue_jobs import screening
from glue_jobs.identities import Run
from glue_jobs.places import FolderPlace, Found
from glue_jobs.screening import Screened, screen
from tests.spark.generator import ARROW, MINUTE, hour_folder, put_records, put_table, record

FOLDER = hour_folder(MINUTE // 60)
A, B = "a" * 16, "b" * 16


def look(place: Path, path: Path) -> Screened:
    name = path.relative_to(place).as_posix()
    return screen(FolderPlace(place), Found(name, path.stat().st_size))


def put_bytes(place: Path, content: bytes) -> Path:
    path = place / FOLDER / f"{sha256(content).hexdigest()}.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_what_a_file_has_is_said_in_runs(tmp_path: Path) -> None:
    numbers = [(A, 1), (A, 2), (A, 3), (A, 7), (B, 4), (B, 5)]
    rows = [record(writer=w, number=n, minute=MINUTE + n) for w, n in numbers]
    (path,) = put_records(tmp_path, rows)
    its = look(tmp_path, path)
    assert (its.reason, its.rows, its.repeats) == ("", 6, ())
    assert its.runs == (
        Run(A, 1, 3, MINUTE + 1, MINUTE + 3),
        Run(A, 7, 7, MINUTE + 7, MINUTE + 7),
        Run(B, 4, 5, MINUTE + 4, MINUTE + 5),
    )


def test_rows_may_come_in_any_order_and_more_than_once(tmp_path: Path) -> None:
    numbers = [(B, 2), (A, 3), (B, 1), (A, 2), (A, 3), (A, 1)]
    rows = [record(writer=w, number=n) for w, n in numbers]
    path = put_table(tmp_path, FOLDER, pa.Table.from_pylist(rows, schema=ARROW))
    its = look(tmp_path, path)
    assert sorted((run.writer, run.first, run.last) for run in its.runs) == [(A, 1, 3), (B, 1, 2)]
    assert its.repeats == ((A, 3, 3),)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"writer": "A" * 16}, "a record's writer is 'AAAAAAAAAAAAAAAA'"),
        ({"account": "12"}, "a record's account is '12'"),
        ({"status": "200"}, "a record's status is '200'"),
        ({"queue": "q" * 129}, f"a record's queue is '{'q' * 129}'"),
        ({"requests": -1}, "a record's requests are -1"),
        ({"number": 0}, "a record's number is 0"),
        ({"bytes": -1}, "a record's bytes are -1"),
        ({"schema": "foreign"}, "a record's schema is 'foreign'"),
        ({"requests": 1000, "units": 1}, "a record has fewer units than requests"),
        ({"units": 2**62}, "its units add up to 2^53 or more"),
        ({"units": 2**53 - 1}, "its units add up to 2^53 or more"),
        ({"bytes": 2**63 - 1}, "its bytes add up to 2^53 or more"),
        ({"minute": MINUTE + 60}, "a minute is not in the hour of its name"),
        ({"minute": MINUTE - 1}, "a minute is not in the hour of its name"),
    ],
)
def test_a_wrong_value_puts_a_file_aside(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    rows = [record(), record(**{"number": 2, **change})]
    path = put_table(tmp_path, FOLDER, pa.Table.from_pylist(rows, schema=ARROW))
    assert look(tmp_path, path).reason == reason


def test_what_is_no_file_of_records_is_put_aside(tmp_path: Path) -> None:
    (whole,) = put_records(tmp_path / "a", [record()])
    content = whole.read_bytes()
    cut = put_bytes(tmp_path / "b", content[:-9])
    assert look(tmp_path / "b", cut).reason.startswith("it is no Parquet file: ")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    whole.write_bytes(flipped)
    assert look(tmp_path / "a", whole).reason == "its bytes do not hash to its name"
    other = put_table(tmp_path / "c", FOLDER, pa.table({"a": [1]}))
    assert look(tmp_path / "c", other).reason == "its columns are not those of records"
    empty = put_table(tmp_path / "d", FOLDER, ARROW.empty_table())
    assert look(tmp_path / "d", empty).reason == "it has no rows"
    stray = tmp_path / FOLDER / "notes.txt"
    stray.parent.mkdir(parents=True)
    stray.write_text("hello")
    assert look(tmp_path, stray).reason == "its name is not that of an object of records"


def test_a_damaged_page_under_its_right_name_is_no_record(tmp_path: Path) -> None:
    rows = [record(number=n, queue=f"queue-{n}") for n in range(1, 2000)]
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=ARROW), content, compression="zstd")
    damaged = bytearray(content.getvalue())
    damaged[40:200] = bytes(160)
    assert look(tmp_path, put_bytes(tmp_path, bytes(damaged))).reason != ""


def test_a_newer_schema_is_no_foreign_one(tmp_path: Path) -> None:
    (same,) = put_records(tmp_path / "a", [record(schema="tidegate.usage/2")])
    assert look(tmp_path / "a", same).newer == "tidegate.usage/2"
    table = pa.table({"schema": ["tidegate.usage/3"], "colour": ["red"]})
    assert (
        look(tmp_path / "b", put_table(tmp_path / "b", FOLDER, table)).newer == "tidegate.usage/3"
    )


def test_whatever_goes_wrong_with_a_file_is_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = put_records(tmp_path, [record()])

    def broken(*_: object) -> None:
        raise OverflowError("too\nmuch")

    with monkeypatch.context() as patch:
        patch.setattr(screening, "_identities", broken)
        assert look(tmp_path, path).reason == "it cannot be looked at: OverflowError: too much"
    with monkeypatch.context() as patch:
        patch.setattr(FolderPlace, "read", broken)
        its = look(tmp_path, path)
        assert (its.reason, its.unread) == ("it cannot be read: OverflowError: too much", True)
    folder = "records/date=2026-02-31/hour=00"
    path = put_table(tmp_path, folder, pa.Table.from_pylist([record()], schema=ARROW))
    assert look(tmp_path, path).reason.startswith("it cannot be looked at: ValueError")

"""Who did what, and who was refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from glue_jobs.access import COLUMNS, read_access, who_did_what
from glue_jobs.places import place_of

NUMBERS = ("number", "minute", "requests")


def record(number: int, principal: str, operation: str, code: str, minute: int) -> dict[str, Any]:
    its: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    its |= {"schema": "tidegate.access/1", "writer": "00112233445566aa", "number": number}
    status = "4xx" if code else "2xx"
    its |= {"principal": principal, "operation": operation, "code": code, "status": status}
    return its | {"minute": minute, "requests": 2}


def write(root: Path, name: str, records: list[dict[str, Any]]) -> None:
    schema = pa.schema([(its, pa.int64() if its in NUMBERS else pa.string()) for its in COLUMNS])
    folder = root / "access/date=2026-11-21/hour=20"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records, schema=schema), folder / f"{name}.parquet")


def test_requests_are_added_up_and_denials_come_first(
    session: SparkSession, tmp_path: Path
) -> None:
    records = [
        record(1, "arn:ann", "SendMessage", "", 5),
        record(2, "arn:ann", "SendMessage", "", 7),
        record(3, "arn:eve", "DeleteQueue", "AccessDeniedException", 6),
        record(4, "arn:ann", "SendMessage", "QueueDoesNotExist", 6),
    ]
    write(tmp_path, "a", records)
    # What was stored twice counts once; a later schema is none of ours.
    later = {**record(9, "arn:ann", "SendMessage", "", 5), "schema": "tidegate.access/2"}
    write(tmp_path, "b", [*records[:2], later])
    rows = who_did_what(read_access(session, place_of(str(tmp_path)))).collect()
    told = [(row.principal, row.code, row.requests, row.denied) for row in rows]
    assert told == [
        ("arn:eve", "AccessDeniedException", 2, True),
        ("arn:ann", "", 4, False),
        ("arn:ann", "QueueDoesNotExist", 2, False),
    ]
    assert (rows[1].first_minute, rows[1].last_minute) == (5, 7)


def test_a_place_without_access_records_has_none(session: SparkSession, tmp_path: Path) -> None:
    assert not read_access(session, place_of(str(tmp_path))).collect()

"""Who did what, and who was refused."""

from typing import Any

from pyspark.sql import SparkSession

from glue_jobs.access import SPARK_SCHEMA, read_access, who_did_what


def record(number: int, principal: str, operation: str, code: str, minute: int) -> dict[str, Any]:
    its: dict[str, Any] = {field.name: "" for field in SPARK_SCHEMA}
    its |= {"schema": "tidegate.access/1", "writer": "00112233445566aa", "number": number}
    status = "4xx" if code else "2xx"
    its |= {"principal": principal, "operation": operation, "code": code, "status": status}
    return its | {"minute": minute, "requests": 2}


def test_requests_are_added_up_and_denials_come_first(session: SparkSession) -> None:
    records = [
        record(1, "arn:ann", "SendMessage", "", 5),
        record(2, "arn:ann", "SendMessage", "", 7),
        record(3, "arn:eve", "DeleteQueue", "AccessDeniedException", 6),
        record(4, "arn:ann", "SendMessage", "QueueDoesNotExist", 6),
    ]
    rows = who_did_what(session.createDataFrame(records, SPARK_SCHEMA)).collect()
    told = [(row.principal, row.code, row.requests, row.denied) for row in rows]
    assert told == [
        ("arn:eve", "AccessDeniedException", 2, True),
        ("arn:ann", "", 4, False),
        ("arn:ann", "QueueDoesNotExist", 2, False),
    ]
    assert (rows[1].first_minute, rows[1].last_minute) == (5, 7)


def test_a_place_without_access_records_has_none(session: SparkSession) -> None:
    assert not read_access(session, []).collect()

"""Which export of a table comes next, and how DynamoDB is asked for it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from glue_jobs.export_table import Past, export, main, next_export

T0 = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/tidegate"


def full(until: datetime) -> Past:
    return Past(until, is_full=True, is_done=True)


def part(until: datetime, *, is_done: bool = True) -> Past:
    return Past(until, is_full=False, is_done=is_done)


def incremental(since: datetime, until: datetime) -> dict[str, Any]:
    times = {"ExportFromTime": since, "ExportToTime": until}
    specification = {**times, "ExportViewType": "NEW_AND_OLD_IMAGES"}
    return {
        "ExportType": "INCREMENTAL_EXPORT",
        "IncrementalExportSpecification": specification,
    }


@pytest.mark.parametrize(
    ("past", "now", "wanted"),
    [
        ([], T0, {"ExportType": "FULL_EXPORT", "ExportTime": T0}),
        ([full(T0)], T0 + HOUR, incremental(T0, T0 + HOUR)),
        # A run that was late leaves nothing out, and takes no more than DynamoDB gives.
        ([full(T0)], T0 + 3 * DAY, incremental(T0, T0 + DAY)),
        (
            [part(T0 + HOUR), full(T0)],
            T0 + 2 * HOUR,
            incremental(T0 + HOUR, T0 + 2 * HOUR),
        ),
        ([full(T0)], T0 + timedelta(minutes=14), None),
        ([full(T0), part(T0 + HOUR, is_done=False)], T0 + 2 * HOUR, None),
        # Each week a full one, as of where the others have come to.
        (
            [full(T0), part(T0 + 7 * DAY)],
            T0 + 7 * DAY + HOUR,
            {"ExportType": "FULL_EXPORT", "ExportTime": T0 + 7 * DAY},
        ),
        (
            [full(T0 + 7 * DAY), part(T0 + 7 * DAY), full(T0)],
            T0 + 7 * DAY + HOUR,
            incremental(T0 + 7 * DAY, T0 + 7 * DAY + HOUR),
        ),
    ],
)
def test_each_export_goes_on_where_the_last_one_ended(
    past: list[Past], now: datetime, wanted: dict[str, Any] | None
) -> None:
    assert next_export(past, now) == wanted


def test_exports_to_other_places_and_failed_ones_do_not_count() -> None:
    client = boto3.client(
        "dynamodb", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="s"
    )
    stubbed = Stubber(client)
    arns = [f"{TABLE}/export/{number:037}" for number in range(3)]
    pages = [("FAILED", arns[:1], "more"), ("COMPLETED", arns[1:], "")]
    places = {arns[1]: "elsewhere", arns[2]: "exports"}
    for status, its, more in pages:
        summaries = [{"ExportArn": arn, "ExportStatus": status} for arn in its]
        asked = {"TableArn": TABLE} | ({} if more else {"NextToken": "more"})
        answer = {"ExportSummaries": summaries} | ({"NextToken": more} if more else {})
        stubbed.add_response("list_exports", answer, asked)
        for arn in its if status == "COMPLETED" else ():
            said: dict[str, Any] = {
                "S3Bucket": "b",
                "S3Prefix": places[arn],
                "ExportStatus": status,
            }
            said |= {"ExportType": "FULL_EXPORT", "ExportTime": T0}
            stubbed.add_response("describe_export", {"ExportDescription": said}, {"ExportArn": arn})
    wanted = incremental(T0, T0 + HOUR)
    started = {"ExportDescription": {"ExportArn": f"{TABLE}/export/{9:037}"}}
    stubbed.add_response("export_table_to_point_in_time", started)
    with stubbed:
        told = export(client, TABLE, "s3://b/exports", T0 + HOUR)
    assert told == f"{TABLE}: {wanted['ExportType']} {TABLE}/export/{9:037}"


def test_a_place_that_is_not_in_s3_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tables", TABLE, "--out", "exports"]) == 2
    assert "--out: exports is not in S3" in capsys.readouterr().err

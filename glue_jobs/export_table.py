"""The job that has DynamoDB export tables to S3, each export going on where the last one ended.

    python -m glue_jobs.export_table --tables ARN[,ARN] --out s3://bucket/prefix

A full export to begin with and each week, incremental ones between: audits read them all
(docs/audit.md). Who repeats a run asks for the same export again, by the same token.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from typing import Any, Final

from glue_jobs.arguments import Argument, JobError, read

FORMAT: Final = "DYNAMODB_JSON"
FULL: Final = "FULL_EXPORT"
INCREMENTAL: Final = "INCREMENTAL_EXPORT"

ARGUMENTS: Final = (
    Argument("tables", "ARNs of tables, with commas between."),
    Argument("out", "s3://bucket/prefix for their exports."),
)
FULL_EVERY: Final = timedelta(days=7)
LEAST, MOST = timedelta(minutes=15), timedelta(hours=24)
"""What an incremental export covers, by DynamoDB's rules."""

_S3: Final = "s3://"
_FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Past:
    """An export that was asked for: it has everything up to `until`, or what changed till then."""

    until: datetime
    is_full: bool
    is_done: bool


def next_export(past: Iterable[Past], now: datetime) -> dict[str, Any] | None:
    """What to ask for now, as DynamoDB's API has it; None: nothing yet.

    Incremental exports go on from the last one, so that none is missing where a run was late.
    """
    known = sorted(past, key=lambda its: (its.until, its.is_full))
    if any(not its.is_done for its in known):
        return None
    full = [its for its in known if its.is_full]
    if not full:
        return {"ExportType": FULL, "ExportTime": now}
    if known[-1].until - full[-1].until >= FULL_EVERY:
        # As of where the last one ended: those after it go on from there.
        return {"ExportType": FULL, "ExportTime": known[-1].until}
    since = known[-1].until
    if now - since < LEAST:
        return None
    times = {"ExportFromTime": since, "ExportToTime": min(now, since + MOST)}
    specification = {**times, "ExportViewType": "NEW_AND_OLD_IMAGES"}
    return {"ExportType": INCREMENTAL, "IncrementalExportSpecification": specification}


def past_exports(client: Any, table: str, bucket: str, prefix: str) -> list[Past]:
    """Exports of a table to a place that did not fail; DynamoDB knows those of 90 days."""
    found = []
    asked: dict[str, Any] = {"TableArn": table}
    while True:
        page = client.list_exports(**asked)
        for its in page["ExportSummaries"]:
            if its["ExportStatus"] != _FAILED:
                said = client.describe_export(ExportArn=its["ExportArn"])["ExportDescription"]
                if (said["S3Bucket"], said.get("S3Prefix", "")) == (bucket, prefix):
                    found.append(_past(said))
        if "NextToken" not in page:
            return found
        asked["NextToken"] = page["NextToken"]


def _past(said: Mapping[str, Any]) -> Past:
    is_full = said.get("ExportType", FULL) == FULL
    until = (
        said["ExportTime"] if is_full else said["IncrementalExportSpecification"]["ExportToTime"]
    )
    return Past(until, is_full, said["ExportStatus"] == "COMPLETED")


def export(client: Any, table: str, out: str, now: datetime) -> str:
    """Ask for the next export of a table, if it is time; what was done, as a line."""
    bucket, _, prefix = out.removeprefix(_S3).strip("/").partition("/")
    asked = next_export(past_exports(client, table, bucket, prefix), now)
    if asked is None:
        return f"{table}: nothing to export yet"
    # A minute is long enough for a run and its repetition to be one.
    token = sha256(f"{table} {out} {now:%Y-%m-%dT%H:%M} {asked['ExportType']}".encode()).hexdigest()
    answer = client.export_table_to_point_in_time(
        TableArn=table,
        S3Bucket=bucket,
        **({"S3Prefix": prefix} if prefix else {}),
        ExportFormat=FORMAT,
        ClientToken=token[:32],
        **asked,
    )
    return f"{table}: {asked['ExportType']} {answer['ExportDescription']['ExportArn']}"


def main(argv: Sequence[str]) -> int:
    """Ask for what is due of each table; the exit code."""
    try:
        options = read(ARGUMENTS, argv)
        if not options["out"].startswith(_S3):
            raise JobError(f"--out: {options['out']} is not in S3")
        client = import_module("boto3").client("dynamodb")
        now = datetime(*time.gmtime()[:6], tzinfo=UTC)
        for table in options["tables"].split(","):
            print(export(client, table, options["out"], now))  # noqa: T201 - a job tells its log
    except JobError as error:
        print(f"export_table: {error}", file=sys.stderr)  # noqa: T201 - a job tells its log
        return 2
    return 0


if __name__ == "__main__" and (code := main(sys.argv[1:])):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)

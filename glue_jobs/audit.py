"""The audit: exports of a cell, and usage, against each other; a report that names what differs."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs import access, audit_report, conservation, evidence
from glue_jobs.arguments import Argument, JobError, read
from glue_jobs.conservation import ERRORS, QUEUE, Window
from glue_jobs.exports import Export, Refused, find_exports, observations
from glue_jobs.identities import Run
from glue_jobs.places import Place, place_of
from glue_jobs.records import RECORDS
from glue_jobs.screening import screen
from glue_jobs.session import open_session
from glue_jobs.usage import read_records

ARGUMENTS: Final = (
    Argument("exports", "Folder or s3://bucket/prefix with exports of a cell."),
    Argument("usage", "Usage place; without one, sends and deletes are not compared.", ""),
    Argument("out", "Where the report goes: folder or s3://bucket/prefix."),
    Argument("table", "ARN of the table or cell, where there are exports of several.", ""),
)

FINDINGS_MAX: Final = 100_000
"""Named in the report; all are counted."""

TRACES_KEPT_US: Final = 3 * 86_400_000_000
"""For so long a cell keeps traces: an export that comes sooner has all that was ever sent."""

_US_PER_MINUTE: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of sends up to an export: rows by queue and minute, and what is missing of it."""

    rows: DataFrame
    began_minute: int
    gaps: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """What was read of a usage place."""

    records: DataFrame
    access: DataFrame
    runs: tuple[Run, ...]
    refused: tuple[Refused, ...]


def read_usage(session: SparkSession, place: Place) -> Usage:
    """Records, each once; files that are none are left out, with their reasons."""
    screened = [screen(place, found) for found in place.list(RECORDS)]
    good = [its for its in screened if not its.reason]
    records = read_records(session, [f"{place.url}/{its.name}" for its in good])
    return Usage(
        records.dropDuplicates(["writer", "number"]),
        access.read_access(session, place),
        tuple(run for its in good for run in its.runs),
        tuple(Refused(its.name, its.reason) for its in screened if its.reason),
    )


def ledger_of(items: DataFrame, usage: Usage) -> Ledger | None:
    """The ledger as it was when the last export was made; None: the cell has none."""
    mark = evidence.ledger_mark(items)
    if mark is None:
        return None
    writer, last, began_minute = mark
    recorded = usage.records.where((f.col("writer") == writer) & (f.col("number") <= last)).select(
        "minute", *QUEUE, "messages"
    )
    rows = evidence.ledger_rows(items)
    return Ledger(recorded.unionByName(rows), began_minute, _missing(usage.runs, writer, last))


def _missing(runs: Iterable[Run], writer: str, last: int) -> tuple[tuple[str, int, int], ...]:
    """Ranges of a writer's numbers, up to the last, that no file has."""
    missing = []
    reached = 0
    for run in sorted(run for run in runs if run.writer == writer):
        if run.first > reached + 1:
            missing.append((writer, reached + 1, min(run.first - 1, last)))
        reached = max(reached, run.last)
    if reached < last:
        missing.append((writer, reached + 1, last))
    return tuple(gap for gap in missing if gap[1] <= gap[2])


def window_of(exports: Sequence[Export], ledger: Ledger | None) -> Window:
    """From the beginning, where the first export has traces of that; else from that export on."""
    first = exports[0]
    began_us = ledger.began_minute * _US_PER_MINUTE if ledger is not None else 0
    if first.as_of_us - began_us <= TRACES_KEPT_US:
        return Window(exports[-1].as_of_us, began_us // _US_PER_MINUTE)
    return Window(exports[-1].as_of_us, first.as_of_us // _US_PER_MINUTE + 1)


def audit(
    session: SparkSession, place: Place, exports: Sequence[Export], usage: Usage
) -> dict[str, Any]:
    """The report, as audit_report.py has it. Raises JobError."""
    seen = observations(session, place, exports).cache()
    items = evidence.latest(seen).cache()
    definitions = evidence.definitions(seen).cache()
    done = evidence.done(items).cache()
    ledger = ledger_of(items, usage)
    window = window_of(exports, ledger)
    messages = evidence.messages(evidence.segments(items))
    fated = conservation.fates(messages, done, definitions, window).cache()
    counted = conservation.conservation(fated).cache()
    compared = conservation.metered(usage.records, counted).cache()
    found = [
        *conservation.by_message(fated, done, definitions),
        *conservation.by_move(fated),
        *_removed_unread(items),
    ]
    if ledger is not None:
        differences = conservation.sends(fated, ledger.rows, window)
        found += conservation.by_minute(differences, fated)
        if window.from_minute == ledger.began_minute:
            found.append(conservation.by_fifo_moves(fated, ledger.rows))
    if usage.runs:
        found.append(conservation.by_meter(compared))
    findings = reduce(DataFrame.unionByName, found).cache()
    return {
        "as_of_us": window.as_of_us,
        "from_minute": window.from_minute,
        "exports": [[its.name, its.as_of_us, its.is_full] for its in exports],
        "has_ledger": ledger is not None,
        "ledger_gaps": [list(gap) for gap in ledger.gaps] if ledger is not None else [],
        "conservation": _rows(counted),
        "metered": _rows(compared),
        "findings": _rows(findings.orderBy(*conservation.FINDING).limit(FINDINGS_MAX)),
        "findings_total": findings.count(),
        "access": _rows(access.who_did_what(usage.access)),
    }


def _removed_unread(items: DataFrame) -> list[DataFrame]:
    """Traces of items that the cell could not read when it removed them."""
    unread = items.where(
        f.col("partition").startswith("E|") & (f.col("item")["k"]["S"] == "u")
    ).select(f.split_part("partition", f.lit("|"), f.lit(2)).alias("uid"))
    detail = "'an item of it was removed that could not be read'"
    return [conservation.told(unread, conservation.Rule("removed_unread", "true", detail))]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def of_one_table(exports: Sequence[Export], table: str) -> list[Export]:
    """Those of the table; without a name there may be only one. Raises JobError."""
    tables = sorted({export.table for export in exports})
    if not table and len(tables) > 1:
        raise JobError(f"--table: there are exports of several: {', '.join(tables)}")
    its = [export for export in exports if table in ("", export.table)]
    if not any(export.is_full for export in its):
        raise JobError("--exports: there is no full export to begin with")
    first = next(number for number, export in enumerate(its) if export.is_full)
    return its[first:]


def run(options: Mapping[str, str], session: SparkSession) -> audit_report.Report:
    """Audit, and put the report; it has its folder in the place of reports as `folder`.

    Raises JobError.
    """
    place = place_of(options["exports"])
    whole, refused = find_exports(place)
    exports = of_one_table(whole, options["table"])
    usage = _no_usage(session)
    if options["usage"]:
        usage = read_usage(session, place_of(options["usage"]))
    report = audit(session, place, exports, usage)
    not_read = [[its.name, its.reason] for its in (*refused, *usage.refused)]
    report = audit_report.completed(report, not_read, ERRORS)
    return {**report, "folder": audit_report.put(place_of(options["out"]), report)}


def main(argv: Sequence[str]) -> int:
    """Audit; the exit code is 1 where something should not be so, 2 where nothing was read."""
    options = read(ARGUMENTS, argv)
    try:
        report = run(options, open_session("audit"))
    except JobError as error:
        print(f"audit: {error}", file=sys.stderr)  # noqa: T201 - a job tells its log
        return 2
    page = f"{options['out']}/{report['folder']}/report.html"
    told = f"audit: {report['errors']} errors, {report['notes']} notes: {page}"
    print(told)  # noqa: T201 - a job tells its log
    return 1 if report["errors"] else 0


def _no_usage(session: SparkSession) -> Usage:
    records = read_records(session, [])
    return Usage(records, session.createDataFrame([], access.SPARK_SCHEMA), (), ())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

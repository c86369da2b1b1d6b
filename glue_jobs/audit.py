"""The audit: exports of a cell, and usage, against each other; a report that names what differs."""

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs import (
    access,
    audit_report,
    conservation,
    evidence,
    replicas,
    stream_records,
)
from glue_jobs.arguments import Argument, JobError, read
from glue_jobs.audit_inputs import Told, Usage, no_usage, put_aside, read_usage
from glue_jobs.conservation import ERRORS, Window
from glue_jobs.exports import (
    TRACES_KEPT_US,
    Export,
    behind,
    by_cell,
    cells_of,
    complete_to_us,
    find_exports,
    gaps_between,
    observations,
)
from glue_jobs.ledger import Ledger, by_ledger, ledger_of, without_usage
from glue_jobs.lost_executors import begun_again
from glue_jobs.places import Place, is_missing, is_unwritable, place_of
from glue_jobs.plural import counted
from glue_jobs.progress import SILENT, Progress
from glue_jobs.session import LITTLE_BYTES, open_session

ARGUMENTS: Final = (
    Argument("exports", "Folder or s3://bucket/prefix with exports of a cell."),
    Argument("usage", "Usage place; without one, sends and deletes are not compared.", ""),
    Argument("out", "Where the report goes: folder or s3://bucket/prefix."),
    Argument("table", "ARN of a table or cell; all: several tables are one service's.", ""),
    Argument("restored", "Tables that were restored under other names: OLD=NEW,...", ""),
)
ALL: Final = "all"

FINDINGS_MAX: Final = 100_000
"""Named in the report; all are counted."""

_US_PER_MINUTE: Final = 60_000_000


def window_of(exports: Sequence[Export], ledger: Ledger | None, usage: Usage) -> Window:
    """From the beginning, where the first export has traces of that; else from that export on.

    In no case from before `metered_from`: what was sent while usage was off is in no ledger.
    """
    first = exports[0]
    began_us = ledger.began_minute * _US_PER_MINUTE if ledger is not None else 0
    if first.as_of_us - began_us <= TRACES_KEPT_US:
        from_minute = began_us // _US_PER_MINUTE
    else:
        from_minute = first.as_of_us // _US_PER_MINUTE + 1
    return Window(
        exports[-1].as_of_us,
        max(from_minute, usage.metered_from),
        surely_before(exports, usage.ended_us),
        complete_to_us(exports),
    )


def surely_before(exports: Sequence[Export], ended_us: int) -> int:
    """The minute before which exports of all cells have all that was served.

    A minute may go on after an export was made in it; not where all had `ended_us` by then, -1: not
    all have.
    """
    complete_us = complete_to_us(exports)
    minute = complete_us // _US_PER_MINUTE
    return minute + 1 if 0 <= ended_us <= complete_us else minute


def audit(
    session: SparkSession, place: Place, exports: Sequence[Export], usage: Usage, progress: Progress
) -> dict[str, Any]:
    """The report, as audit_report.py has it. Raises JobError."""
    progress.step(f"reading {len(exports)} exports")
    # Checkpoints and not caches: plans that grow from step to step take longer than what they do.
    # They are lost with executors: who calls this begins again then (lost_executors.py).
    seen = observations(session, place, exports).localCheckpoint()
    progress.done("each item as it was seen")
    copies = replicas.copies(seen) if len({its.cell for its in exports}) > 1 else None
    lacked, gaps = None, list[str]()
    if copies is not None:
        gaps = behind(exports, replicas.tables_of_queues(seen, copies))
        as_of_us, complete_us = exports[-1].as_of_us, complete_to_us(exports)
        lacked = replicas.lacking(copies, as_of_us, complete_us).localCheckpoint()
        seen = replicas.with_held(copies, lacked, as_of_us).localCheckpoint()
    items = evidence.latest(seen).localCheckpoint()
    streams = stream_records.definitions(seen, items).localCheckpoint()
    definitions = stream_records.queues(seen, streams).localCheckpoint()
    slots = stream_records.slots(items, seen, streams).localCheckpoint()
    # Sends to several cells are in no ledger: each would have its own.
    ledger = ledger_of(items, seen, usage) if copies is None else None
    window = window_of(exports, ledger, usage)
    progress.step("following each message")
    done = evidence.done(items, seen, window.as_of_us).localCheckpoint()
    messages = evidence.messages(evidence.segments(items)).unionByName(
        stream_records.as_messages(slots, definitions)
    )
    fated = conservation.fates(messages, done, definitions, window).localCheckpoint()
    of_streams = stream_records.conservation(slots)
    counted = conservation.conservation(fated).unionByName(of_streams).localCheckpoint()
    progress.done(f"{counted.count():,} partitions of queues")
    progress.step("comparing what was sent, stored and metered")
    compared = conservation.metered(usage.records, counted, window).localCheckpoint()
    found = [
        *conservation.by_message(fated, done, definitions),
        *conservation.by_move(fated),
        *_removed_unread(items),
        conservation.by_item(evidence.changed(seen), definitions),
        *stream_records.findings(slots, streams, seen, items),
    ]
    if ledger is not None:
        differences = conservation.sends(fated, ledger.rows, window)
        found += conservation.by_minute(differences, fated)
        found += by_ledger(ledger, items, definitions, differences, window)
        if window.from_minute == ledger.began_minute:
            found.append(conservation.by_fifo_moves(fated, ledger.rows))
    if usage.runs:
        found += stream_records.by_metered_puts(slots, compared, usage)
        found += _by_usage(usage, compared, fated, has_ledger=ledger is not None)
    if copies is not None and lacked is not None:
        found += conservation.by_copy(lacked, replicas.states_that_differ(copies), definitions)
        found.append(conservation.by_item(replicas.changed_in_others(copies), definitions))
        others = replicas.of_others(copies, done, window.as_of_us).localCheckpoint()
        found += conservation.by_other_copy(others, definitions)
        found.append(stream_records.by_copy(copies, streams, exports))
    findings = reduce(DataFrame.unionByName, found).localCheckpoint()
    progress.done(f"{(found_total := findings.count()):,} differences")
    return {
        "as_of_us": window.as_of_us,
        "from_minute": window.from_minute,
        "exports": [[its.name, its.as_of_us, its.is_full] for its in exports],
        "has_ledger": ledger is not None,
        "told": _told(usage, ledger, items, gaps),
        "conservation": _rows(counted),
        "metered": _rows(compared.drop(*conservation.SURELY)),
        "findings": _rows(findings.orderBy(*conservation.FINDING).limit(FINDINGS_MAX)),
        "findings_total": found_total,
        "access": _rows(access.who_did_what(usage.access)),
    }


def _told(
    usage: Usage, ledger: Ledger | None, items: DataFrame, gaps: Sequence[str]
) -> list[dict[str, Any]]:
    told = [*usage.told, *(Told("export_gap", 1, gap) for gap in gaps)]
    told += ledger.told if ledger is not None else ()
    return [asdict(its) for its in (*told, *without_usage(items, usage))]


def _by_usage(
    usage: Usage, compared: DataFrame, fated: DataFrame, *, has_ledger: bool
) -> list[DataFrame]:
    """Messages against sends, where no ledger has those, and deletes."""
    of_queues = compared.where(~f.col("queue").startswith(conservation.OF_STREAM))
    found = [conservation.by_meter(of_queues)]
    if not has_ledger:
        is_whole = _is_whole(usage, fated)
        found.append(conservation.by_metered_sends(of_queues, is_whole=is_whole))
    return found


def _is_whole(usage: Usage, fated: DataFrame) -> bool:
    """Whether usage has the answers to all sends of these messages."""
    first = fated.agg(f.min("minute")).collect()[0][0]
    return usage.from_minute >= 0 and (first is None or usage.from_minute <= first)


def _removed_unread(items: DataFrame) -> list[DataFrame]:
    """Traces of items that the cell could not read when it removed them."""
    unread = items.where(
        f.col("partition").startswith("E|") & (f.col("item")["k"]["S"] == "u")
    ).select(f.split_part("partition", f.lit("|"), f.lit(2)).alias("uid"))
    detail = "'an item of it was removed that could not be read'"
    return [conservation.told(unread, conservation.Rule("removed_unread", "true", detail))]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def of_one_service(exports: Sequence[Export], table: str) -> list[Export]:
    """Those of the table, or of all cells of one service. Raises JobError.

    Exports of embedded cells name all of their service; of tables the argument has to say so.
    """
    tables = sorted({export.table for export in exports})
    named = {cell for export in exports for cell in export.cells}
    if not table and len(tables) > 1 and not named.issuperset(cells_of(exports)):
        raise JobError(f"--table: there are exports of several: {', '.join(tables)}")
    its = [export for export in exports if table in ("", ALL, export.table)]
    begun: list[Export] = []
    for cell, of_cell in by_cell(its).items():
        if not any(export.is_full for export in of_cell):
            raise JobError(f"--exports: there is no full export of {cell} to begin with")
        first = next(number for number, export in enumerate(of_cell) if export.is_full)
        begun += of_cell[first:]
    if not begun:
        raise JobError("--exports: there is no full export to begin with")
    return sorted(begun, key=lambda export: (export.as_of_us, not export.is_full, export.name))


def under_their_names(exports: Sequence[Export], restored: str) -> list[Export]:
    """Those of tables that were restored count as their tables': they go on with what was there.

    Raises JobError.
    """
    names: dict[str, str] = {}
    for one in filter(None, restored.split(",")):
        name, equals, table = one.partition("=")
        if not (name and equals and table):
            raise JobError(f"--restored: {one!r} is not of the form OLD=NEW")
        names[table] = name
    return [
        replace(its, table=f"{its.table.rpartition('/')[0]}/{names.get(its.cell, its.cell)}")
        for its in exports
    ]


def run(
    options: Mapping[str, str], session: SparkSession, progress: Progress = SILENT
) -> audit_report.Report:
    """Audit, and put the report; it has its folder in the place of reports as `folder`.

    Raises JobError.
    """
    place = place_of(options["exports"])
    progress.step(f"looking at exports in {place.url}")
    whole, refused, strays = find_exports(place)
    exports = of_one_service(under_their_names(whole, options["restored"]), options["table"])
    usage, out = no_usage(session), place_of(options["out"])
    cells = counted(len(cells_of(exports)), "cell")
    progress.done(f"{counted(len(exports), 'export')} of {cells}; {len(refused)} not read")
    if options["usage"]:
        usage_place = place_of(options["usage"])
        progress.step(f"reading usage in {usage_place.url}")
        usage = read_usage(session, usage_place)
        put_aside(usage, usage_place, out)
        progress.done(f"{len(usage.runs):,} runs of records; {len(usage.aside)} objects put aside")
    report = audit(session, place, exports, usage, progress)
    told = [
        *(Told("not_read", 1, f"{its.name}: {its.reason}") for its in refused),
        *(Told("export_gap", 1, gap) for gap in gaps_between(exports)),
        *(Told("stray", 1, f"{name}: it belongs to no export") for name in strays),
    ]
    report["told"] += [asdict(its) for its in told]
    report = audit_report.completed(report, ERRORS)
    return {**report, "folder": audit_report.put(out, report)}


def main(argv: Sequence[str]) -> int:
    """Audit; the exit code is 1 where something should not be so, 2 where nothing was audited."""
    try:
        options = read(ARGUMENTS, argv)
        if options["usage"] and is_missing(options["usage"]):
            raise JobError(f"usage: there is no folder {options['usage']}; '' compares nothing")
        if is_unwritable(options["out"]):
            raise JobError(f"out: {options['out']} is no folder that can be written, or made")
        size_bytes = sum(found.bytes for found in place_of(options["exports"]).list(""))
        progress = Progress("audit", _say)
        progress.step("starting Spark")
        session = open_session("audit", is_little=size_bytes < LITTLE_BYTES)
        report = begun_again(partial(run, options, session, progress), progress.step)
    except JobError as error:
        _say(f"audit: {error}")
        return 2
    except Exception:  # noqa: BLE001 - told whole; and Python's own exit code is that of errors found
        traceback.print_exc()
        return 2
    page = f"{options['out']}/{report['folder']}/report.html"
    errors, notes = counted(report["errors"], "error"), counted(report["notes"], "note")
    told = f"audit: {errors}, {notes}: {page}"
    print(told)  # noqa: T201 - a job tells its log
    return 1 if report["errors"] else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a job tells its log


if __name__ == "__main__" and (code := main(sys.argv[1:])):
    # Glue takes any exit, that of success as well, for a failure.
    sys.exit(code)

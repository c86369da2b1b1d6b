"""The report of an audit: JSON with all of it, tables for programs, a page for people."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from glue_jobs import audit_summary
from glue_jobs.access import WHAT, WHO
from glue_jobs.conservation import FATES, FINDING, QUEUE
from glue_jobs.outputs import canonical, put_once
from glue_jobs.places import Place

SCHEMA: Final = "tidegate.audit/1"
ROWS_MAX: Final = 500
"""Rows of a table of the page; the CSVs have all."""

CONSERVATION: Final = (*QUEUE, "uid", "partition", "sent", "came_by_move", *FATES)
METERED: Final = (
    *(*QUEUE, "sent", "metered_sent", "metered_received", "deleted", "metered_deleted"),
)
ACCESS: Final = (*WHO, *WHAT, "requests", "first_minute", "last_minute", "denied")

_TABLES: Final = {
    "conservation": CONSERVATION,
    "metered": METERED,
    "findings": ("severity", *FINDING),
    "access": ACCESS,
}
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Report = dict[str, Any]


def completed(report: Mapping[str, Any], errors: Iterable[str]) -> Report:
    """With what was told of the audit's own inputs as findings, too, and with counts."""
    kinds = frozenset(errors)
    nobody = dict.fromkeys(FINDING)
    findings = [*({**nobody, **its} for its in report["told"]), *report["findings"]]
    told = [{"severity": "error" if its["kind"] in kinds else "note", **its} for its in findings]
    told.sort(key=lambda its: its["severity"])
    unnamed = report["findings_total"] - len(report["findings"])
    wrong = sum(its["severity"] == "error" for its in told)
    queues = audit_summary.by_queue(report["conservation"], report["metered"], told)
    return {
        **{name: value for name, value in report.items() if name != "told"},
        "schema": SCHEMA,
        "findings": told,
        "findings_not_named": unnamed,
        "errors": wrong + unnamed,
        "notes": len(told) - wrong,
        "sentence": audit_summary.sentence(queues, told, wrong + unnamed),
        "queues": queues,
    }


def put(place: Place, report: Report) -> str:
    """Put the report under the moment that it is of; the name of its folder.

    A report of the same exports and usage has the same bytes. Raises JobError where there is one
    of this moment with other bytes.
    """
    content = canonical(report)
    at = moment(report["as_of_us"]).replace(":", "-").replace(" ", "T")
    folder = f"audit/{at}"
    put_once(place, f"{folder}/report.json", content)
    for name, columns in _TABLES.items():
        put_once(place, f"{folder}/{name}/rows.csv", _csv(columns, report[name]))
    put_once(place, f"{folder}/report.html", page(report).encode())
    return folder


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """What people named themselves must not be a formula in a spreadsheet."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


def moment(time_us: int) -> str:
    """A time as the report shows it, UTC."""
    at = _EPOCH + timedelta(microseconds=time_us)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond:06d}"


def page(report: Report) -> str:
    """The page: a sentence, each queue, then what differs and what there is.

    It needs nothing but itself.
    """
    denied = [row for row in report["access"] if row["denied"]]
    return _template().render(
        report=report,
        as_of=moment(report["as_of_us"]),
        exports=[(name, moment(at), is_full) for name, at, is_full in report["exports"]],
        fates=FATES,
        counts=audit_summary.COUNTS,
        by_severity=[
            (title, [row for row in report["findings"] if row["severity"] == severity])
            for severity, title in (("error", "Differences"), ("note", "Notes"))
        ],
        denied=denied,
        rows_max=ROWS_MAX,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("glue_jobs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["minute"] = lambda minute: moment(minute * 60_000_000)[:16]
    return environment.get_template("audit.html.j2")

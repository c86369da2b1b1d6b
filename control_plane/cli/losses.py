"""What a restore lost: the service that it made, beside exports and usage of before."""

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from control_plane.cli.audit import audit_command
from control_plane.cli.export import export_cells
from control_plane.cli.spark import how_to_install
from glue_jobs.digest import report, tree_of
from glue_jobs.places import is_missing, place_of
from glue_jobs.verifier import DIGESTS, Known

AUDITS: Final = "audits"
"""Folder of a data directory with the reports."""

_DIFFERS: Final = 1
_PLACE: Final = "PLACE"
"""Stands for what the operator knows, in a command that is only told."""


class Before(NamedTuple):
    """What is left of before: a folder of exports, and a usage place (""; none).

    The report goes to the place `out`; `python` is the Python that has Spark, if any has.
    """

    exports: Path
    usage: str
    out: str
    python: Path | None


def check_places(before: Before) -> None:
    """Raise UsageError for what is not there, before anything is restored."""
    for option, place in (("exports", str(before.exports)), ("usage", before.usage)):
        if place and is_missing(place):
            raise click.UsageError(f"--{option}: there is no folder {place}")


def how_to_compare(data: Path) -> str:
    """The commands that name what was lost, where no exports were given."""
    export = shlex.join(["tidegate", "export", _PLACE, "--data", str(data)])
    audit = shlex.join(["tidegate", "audit", "--exports", _PLACE, "--usage", _PLACE])
    return (
        "To name all of it, before a server starts, where exports and usage of before are:"
        f" {export} && {audit}"
    )


def how_to_compare_tables(tables: Mapping[str, str]) -> Sequence[str]:
    """The same for restored tables, by the names of those that they were restored from."""
    lines = [
        "aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON --s3-bucket"
        " BUCKET --s3-prefix exports --table-arn $(aws dynamodb describe-table --query"
        f" Table.TableArn --output text --table-name {shlex.quote(table)})"
        for table in tables.values()
    ]
    audit = ["tidegate", "audit", "--exports", "s3://BUCKET/exports", "--usage", _PLACE]
    audit += ["--table", "all"] if len(tables) > 1 else []
    renamed = ",".join(f"{old}={table}" for old, table in tables.items() if old != table)
    return [*lines, shlex.join([*audit, "--restored", renamed])]


def tell_losses(data: Path, before: Before) -> None:
    """Export what was restored, and audit it with what is left of before.

    Where there is no Spark, say how. Raises ClickException where it cannot be compared.
    """
    for place in filter(None, (str(before.exports), before.usage)):
        _tell_digests(place)
    if export_cells(before.exports, data):
        raise click.ClickException(
            f"the service is restored; not all of it was exported: {how_to_compare(data)}"
        )
    places = {"exports": str(before.exports), "usage": before.usage, "out": before.out}
    typed = ["tidegate", "audit"]
    for name, place in places.items():
        typed += [f"--{name}", place]
    if before.python is None:
        how = f"with Spark ({how_to_install()})"
        click.echo(f"To name what was lost, {how}: {shlex.join(typed)}")
        return
    ran = subprocess.run(  # noqa: S603 - the project's own program
        audit_command(before.python, places), stdout=subprocess.PIPE, text=True, check=False
    )
    click.echo(ran.stdout, nl=False)
    if ran.returncode not in {0, _DIFFERS}:
        raise click.ClickException(
            f"the service is restored; the audit failed: {shlex.join(typed)}"
        )
    for line in _summary(ran.stdout):
        click.echo(line)


def _tell_digests(place: str) -> None:
    """Whether the place is as its digests say; what came after the newest of them may be there."""
    if not any(place_of(place).list(DIGESTS)):
        click.echo(f"{place}: it has no digests")
        return
    for line in report(tree_of(place), Known(is_open=True)):
        click.echo(f"{place}: {line}")


def _summary(told: str) -> Sequence[str]:
    """How many of each kind of error by queue, of a report in a folder."""
    page = Path(told.rstrip().rpartition(": ")[2])
    if not page.is_file():
        return ()
    findings = json.loads(page.with_name("report.json").read_bytes())["findings"]
    counts: Counter[tuple[str, str]] = Counter()
    for its in findings:
        if its["severity"] == "error":
            counts[its["kind"], its["queue"] or "(no queue)"] += its["count"]
    return [f"{kind}: {count} of {queue}" for (kind, queue), count in sorted(counts.items())]

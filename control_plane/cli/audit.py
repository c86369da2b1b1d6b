"""`tidegate audit`: run the Spark job that audits, in the environment that has Spark."""

import subprocess
from pathlib import Path

import click

from control_plane.cli.bill import PYTHON

_JOB = "glue_jobs.audit"


@click.command(short_help="Say where every message went: a report of all that differs.")
@click.option(
    "--exports",
    required=True,
    metavar="PLACE",
    help="Exports of a cell, or of all of a service: a directory, or s3://bucket[/prefix].",
)
@click.option(
    "--usage",
    default="data/usage",
    metavar="PLACE",
    help="Where usage records are; '' compares nothing with them.",
)
@click.option("--out", default="data/audits", metavar="PLACE", help="Where the report goes.")
@click.option(
    "--table",
    default="",
    metavar="ARN",
    help="Where there are exports of several; `all`: they are of one service.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    default=PYTHON,
    show_default=".venvs/spark, which make bill installs",
    help="The Python that has Spark.",
)
@click.pass_context
def audit(context: click.Context, /, *, python: Path, **given: str) -> None:
    """Follow every message through all exports, and compare them with usage.

    The exit code is 1 where something is wrong. docs/audit.md says what each difference means.
    """
    if not python.exists():
        raise click.UsageError(f"--python: {python} is not there; `make bill` installs it")
    command = [str(python), "-m", _JOB, *(f"--{name}={value}" for name, value in given.items())]
    ran = subprocess.run(command, check=False)  # noqa: S603 - the project's own program
    context.exit(ran.returncode)

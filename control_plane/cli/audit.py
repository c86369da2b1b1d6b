"""`tidegate audit`: run the Spark job that audits, in the environment that has Spark."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from control_plane.cli.spark import python_option, spark_python

_JOB = "glue_jobs.audit"


def audit_command(python: Path, given: Mapping[str, str]) -> Sequence[str]:
    """What runs the job, with these arguments."""
    return [str(python), "-m", _JOB, *(f"--{name}={value}" for name, value in given.items())]


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
    "--restored",
    default="",
    metavar="OLD=NEW,...",
    help="Tables that were restored under other names.",
)
@python_option
@click.pass_context
def audit(context: click.Context, /, *, python: Path | None, **given: str) -> None:
    """Follow every message through all exports, and compare them with usage.

    The exit code is 1 where something is wrong, 2 where nothing was audited. docs/audit.md
    says what each difference means.
    """
    command = audit_command(spark_python(python), given)
    ran = subprocess.run(command, check=False)  # noqa: S603 - the project's own program
    context.exit(ran.returncode)

"""`tidegate digest`: whether what bills and audits rest on is as it was."""

import sys
from pathlib import Path

import click

from glue_jobs.verifier import report


@click.group()
def digest() -> None:
    """Check folders that have a chain of digests."""


@digest.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--head", metavar="HASH", default="", help="Of a digest that was kept elsewhere.")
@click.option("--open", "is_open", is_flag=True, help="Allow objects newer than all digests.")
def verify(folder: Path, head: str, *, is_open: bool) -> None:
    """Name every object that is not as the digests say, and every digest that is none.

    The last line is the newest digest's hash. Keep it elsewhere: with --head nobody can cut off or
    make anew what came before it. glue_jobs/verifier.py does the same with Python alone.
    """
    code = 0
    for line in report(folder, head, is_open=is_open):
        click.echo(line)
        code = code if line.startswith("head: ") else 1
    sys.exit(code)

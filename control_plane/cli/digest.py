"""`tidegate digest`: whether what bills and audits rest on is as it was."""

import sys

import click

from control_plane.cli.times import hour
from data_plane.system import SystemClock
from glue_jobs.arguments import JobError
from glue_jobs.digest import add_digest, tree_of
from glue_jobs.places import is_missing, place_of
from glue_jobs.verifier import report

_HOUR_S = 3600


@click.group()
def digest() -> None:
    """Chain the objects of a place by digests, and verify them."""


@digest.command("add")
@click.argument("place", metavar="FOLDER|s3://BUCKET[/PREFIX]")
@click.option(
    "--hour",
    "of_hour",
    metavar="YYYY-MM-DDTHH",
    show_default="the last one that is over",
    help="UTC.",
)
@click.option(
    "--apart", multiple=True, metavar="PREFIX", help="Of objects that may change; repeatable."
)
def add(place: str, of_hour: str | None, apart: tuple[str, ...]) -> None:
    """Add the digest of an hour: it names every object that none names yet."""
    last = hour(SystemClock().now_us() // 1_000_000 - _HOUR_S)
    try:
        added = add_digest(place_of(place), of_hour or last, apart)
    except JobError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"digest {added.number} of {added.hour}: {len(added.objects)} objects")
    click.echo(f"head: {added.hash}")


@digest.command()
@click.argument("place", metavar="FOLDER|s3://BUCKET[/PREFIX]")
@click.option("--head", metavar="HASH", default="", help="Of a digest that was kept elsewhere.")
@click.option("--open", "is_open", is_flag=True, help="Allow objects newer than all digests.")
def verify(place: str, head: str, *, is_open: bool) -> None:
    """Name every object that is not as the digests say, and every digest that is none.

    The last line is the newest digest's hash. Keep it elsewhere: with --head nobody can cut off or
    make anew what came before it. glue_jobs/verifier.py does the same with Python alone.
    """
    if is_missing(place):
        raise click.UsageError(f"there is no folder {place}")
    code = 0
    for line in report(tree_of(place), head, is_open=is_open):
        click.echo(line)
        code = code if line.startswith("head: ") else 1
    sys.exit(code)

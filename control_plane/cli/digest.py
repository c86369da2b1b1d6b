"""`tidegate digest`: whether what bills and audits rest on is as it was."""

import sys
from pathlib import Path

import click
from botocore.exceptions import BotoCoreError, ClientError

from control_plane.cli.times import hour
from data_plane.system import SystemClock
from glue_jobs.anchors import anchor_of, lines_in
from glue_jobs.arguments import JobError
from glue_jobs.attacks import look_of, told
from glue_jobs.digest import Rules, add_digest, kept_days, tree_of
from glue_jobs.places import is_missing, place_of
from glue_jobs.plural import counted
from glue_jobs.signing import create_key, signer_of
from glue_jobs.verifier import Known, chain_of, exit_code, findings, is_hour, key_in

_HOUR_S = 3600
_PLACE = "FOLDER|s3://BUCKET[/PREFIX]"
_ANCHOR = "FILE|FOLDER|s3://BUCKET[/PREFIX]"


@click.group()
def digest() -> None:
    """Chain the objects of a place by signed digests, and verify them."""


@digest.command("key", short_help="Make a key that signs digests.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def key(file: Path) -> None:
    """Make a key that signs digests, for its owner alone, and FILE.pub, which verifies them."""
    try:
        create_key(file)
        signer = signer_of(str(file))
        public = file.with_name(f"{file.name}.pub")
        public.write_bytes(signer.public_pem())
    except (JobError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"key: {signer.key}")
    click.echo(f"public key: {public}")


@digest.command("public-key", short_help="Print the public key, PEM, of a key that signs.")
@click.argument("key", metavar="FILE|KMS-ARN")
def public_key(key: str) -> None:
    """Print the public key, PEM, of a key that signs: a file's, or one of KMS."""
    try:
        click.echo(signer_of(key).public_pem(), nl=False)
    except JobError as error:
        raise click.ClickException(str(error)) from error


@digest.command("add", short_help="Add the digest of an hour.")
@click.argument("place", metavar=_PLACE)
@click.option(
    "--hour",
    "of_hour",
    metavar="YYYY-MM-DDTHH",
    show_default="the last one that is over",
    help="UTC.",
)
@click.option("--signer", metavar="FILE|KMS-ARN", default="", help="The key that signs.")
@click.option(
    "--anchor", "anchors", multiple=True, metavar=_ANCHOR, help="Keep the head there; repeatable."
)
@click.option("--chain", metavar="NAME", default="", show_default="the place", help="Its name.")
@click.option(
    "--apart", multiple=True, metavar="PREFIX", help="Of objects that are left out; repeatable."
)
@click.option(
    "--changing", multiple=True, metavar="PREFIX", help="Of objects that may change; repeatable."
)
@click.option(
    "--kept-days", multiple=True, metavar="PREFIX=DAYS", help="What may go then; repeatable."
)
@click.option("--every-hours", type=click.IntRange(0), default=0, help="When the next is due.")
def add(  # noqa: PLR0913 - one for each option
    place: str,
    *,
    of_hour: str | None,
    signer: str,
    anchors: tuple[str, ...],
    chain: str,
    apart: tuple[str, ...],
    changing: tuple[str, ...],
    kept_days: tuple[str, ...],
    every_hours: int,
) -> None:
    """Add the digest of an hour: it names every object that none names yet.

    Where none of the options about objects is given, those of the digest before hold.
    """
    _check_there(place)
    last = hour(SystemClock().now_us() // 1_000_000 - _HOUR_S)
    try:
        added = add_digest(
            place_of(place),
            of_hour or last,
            _rules(apart, changing, kept_days, every_hours),
            over=last,
            chain=chain,
            signer=signer_of(signer) if signer else None,
            anchors=[anchor_of(url) for url in anchors],
        )
    except (JobError, OSError, BotoCoreError, ClientError) as error:
        raise click.ClickException(str(error)) from error
    objects = counted(len(added.objects) + len(added.versions), "object")
    click.echo(f"digest {added.number} of {added.hour}: {objects}")
    click.echo(f"head: {added.hash}")


def _check_there(place: str) -> None:
    if is_missing(place):
        raise click.UsageError(f"there is no folder {place}")


def _rules(
    apart: tuple[str, ...], changing: tuple[str, ...], kept: tuple[str, ...], every_hours: int
) -> Rules | None:
    if not (apart or changing or kept or every_hours):
        return None
    return Rules(tuple(sorted(apart)), tuple(sorted(changing)), kept_days(kept), every_hours)


@digest.command(short_help="Name every object that is not as the digests say.")
@click.argument("place", metavar=_PLACE)
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Public key of who signs, PEM; repeatable.",
)
@click.option(
    "--anchor", "anchors", multiple=True, metavar=_ANCHOR, help="Where heads are kept; repeatable."
)
@click.option("--head", metavar="HASH", default="", help="Of a digest that was kept elsewhere.")
@click.option(
    "--as-of", metavar="YYYY-MM-DDTHH", show_default="the present", help="UTC, of an old copy."
)
@click.option("--open", "is_open", is_flag=True, help="Allow what is newer than all digests.")
def verify(  # noqa: PLR0913 - one for each option
    place: str,
    keys: tuple[Path, ...],
    anchors: tuple[str, ...],
    head: str,
    as_of: str | None,
    *,
    is_open: bool,
) -> None:
    """Name every object that is not as the digests say, and every digest that is none.

    With the public key of who signs nobody else can have made them anew; with an anchor nobody can
    have cut off the newest. It says which of twelve attacks are excluded by what was given. The
    last line is the newest digest's hash. The exit code is 0 where all is as it was, 1 where
    something is not, 2 where something could not be looked at. glue_jobs/verifier does the same
    with Python alone.
    """
    _check_there(place)
    present = as_of or hour(SystemClock().now_us() // 1_000_000)
    if not is_hour(present):
        raise click.UsageError(f"--as-of: {present!r} is not of the form YYYY-MM-DDTHH")
    try:
        known = Known(
            [key_in(path) for path in keys],
            [line for url in anchors for line in lines_in(url)] if anchors else None,
            head,
            present,
            is_open,
        )
        code = _tell(place, known)
    except (JobError, OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    sys.exit(code)


def _tell(place: str, known: Known) -> int:
    """Print what verifying comes to; the exit code."""
    tree, found = tree_of(place), []
    for line in findings(tree, known):
        click.echo(line)
        found.append(line)
    code = exit_code(found)
    chain, _wrong = chain_of(tree, tree.names())
    if chain:
        if not code:
            for line in told(look_of(chain, known)):
                click.echo(line)
        click.echo(f"head: {chain[-1].hash} {chain[-1].number} {chain[-1].hour}")
    return code

"""`tidegate keys`: the file of master keys."""

import sys
from pathlib import Path

import click

from data_plane.keys import file
from data_plane.keys.file import KeyFileError
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

_DEFAULTS = ServerSettings()


@click.group(short_help="Look after the file of master keys.")
def keys() -> None:
    """Look after the master keys, under which everything stored is sealed."""


@keys.command(short_help="Add a master key, for the next start.")
@click.option(
    "--data",
    envvar="TIDEGATE_DATA",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULTS.data,
    show_envvar=True,
    help="Directory of the server.",
)
@click.option(
    "--master-keys",
    "path",
    envvar="TIDEGATE_MASTER_KEYS",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=None,
    show_envvar=True,
    show_default="master.keys in --data",
    help="The file of master keys.",
)
def rotate(data: Path, path: Path | None) -> None:
    """Add a key, which servers wrap with from their next start on; older ones still open.

    Keep a copy of the file that results: an older copy does not open what is sealed from then on.
    """
    of = path or ServerSettings(data=data).key_file
    try:
        added = file.rotate(of, SystemEntropy(), SystemClock().now_us() // 1_000_000)
    except KeyFileError as error:
        click.echo(f"tidegate: master-keys: {error}", err=True)
        sys.exit(1)
    click.echo(
        f"Added key {added} to {of}. Copy the file to where its copies are and to every server,"
        " then restart the servers."
    )

"""`tidegate master-key`: the file of master keys."""

import sys
from pathlib import Path

import click

from control_plane.cli.setting import DIRECTORY, FILE, setting
from data_plane.keys import file
from data_plane.keys.file import KeyFileError
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy


@click.group(short_help="Look after the file of master keys.")
def master_key() -> None:
    """Look after the master keys, under which everything stored is sealed."""


@master_key.command(short_help="Add a master key, for the next start.")
@setting("--data", "Directory of the server.", type=DIRECTORY)
@setting(
    "--master-keys",
    "The file of master keys.",
    type=FILE,
    metavar="FILE",
    show_default="master.keys in --data",
)
def rotate(data: Path, master_keys: Path | None) -> None:
    """Add a key, which servers wrap with from their next start on; older ones still open.

    Keep a copy of the file that results: an older copy does not open what is sealed from then on.
    """
    of = master_keys or ServerSettings(data=data).key_file
    try:
        added = file.rotate(of, SystemEntropy(), SystemClock().now_us() // 1_000_000)
    except KeyFileError as error:
        click.echo(f"tidegate: master-keys: {error}", err=True)
        sys.exit(1)
    click.echo(
        f"Added key {added} to {of}. Copy the file to where its copies are and to every server,"
        " then restart the servers."
    )

"""`tidegate rescue`: what is whole of a damaged data directory, in a new one."""

from pathlib import Path
from typing import Final

import click

from control_plane.rescue import RescueError
from control_plane.rescue import rescue as run_rescue
from data_plane.system import SystemClock

_IN_PART: Final = 3
"""The exit code where something was damaged, or stays closed."""


@click.command()
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", metavar="TO", type=click.Path(path_type=Path, file_okay=False))
def rescue(source: Path, target: Path) -> None:
    """Write what is whole of the data directory FROM into the new directory TO.

    FROM is the --data of a server that is stopped, or one cell of several; nothing in it is
    changed. TO can be served at once: it gets master keys, credentials and usage records, too. That
    of one cell of several cannot be served alone, and the last line says how it can. Says what was
    damaged, for each queue how many messages are whole and how many are missing, and how many
    streams and records of streams are whole.

    Ends with 0 where everything was whole, with 3 where something was damaged or the master keys
    beside it do not open it, and with 1 where nothing was written.
    """
    try:
        rescued = run_rescue(source, target, SystemClock().now_us(), click.echo)
    except RescueError as error:
        raise click.ClickException(str(error)) from error
    if not rescued.is_whole:
        raise click.exceptions.Exit(_IN_PART)

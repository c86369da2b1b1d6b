"""`tidegate restore`: a service from a backup, or from tables that were restored."""

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from control_plane.backup.restoring import Wanted
from control_plane.backup.restoring import restore as run_restore
from control_plane.backup.source import BackupError
from control_plane.cells import StartError
from control_plane.cli.losses import (
    AUDITS,
    Before,
    check_places,
    how_to_compare,
    how_to_compare_tables,
    tell_losses,
)
from control_plane.cli.setting import DIRECTORY, FILE, setting
from control_plane.cli.spark import find_python
from control_plane.restored_tables import restore_tables
from data_plane.settings import ServerSettings, SettingError
from data_plane.system import SystemClock, SystemEntropy

_UMASK: Final = 0o077
_MOMENT: Final = "%Y-%m-%dT%H:%M:%S%z"


@click.command(short_help="Make a service of a backup, or of tables that were restored.")
@click.argument("source", metavar="[BACKUP]", type=DIRECTORY, required=False)
@click.option("--data", type=DIRECTORY, help="Directory of the new server; it must be empty.")
@click.option("--keys", type=FILE, metavar="FILE", help="The file of master keys.")
@click.option(
    "--cell-data",
    metavar="DIR,DIR,...",
    default="",
    help="Of several cells: their directories, in the order of their names.",
    show_default="in --data",
)
@click.option(
    "--exports",
    type=DIRECTORY,
    help="Exports of before: what was restored is exported there, too, and audited.",
)
@click.option(
    "--usage",
    metavar="PLACE",
    default="",
    help="With --exports: usage records of before.",
)
@click.option(
    "--audits",
    metavar="PLACE",
    default="",
    help="With --exports: where the report goes.",
    show_default="audits in --data",
)
@click.option(
    "--tables",
    metavar="CELL=TABLE,...",
    default="",
    help="Instead of a backup: the tables that cells lie in now, the registry's first.",
)
@click.option(
    "--as-of",
    metavar="TIME",
    type=click.DateTime([_MOMENT]),
    help="With --tables: bodies that were removed since then come back, in a bucket with versions.",
)
@setting("--region", "With --tables: their region.")
@setting(
    "--endpoint",
    "With --tables: where DynamoDB's API is served.",
    envvar="TIDEGATE_CELL_ENDPOINT",
    metavar="URL",
    show_default="AWS's, in the region",
)
@setting("--blobs", "With --as-of: where big bodies lie.", metavar="s3://BUCKET[/PREFIX]")
@setting(
    "--blobs-endpoint",
    "Where S3's API is served.",
    metavar="URL",
    show_default="that of --endpoint",
)
def restore(  # noqa: PLR0913 - two ways, with options of their own
    source: Path | None,
    *,
    data: Path | None,
    keys: Path | None,
    cell_data: str,
    exports: Path | None,
    usage: str,
    audits: str,
    tables: str,
    as_of: datetime | None,
    **places: str,
) -> None:
    """Make a data directory of BACKUP, all of which is checked before anything is written.

    A server starts on it as after a crash at the moment of the backup. What came after that moment
    is lost: with --exports, which were made before, `tidegate audit` names it.

    With --tables, make the cells of a service lie in tables that DynamoDB has restored to a point
    in time, under other names than they had. Nobody may use them meanwhile.
    """
    os.umask(_UMASK)
    if tables:
        if (source, data, exports) != (None, None, None):
            raise click.UsageError("--tables is for tables alone: no BACKUP, --data or --exports")
        _restore_tables(_named(tables), as_of, places)
        return
    if source is None or data is None:
        raise click.UsageError("name a BACKUP and --data, or --tables")
    folders = tuple(Path(path) for path in cell_data.split(",") if path)
    before = None
    if exports is not None:
        before = Before(exports, usage, audits or str(data / AUDITS), find_python())
        check_places(before)
    _restore_backup(Wanted(source, data, keys, folders))
    if before is None:
        click.echo(how_to_compare(data))
    else:
        tell_losses(data, before)


def _restore_backup(wanted: Wanted) -> None:
    try:
        restored = run_restore(wanted, SystemClock())
    except BackupError as error:
        raise click.ClickException(str(error)) from error
    contents = restored.contents
    click.echo(f"{wanted.data}: the service as of {contents.as_of}, {restored.items} items")
    click.echo(
        f"Lost: what was sent after {contents.as_of} (cell time {contents.as_of_us} us); undone:"
        " what was received or deleted after that"
    )
    for line in restored.closed:
        click.echo(f"tidegate: {line}", err=True)
    for cell in contents.missing:
        click.echo(f"tidegate: {cell.name} was not in the backup: {cell.reason}", err=True)
    click.echo(f"Start it: tidegate serve {' '.join(restored.options)}")
    click.echo(
        "Root's access key is in no backup: put back `credentials`, or add --new-root-key once"
    )


def _named(text: str) -> Mapping[str, str]:
    tables: dict[str, str] = {}
    for one in text.split(","):
        name, equals, table = one.partition("=")
        if not equals or name in tables:
            raise click.UsageError(f"--tables: {one!r} is not of the form CELL=TABLE, or is twice")
        tables[name] = table
    return tables


def _restore_tables(
    tables: Mapping[str, str], as_of: datetime | None, places: Mapping[str, str]
) -> None:
    name, table = next(iter(tables.items()))
    since_us = None if as_of is None else int(as_of.astimezone(UTC).timestamp() * 1_000_000)
    try:
        settings = ServerSettings(cell="dynamodb", table=table, cell_name=name, **places)  # type: ignore[arg-type]
        done = asyncio.run(
            restore_tables(settings, tables, since_us, SystemClock(), SystemEntropy())
        )
    except (SettingError, StartError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{table} is the cell {name}; {done.cells} addresses of cells written, {done.groups} groups"
        f" keep one copy, {done.bodies} bodies are back"
    )
    click.echo("Lost: what was sent after the moment that the tables were restored to")
    click.echo("To name all of it, where exports and usage of before are:")
    for line in how_to_compare_tables(done.tables):
        click.echo(f"  {line}")
    click.echo(f"Start servers with --table {table} --cell-name {name}")

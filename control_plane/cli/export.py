"""`tidegate export`: a cell as files, in DynamoDB's layout; and what such files hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from control_plane.cells import LOCAL
from control_plane.export.layout import ExportedCell, ExportExistsError, write_export
from control_plane.export.show import ShowError, shown_lines
from control_plane.export.source import SourceError, copied_cell
from data_plane.ports import Item
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock

_PROGRESS_ITEMS: Final = 100_000
_DEFAULTS: Final = ServerSettings()


class _ExportGroup(click.Group):
    """`tidegate export DIR` is the command `to`: what is no command's name is a directory's."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the first argument for a directory if no command has its name."""
        if args and self.get_command(ctx, args[0]) is None:
            args = ["to", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_ExportGroup, subcommand_metavar="DIR | show EXPORT")
def export() -> None:
    """Export a cell to a directory, in DynamoDB JSON and the layout of its exports to S3.

    `tidegate export DIR` writes all of an embedded cell as it is at one moment, while its server
    serves or when there is none. Audits read such exports, and those of DynamoDB tables.
    """


@export.command("to", hidden=True)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--data",
    envvar="TIDEGATE_DATA",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULTS.data,
    show_envvar=True,
    help="Directory of the embedded cell.",
)
def to(directory: Path, data: Path) -> None:
    """Export an embedded cell to a directory."""
    started_us = SystemClock().now_us()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with copied_cell(data, directory, started_us) as copied:
            exported = ExportedCell(LOCAL, copied.as_of_us)
            items = _with_progress(copied.items)
            written = write_export(directory, exported, items, started_us // 1000)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    except ExportExistsError as error:
        raise click.ClickException(f"there is this export already: {error}") from error
    except OSError as error:
        raise click.ClickException(f"cannot write to {directory}: {error.strerror}") from error
    click.echo(f"{written.folder}: {written.items} items, {written.size_bytes} bytes of JSON")


def _with_progress(items: Iterator[Item]) -> Iterator[Item]:
    for count, item in enumerate(items, start=1):
        if count % _PROGRESS_ITEMS == 0:
            click.echo(f"tidegate: {count} items", err=True)
        yield item


@export.command("show")
@click.argument("folder", metavar="EXPORT", type=click.Path(path_type=Path, exists=True))
@click.option("--partition", metavar="TEXT", default="", help="Only items whose key begins so.")
@click.option("--limit", type=click.IntRange(min=1), default=100, help="How many items at most.")
def show(folder: Path, partition: str, limit: int) -> None:
    """Show the items of an export to a person, one JSON object a line.

    EXPORT is a folder with a manifest. Numbers and texts that look like dates may be shown in
    another form than they have (docs/audit.md): audits read the files themselves.
    """
    try:
        for line in shown_lines(folder, partition, limit):
            click.echo(line)
    except ShowError as error:
        raise click.ClickException(str(error)) from error

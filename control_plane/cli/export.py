"""`tidegate export`: a cell as files, in DynamoDB's layout; and what such files hold."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from control_plane.cells import LOCAL
from control_plane.export.layout import ExportedCell, ExportExistsError, write_export
from control_plane.export.show import ShowError, shown_lines
from control_plane.export.source import DATA_FILE, SourceError, copied_cell, folders_of
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
    serves or when there is none; of a service of several cells each of them. Audits read such
    exports, and those of DynamoDB tables.
    """


@export.command("to", short_help="Export cells to a directory.", hidden=True)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--data",
    envvar="TIDEGATE_DATA",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULTS.data,
    show_envvar=True,
    help="Directory of the embedded cell, or of a service of several.",
)
def to(directory: Path, data: Path) -> None:
    """Export an embedded cell to a directory, or all cells of a service that has several."""
    if export_cells(directory, data):
        raise click.exceptions.Exit(1)


def export_cells(directory: Path, data: Path) -> bool:
    """Export all cells of a service; whether any is missing. Raises ClickException."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        folders = [] if (data / DATA_FILE).exists() else folders_of(data)
        if folders:
            return _export_all(directory, data, folders)
        return _export(directory, data) is None
    except OSError as error:
        raise click.ClickException(f"cannot write to {directory}: {error.strerror}") from error


def _export_all(directory: Path, data: Path, folders: Sequence[Path]) -> bool:
    """Each of the cells, and those elsewhere that they know of; whether any is missing."""
    missing = False
    left, done = list(folders), set[Path]()
    while left:
        folder = left.pop(0)
        done.add(folder)
        known = _export(directory, folder, is_of_several=True)
        if known is None:
            missing = True
            continue
        further = [(data / path).absolute() for path in known]
        left += [path for path in further if path not in {one.absolute() for one in (*done, *left)}]
    return missing


def _export(directory: Path, data: Path, *, is_of_several: bool = False) -> list[str] | None:
    """Export one cell: where all cells of its service are; None where it could not be exported."""
    started_us = SystemClock().now_us()
    try:
        with copied_cell(data, directory, started_us) as copied:
            if is_of_several and copied.name not in copied.paths:
                click.echo(f"tidegate: {data} is no cell of this service any more", err=True)
                return list(copied.paths.values())
            of = ExportedCell(copied.name or LOCAL, copied.as_of_us, tuple(sorted(copied.paths)))
            items = _with_progress(copied.items)
            written = write_export(directory, of, items, started_us // 1000)
    except SourceError as error:
        click.echo(f"tidegate: {error}", err=True)
        return None
    except ExportExistsError as error:
        click.echo(f"tidegate: there is this export already: {error}", err=True)
        return None
    click.echo(f"{written.folder}: {written.items} items, {written.size_bytes} bytes of JSON")
    others = [name for name in sorted(copied.paths) if name != copied.name]
    if others and not is_of_several:
        click.echo(f"tidegate: it is {copied.name}; {', '.join(others)} are others", err=True)
    return list(copied.paths.values())


def _with_progress(items: Iterator[Item]) -> Iterator[Item]:
    for count, item in enumerate(items, start=1):
        if count % _PROGRESS_ITEMS == 0:
            click.echo(f"tidegate: {count} items", err=True)
        yield item


@export.command("show", short_help="Show the items of an export.")
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

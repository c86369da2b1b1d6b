"""`tidegate backup`: all of a service's embedded cells as of one moment."""

import os
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import click
import msgspec

from control_plane.backup.folder import MANIFEST, is_backup, write_backup
from control_plane.backup.source import BackupError, backed_up
from control_plane.backup.stream import BackupCutOffError, Head
from control_plane.cli.setting import DIRECTORY, FILE, setting
from data_plane.keys import file
from data_plane.keys.file import KeyFileError
from data_plane.ports import CellUnavailableError, DamagedItemError
from data_plane.settings import ServerSettings

_UMASK: Final = 0o077
_IN_PART: Final = 3
"""The exit code where a cell of the service is not in the backup."""


@click.command(short_help="Write all embedded cells, as of one moment, to a directory.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@setting("--data", "Directory of the server, which may serve meanwhile or not.", type=DIRECTORY)
@setting(
    "--master-keys",
    "The file of master keys, where no server says where it is.",
    type=FILE,
    metavar="FILE",
    show_default="master.keys in --data",
)
@click.option("--keys", type=FILE, metavar="FILE", help="Write the master keys to this file, too.")
def backup(directory: Path, data: Path, master_keys: Path | None, keys: Path | None) -> None:
    """Write a backup of a service to the new directory DIR, while it serves.

    All cells are in it as of one moment: what was acknowledged before this began is there, and what
    was deleted before is not. It holds up nobody, and shows under its name when it is whole and on
    disk. The master keys are not in it, and it cannot be read without them.

    Ends with 3 where a cell that has failed is not in it, and with 1 where there is no backup.
    """
    os.umask(_UMASK)
    began_s = monotonic()
    key_file = master_keys or ServerSettings(data=data).key_file
    try:
        _check_apart(directory, data, keys)
        with backed_up(data, key_file) as records:
            contents, head = write_backup(directory, records, partial(_write_keys, keys))
    except (BackupError, BackupCutOffError, KeyFileError) as error:
        raise click.ClickException(str(error)) from error
    except DamagedItemError as error:
        raise click.ClickException(f"data: {data} has damaged items: {error}") from error
    except (CellUnavailableError, ConnectionError, TimeoutError, msgspec.MsgspecError) as error:
        raise click.ClickException(f"the backup was cut off ({error}); try it again") from error
    except OSError as error:
        where = error.filename or directory
        raise click.ClickException(f"cannot write {where}: {error.strerror}") from error
    cells = f"{len(contents.cells)} cell{'s' if len(contents.cells) > 1 else ''}"
    click.echo(
        f"{directory}: the service as of {contents.as_of}: {cells}, {contents.size_bytes} bytes, in"
        f" {monotonic() - began_s:.1f} s; {MANIFEST} has their checksums"
    )
    where = f"; a copy is in {keys}" if keys is not None else ""
    click.echo(
        f"The master keys are not in it, and without them it cannot be read: {head.keys}{where}"
    )
    for cell in contents.missing:
        click.echo(f"tidegate: {cell.name} is not in it: {cell.reason}", err=True)
    if contents.missing:
        raise click.exceptions.Exit(_IN_PART)


def _check_apart(directory: Path, data: Path, keys: Path | None) -> None:
    """A backup beside what it is of, or with the keys to it, is of little use."""
    backup_at = directory.resolve()
    if is_backup(data):
        raise BackupError(f"data: {data} is a backup: copy it as it is")
    if data.resolve() in (backup_at, *backup_at.parents):
        raise BackupError(f"{directory} is in {data}: name a directory elsewhere")
    if keys is not None and backup_at in keys.resolve().parents:
        raise BackupError(f"keys: {keys} is in the backup: name a file elsewhere")


def _write_keys(keys: Path | None, head: Head) -> None:
    if keys is None:
        return
    if not head.key_file:
        raise BackupError(f"keys: there is no file of them: {head.keys}")
    file.copy(Path(head.key_file), keys)

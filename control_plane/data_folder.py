"""The data directory before anything in it is opened: is it there, ours, and nobody else's?

A start never turns a known service into an empty one: where master keys, credentials or usage
records lie, a missing data file is a loss, and said so.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from control_plane.backup.folder import is_backup
from control_plane.backup.restoring import RESTORING
from control_plane.cell_folders import NEW_FOLDER
from control_plane.cells import BlockedStartError, StartError
from control_plane.folder_modes import FOLDER_MODE, USAGE_FOLDER, close_to_others, why_unusable
from control_plane.manifest import check_not_copied, read_manifest
from control_plane.places.starting import MANIFEST
from control_plane.whose_cell import service_above, several_in
from data_plane.embedded.store import DATA_FILE, DEATH_NOTE, CellInUseError
from data_plane.settings import CREDENTIALS_FILE, KEY_FILE, ServerSettings

_UMASK: Final = 0o077


def prepare_folders(settings: ServerSettings) -> list[str]:
    """Check the directories of a server, and close them to others; what was changed, a line each.

    What the process makes from now on is for its own user alone. Raises StartError.
    """
    os.umask(_UMASK)
    check_folders(settings)
    if settings.cell == "embedded":
        _make(settings.data)
    folders = dict.fromkeys((settings.data, *cell_folders(settings)))
    return [line for folder in folders for line in close_to_others(folder)]


@contextmanager
def nothing_left_behind(data: Path) -> Iterator[None]:
    """Where a start is refused in here, directories that it made go again, if they are empty."""
    made = [folder for folder in (data, *data.parents) if not os.path.lexists(folder)]
    try:
        yield
    except StartError:
        with suppress(OSError):  # something is in there
            for folder in made:
                folder.rmdir()
        raise


def check_folders(settings: ServerSettings) -> None:
    """Raise StartError unless a server may begin in its directories; nothing is changed."""
    if settings.cell == "embedded":  # others may need none of it
        # One of several cells that cannot be used begins as failed, and the others serve.
        _check_folder(settings.data)
        check_data(settings)


def check_data(settings: ServerSettings) -> None:
    """Raise StartError unless this is a directory for this service; nothing is changed."""
    _check_no_backup(settings.data)
    _check_restored(settings)
    _check_number(settings)
    if not settings.begin_anew:
        _check_data_file(settings)
        _check_beside(settings)


def cell_folders(settings: ServerSettings) -> Sequence[Path]:
    """The directories of embedded cells; none for another kind of cell. Raises StartError."""
    if settings.cell != "embedded":
        return ()
    if not settings.has_several:
        return (settings.data,)
    if settings.cell_folders:
        return settings.cell_folders
    if (known := read_manifest(settings.data)) is not None:
        check_not_copied(settings.data, known)
        return tuple(settings.data / path for path in known.paths.values())
    numbers = range(1, settings.cells + 1)
    return tuple(settings.data / NEW_FOLDER.format(number=number) for number in numbers)


def death_notes(settings: ServerSettings) -> list[Path]:
    """Where a death is noted that left data files in doubt. Raises StartError."""
    return [folder.resolve() / DEATH_NOTE for folder in cell_folders(settings)]


def _check_folder(folder: Path) -> None:
    """Raise StartError unless files can be made in there, or it can be made."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        if reason := why_unusable(folder):
            raise StartError(f"data: cannot use {folder}: {reason}") from None
        return
    except OSError as error:
        raise StartError(f"data: cannot use {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise StartError(f"data: {folder} is no directory; name one with --data")
    by_effective_ids = os.access in os.supports_effective_ids
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=by_effective_ids):
        return
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise StartError(f"data: {folder} is on a file system that is read-only; name another")
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid():
        raise StartError(f"data: cannot write to {folder} (mode {mode:o}): chmod 700 {folder}")
    raise StartError(
        f"data: {folder} belongs to user {found.st_uid} (mode {mode:o}), and this server runs as"
        f" user {os.geteuid()}: chown it, or name another directory with --data"
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"data: cannot use {folder}: {error.strerror}") from error


def _check_restored(settings: ServerSettings) -> None:
    """Raise StartError where a backup is not restored, or not all of it."""
    for folder in (settings.data, *cell_folders(settings)):
        if os.path.lexists(folder / RESTORING):
            raise BlockedStartError(
                f"data: a backup is being restored to {folder}, or that was cut off: empty"
                f" {settings.data}, and restore it again"
            )


def _check_no_backup(data: Path) -> None:
    """Raise StartError where the directory is a backup, or lies in one."""
    folder = next((one for one in (data, *data.resolve().parents) if is_backup(one)), None)
    if folder is None:
        return
    where = f"{folder} is a backup" if folder == data else f"{data} is in a backup, {folder}"
    raise StartError(
        f"data: {where}: tidegate restore {folder} --data NEW --keys FILE makes a data directory"
        " of it"
    )


def _check_number(settings: ServerSettings) -> None:
    """Raise StartError where one cell is asked for, and the service has several."""
    data = settings.data
    if settings.has_several:
        return
    try:
        known = read_manifest(data)
        if known is None and not _has_bytes(data / DATA_FILE):
            known = several_in(data)
    except CellInUseError as error:
        raise BlockedStartError(str(error)) from error
    if known is not None:
        cells = len(known.paths)
        raise StartError(f"cells: {data} has {cells} cells: --cells {cells}")


def _check_beside(settings: ServerSettings) -> None:
    """Raise StartError where a new store would begin in the data directory of another service."""
    data = settings.data.absolute()
    has_data = any(data.glob(f"*/{DATA_FILE}")) or (data / DATA_FILE).exists()
    if has_data or (data / MANIFEST).exists():
        return
    above = service_above(data)
    if above is not None:
        raise StartError(
            f"data: {data} has no store, and {above} is a service's: name that with --data,"
            " or begin with an empty store: --begin-anew"
        )


def _check_data_file(settings: ServerSettings) -> None:
    """Raise StartError where there was a store and there is none."""
    cells = cell_folders(settings)
    if any(_has_bytes(folder / DATA_FILE) for folder in (settings.data, *cells)):
        return
    has_cells = settings.has_several and any(settings.data.glob(f"*/{DATA_FILE}"))
    if has_cells or (settings.data / MANIFEST).exists():
        return  # they are, or were, several, which is seen to elsewhere
    left = [name for name in (KEY_FILE, CREDENTIALS_FILE) if (settings.data / name).exists()]
    usage = settings.data / USAGE_FOLDER
    if usage.is_dir() and any(usage.iterdir()):
        left.append(USAGE_FOLDER)
    if left:
        raise BlockedStartError(
            f"data: {settings.data} has {' and '.join(left)}, but no {DATA_FILE}, which held the"
            " queues and messages: put it back (from a backup, or what tidegate rescue wrote), or"
            " begin with an empty store: --begin-anew"
        )


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True  # who opens it says why that cannot be done

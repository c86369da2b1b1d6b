"""Directories of a service: whether they can be, and that they are for its own user alone."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from control_plane.cell_folders import NEW_FOLDER
from control_plane.places.starting import MANIFEST
from data_plane.embedded.store import DATA_FILE, LOCK_FILE
from data_plane.settings import CREDENTIALS_FILE, KEY_FILE

USAGE_FOLDER: Final = "usage"
FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def _foreign(folder: Path) -> str:
    """The first file of a directory in which nothing is a service's; "": there is none."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name != "lost+found")
    except OSError:
        return ""  # told by who opens it
    first_cell = NEW_FOLDER.format(number=1)
    ours = {DATA_FILE, LOCK_FILE, KEY_FILE, CREDENTIALS_FILE, USAGE_FOLDER, MANIFEST, first_cell}
    if ours & set(names):
        return ""
    return names[0] if names else ""


def is_pipe(path: Path) -> bool:
    """Whether what is there can be read once alone."""
    try:
        return path.is_fifo()
    except OSError:
        return False  # told by who opens it


def why_unusable(folder: Path) -> str:
    """Why nothing can be made in a directory that may be missing, in words; "": it can be."""
    whole = folder.absolute()
    by_effective_ids = os.access in os.supports_effective_ids
    try:
        nearest = next(one for one in (whole, *whole.parents) if os.path.lexists(one))
        if not nearest.is_dir():
            return os.strerror(errno.ENOTDIR)
    except OSError as error:
        return error.strerror or str(error)
    if os.access(nearest, os.W_OK | os.X_OK, effective_ids=by_effective_ids):
        return ""
    is_read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES)


def close_to_others(folder: Path) -> Iterator[str]:
    """Take away what others may do with a directory and its data file; what was done, a line each.

    A directory that has other people's files, and nothing of a service, stays as it is.
    """
    if not os.access(folder, os.F_OK) or not folder.is_dir():
        return  # missing, or told by who opens it
    if foreign := _foreign(folder):
        yield (
            f"{folder} has files that are no service's ({foreign}): others may go on using it; a"
            " directory of its own is safer"
        )
        return
    for path, mode in (
        (folder, FOLDER_MODE),
        (folder / DATA_FILE, _FILE_MODE),
        (folder / LOCK_FILE, _FILE_MODE),
    ):
        try:
            found = path.stat()
        except OSError:
            continue  # missing, or told by who opens it
        before = stat.S_IMODE(found.st_mode)
        if not before & _FOR_OTHERS:
            continue
        if before & stat.S_ISVTX or found.st_uid != os.geteuid():
            yield f"others may use {path} (mode {before:o}), which is not this server's own"
            continue
        try:
            path.chmod(mode)
        except OSError as error:
            yield f"others may use {path} (mode {before:o}): {error.strerror}"
        else:
            yield f"others could use {path} (mode {before:o}): now mode {mode:o}"

"""Whether an open file is still the one that stands at its path.

A file that was deleted takes writes like any other, until its last user closes it: what is
acknowledged then is lost with the process.
"""

import logging
import os
from pathlib import Path
from typing import Final, NamedTuple

REPLACED_NOTE: Final = "replaced"
"""A note in the directory: which file stands there instead of the one that was served."""

_DELETED: Final = " (deleted)"
_OPEN_FILES: Final = Path("/proc/self/fd")

_FILE_MODE: Final = 0o600
_META_BYTES: Final = 2 * 4096
"""Both of a file's meta pages, of which each commit writes one."""

LOG: Final = logging.getLogger(__name__)


class _Served(NamedTuple):
    """A file that this process has open, or closed: when it was last changed then (None: open)."""

    device: int
    inode: int
    changed_ns: int | None


_SERVED: Final[dict[str, _Served]] = {}
"""By path what was last opened there, for directories that are swapped while they are in use."""


class OpenFile(NamedTuple):
    """A file that is open: where it is now, whatever it was called ("": nowhere), and its inode."""

    where: str
    inode: int


class Standing:
    """Remembers why an open file is `missing` ("": it is not), and says it once."""

    def __init__(self) -> None:
        self.missing = ""

    def note(self, missing: str) -> None:
        """What `missing` has answered."""
        if missing and missing != self.missing:
            LOG.error("data: %s; nothing is served from it", missing)
        elif self.missing and not missing:
            LOG.warning("data: what is open is where it was opened again, and is served again")
        self.missing = missing


def missing(fd: int, path: str, size_bytes: int) -> str:
    """Why what is open is not what stands at its path, with so many bytes; "" if it is."""
    try:
        held = os.fstat(fd)
        try:
            there = os.stat(path)  # noqa: PTH116 - after each commit: a Path takes longer
        except (FileNotFoundError, NotADirectoryError):
            return f"{path} is gone: {_whereabouts(fd)}"
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    if not os.path.samestat(held, there):
        return f"{path} is another file: {_whereabouts(fd)}"
    if held.st_size < size_bytes:
        return f"{path} was cut to {held.st_size} of {size_bytes} bytes"
    return ""


def opened_file(fd: int) -> OpenFile:
    """Which file this is."""
    return OpenFile(_real_path(fd), os.fstat(fd).st_ino)


def _real_path(fd: int) -> str:
    try:
        where = str((_OPEN_FILES / str(fd)).readlink())
    except OSError:  # there is no such folder but on Linux
        return ""
    return "" if where.endswith(_DELETED) else where


def _whereabouts(fd: int) -> str:
    """Where to find what was there."""
    where = _real_path(fd)
    if where:
        return f"what was opened there is {where} now: move it back"
    return (
        f"until this process ends, /proc/{os.getpid()}/fd/{fd} has what was there: copy that, stop"
        " the server, put the copy there and start"
    )


def note_opened(fd: int, path: str) -> None:
    """Remember which file this process serves as the one of this path."""
    file = os.fstat(fd)
    _SERVED[path] = _Served(file.st_dev, file.st_ino, None)


def note_closed(fd: int, path: str) -> None:
    """Remember what was served there, as it is left."""
    file = os.fstat(fd)
    _SERVED[path] = _Served(file.st_dev, file.st_ino, file.st_mtime_ns)


def note_replacement(fd: int, path: Path) -> None:
    """Note beside it that what stands at the path is not what is open; take that back if it is.

    What stands there may be a copy from while it was served, and says of itself what that says.
    One that was made since the last commit is as good, and so is another cell's file, which this
    process serves, too, or did to its end.
    """
    note = path.parent / REPLACED_NOTE
    try:
        is_same = os.path.samestat(os.fstat(fd), path.stat())
        if is_same or _is_served(path) or _has_last_commit(fd, path):
            note.unlink(missing_ok=True)
        elif not is_replaced(path):
            _write(note, _which(path))
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing stands there
    except OSError as error:
        LOG.warning("data: cannot note in %s that it is another file: %s", note, error.strerror)


def _is_served(path: Path) -> bool:
    found = path.stat()
    inode, changed = (found.st_dev, found.st_ino), (None, found.st_mtime_ns)
    return any(
        (one.device, one.inode) == inode and one.changed_ns in changed for one in _SERVED.values()
    )


def _has_last_commit(fd: int, path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_META_BYTES) == os.pread(fd, _META_BYTES, 0)


def is_replaced(path: Path) -> bool:
    """Whether a server has noted of this very file that it served another one. Raises OSError."""
    try:
        return (path.parent / REPLACED_NOTE).read_bytes() == _which(path).encode("ascii")
    except (FileNotFoundError, NotADirectoryError):
        return False


def _which(path: Path) -> str:
    """The file that stands there, as it is: a number of an inode may come again."""
    found = path.stat()
    return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns}\n"


def _write(note: Path, text: str) -> None:
    handle = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    try:
        os.write(handle, text.encode("ascii"))
        os.fsync(handle)
    finally:
        os.close(handle)

"""Blobs in a directory: one file each, named like the blob.

A body is written to a file beside its place, made durable, and renamed into it; then every folder
on the way is made durable, because another process may have made it a moment ago. So under a blob's
name there is the whole body or nothing, whatever is cut off. Empty folders are removed.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Final, TypeVar

from data_plane.ports import Blob, CellFullError, CellUnavailableError, Clock, Offload

T = TypeVar("T")

INCOMING: Final = ".incoming"
"""Folder of the files that are being written. Names of blobs do not begin with a dot."""
INCOMING_AGE_US_MAX: Final = 3_600_000_000

_RENAME_ATTEMPTS_MAX: Final = 10
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FileBlobs:
    """Implements `data_plane.ports.Blobs` on a directory, which is made if it is missing.

    Several processes may use one directory. Raises OSError where it cannot be used, and removes
    what was left behind by writes that a crash cut off.
    """

    def __init__(self, directory: Path, clock: Clock, offload: Offload) -> None:
        self._root = directory
        self._incoming = directory / INCOMING
        self._offload = offload
        made = [folder for folder in directory.parents if not folder.exists()]
        self._incoming.mkdir(parents=True, exist_ok=True)
        for folder in (directory, *made):
            _sync_folder(folder.parent)
        _sync_folder(directory)
        oldest_us = clock.now_us() - INCOMING_AGE_US_MAX
        for left in self._incoming.iterdir():
            if _modified_us(left) < oldest_us:
                left.unlink(missing_ok=True)

    async def put(self, name: str, body: bytes) -> None:
        """Store a body; durable when it returns. Raises CellFullError where the disk is full."""
        await self._run("put", name, lambda: self._put(self._path(name), body))

    async def get(self, name: str) -> bytes | None:
        """The body, or None where there is none under this name."""
        return await self._run("get", name, lambda: self._get(self._path(name)))

    async def delete(self, names: Sequence[str]) -> None:
        """Remove blobs; those that do not exist are none to remove."""
        paths = [self._path(name) for name in names]
        await self._run("delete", f"{len(names)} blobs", lambda: self._delete(paths))

    async def names(self, after: str = "", *, limit: int) -> list[Blob]:
        """Up to `limit` blobs whose names are greater than `after`, in order of the names."""
        return await self._run("names", after, lambda: self._names(after, limit))

    async def _run(self, operation: str, name: str, call: Callable[[], T]) -> T:
        def told() -> T:
            try:
                return call()
            except OSError as error:
                failed = CellFullError if error.errno in _NO_ROOM else CellUnavailableError
                raise failed(f"{operation} {name} in {self._root}: {error.strerror}") from error

        return await self._offload(told)

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or "/".join(parts) != name or any(part.startswith(".") for part in parts):
            raise ValueError(f"{name!r} is no name of a blob")
        return self._root.joinpath(*parts)

    def _get(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self._check_there()
            return None

    def _names(self, after: str, limit: int) -> list[Blob]:
        found = list(islice(_walk(self._root, "", after), limit))
        self._check_there()
        return found

    def _check_there(self) -> None:
        """Raise OSError where what is not found need not be absent: no disk is mounted, say."""
        self._incoming.stat()

    def _put(self, path: Path, body: bytes) -> None:
        with NamedTemporaryFile(dir=self._incoming, delete=False) as written:
            try:
                written.write(body)
                written.flush()
                os.fsync(written.fileno())
                self._move(written.name, path)
            except BaseException:
                Path(written.name).unlink(missing_ok=True)
                raise

    def _move(self, written: str, path: Path) -> None:
        for attempt in range(1, _RENAME_ATTEMPTS_MAX + 1):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                Path(written).replace(path)
                break
            except (FileNotFoundError, FileExistsError):
                # Somebody removed the folder meanwhile, because it was empty: before the rename, or
                # between mkdir's finding that it exists and its look whether it is a folder.
                if attempt == _RENAME_ATTEMPTS_MAX:
                    raise
        for folder in self._folders(path):
            _sync_folder(folder)
        _sync_folder(self._root)

    def _folders(self, path: Path) -> Iterator[Path]:
        """The folders between a blob and the root, from the inside out."""
        for folder in path.parents:
            if folder == self._root:
                return
            yield folder

    def _delete(self, paths: list[Path]) -> None:
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                self._prune(path)
        self._check_there()

    def _prune(self, path: Path) -> None:
        for folder in self._folders(path):
            try:
                folder.rmdir()
            except OSError:
                return  # It holds others, or somebody else has removed it.


def _walk(folder: Path, prefix: str, after: str) -> Iterator[Blob]:
    """Blobs below a folder whose names are greater than `after`, in order of the names.

    A folder sorts as its name with the slash that follows it in the names of blobs.
    """
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name + "/" * entry.is_dir(follow_symlinks=False), entry)
                for entry in entries
                if not entry.name.startswith(".")
            ]
    except FileNotFoundError:
        return  # It was removed meanwhile, because it was empty.
    for part, entry in sorted(found, key=lambda pair: pair[0]):
        name = prefix + part
        if part.endswith("/"):
            if name > after or after.startswith(name):
                yield from _walk(Path(entry.path), name, after)
        elif name > after:
            with suppress(FileNotFoundError):
                yield Blob(name, entry.stat().st_mtime_ns // 1000)


def _modified_us(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    """Make durable what a folder says about the names in it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # Removed because it was empty: then nothing of it is to be kept.
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A backup as a directory: a file for each cell, and the manifest, which comes last.

It is written beside its place, under a name that ends in `.unfinished`, and takes its own name when
all of it is on disk. So a backup that was cut off does not show, and is never taken for one.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from control_plane.backup.source import BackupError
from control_plane.backup.stream import END, FORMAT, HEAD, End, Head, Record
from control_plane.export.layout import iso_time
from control_plane.whose_cell import manifest_in
from data_plane import VERSION
from data_plane.core.undecodable import UNDECODABLE
from data_plane.embedded.copying import END as LAST
from data_plane.embedded.copying import CopyCutOffError, CopyEnd, Frame, read_frames
from data_plane.embedded.store import sync_directory

MANIFEST: Final = "manifest.json"
UNFINISHED: Final = ".unfinished"
_CELL_FILE: Final = "{name}.cell"
_PIECE_BYTES: Final = 1024 * 1024


class CellFile(msgspec.Struct, frozen=True):
    """A file of the backup: the copy of a cell (data_plane/embedded/copying.py)."""

    name: str
    file: str
    size_bytes: int
    sha256: str


class Missing(msgspec.Struct, frozen=True):
    """A cell of the service that is not in the backup, and why."""

    name: str
    reason: str


class Contents(msgspec.Struct, frozen=True):
    """What the backup has, as of `as_of_us` (cell time in microseconds); `as_of` is the world's.

    `keys` says where the master keys were, which are not in it.
    """

    format: str
    version: str
    as_of_us: int
    as_of: str
    keys: str
    cells: list[CellFile]
    missing: list[Missing]

    @property
    def size_bytes(self) -> int:
        """Of all cells."""
        return sum(cell.size_bytes for cell in self.cells)


class _Format(msgspec.Struct, frozen=True):
    format: str


class _AnyManifest(msgspec.Struct, frozen=True):
    contents: _Format


class _Manifest(msgspec.Struct, frozen=True):
    contents: Contents
    sha256: str


def write_backup(
    target: Path, records: Iterable[Record], before: Callable[[Head], object] = lambda _head: None
) -> tuple[Contents, Head]:
    """Write a backup to a directory that is new or empty; it is there whole, or not at all.

    What is to be done `before` it shows under its name may fail, and then there is none. Raises
    BackupError, OSError, and what that and reading the records raise.
    """
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} is there already: name a directory that is new or empty")
    unfinished = target.with_name(target.name + UNFINISHED)
    with _own(unfinished):
        head, end, files = _write_cells(unfinished, records)
        contents = Contents(
            FORMAT,
            VERSION,
            end.as_of_us,
            iso_time(end.world_us // 1000),
            head.keys,
            files,
            [Missing(cell.name, cell.reason) for cell in head.cells if cell.reason],
        )
        _write_manifest(unfinished / MANIFEST, contents)
        sync_directory(unfinished)
        before(head)
        unfinished.rename(target)
        sync_directory(target.parent)
    return contents, head


@contextmanager
def _own(unfinished: Path) -> Iterator[None]:
    """An empty directory that nobody else writes to; what was cut off in it before goes.

    It goes, too, where this backup fails.
    """
    unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock_fd = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"another process writes a backup to {unfinished}") from None
        for path in unfinished.iterdir():
            path.unlink()
        try:
            yield
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    finally:
        os.close(lock_fd)


def _write_cells(folder: Path, records: Iterable[Record]) -> tuple[Head, End, list[CellFile]]:
    rest = iter(records)
    first = next(rest, None)
    if first is None or first.what != HEAD:
        raise BackupError("what the server hands out is no backup")
    head = msgspec.json.decode(first.content, type=Head)
    if head.format != FORMAT:
        raise BackupError(
            f"the server hands out {head.format!r}, and this program takes {FORMAT!r}"
        )
    names = {number: cell.name for number, cell in enumerate(head.cells) if not cell.reason}
    end = End(0, 0)
    with ExitStack() as stack:
        writers = {
            number: stack.enter_context(_Writer(folder / _CELL_FILE.format(name=name)))
            for number, name in names.items()
        }
        for what, content in rest:
            if what == END:
                end = msgspec.json.decode(content, type=End)
            else:
                writers[what].write(content)
        files = [
            CellFile(names[number], writer.path.name, writer.size_bytes, writer.end())
            for number, writer in writers.items()
        ]
    return head, end, files


class _Writer:
    """Writes a file, and sums it up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._file = path.open("xb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, content: bytes) -> None:
        """Add to it."""
        self._file.write(content)
        self._digest.update(content)
        self.size_bytes += len(content)

    def end(self) -> str:
        """Put all of it on the disk; its SHA-256."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._digest.hexdigest()


def _write_manifest(path: Path, contents: Contents) -> None:
    manifest = _Manifest(contents, _digest_of(contents))
    with path.open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _digest_of(contents: Contents) -> str:
    return hashlib.sha256(msgspec.json.encode(contents)).hexdigest()


def read_manifest(folder: Path) -> Contents:
    """What a backup has. Raises BackupError where it is none, or not a whole one."""
    try:
        written = (folder / MANIFEST).read_bytes()
        found = msgspec.json.decode(written, type=_AnyManifest).contents.format
        if found != FORMAT:
            raise BackupError(f"{folder} holds {found!r}; this program reads {FORMAT!r}")
        manifest = msgspec.json.decode(written, type=_Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise BackupError(
            f"{folder} has no {MANIFEST}: it is no backup, or one that was cut off"
        ) from None
    except OSError as error:
        raise BackupError(f"{folder / MANIFEST}: {error.strerror}") from error
    except UNDECODABLE as error:
        if manifest_in(folder) is not None:
            raise BackupError(f"{folder} is a service, not a backup") from None
        raise BackupError(f"{folder / MANIFEST} is damaged: {error}") from error
    contents = manifest.contents
    if _digest_of(contents) != manifest.sha256:
        raise BackupError(f"{folder / MANIFEST} is damaged: its checksum is another")
    return contents


def is_backup(folder: Path) -> bool:
    """Whether a directory is a backup, be it a damaged one."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        read_manifest(folder)
    except BackupError:
        return any(folder.glob(_CELL_FILE.format(name="*")))
    return True


def frames_of(folder: Path, cell: CellFile) -> Iterator[Frame]:
    """The frames of a cell's copy but the last one. Raises BackupError."""
    try:
        with (folder / cell.file).open("rb", _PIECE_BYTES) as file:
            for frame in read_frames(file):
                if frame.kind != LAST:
                    yield frame
    except CopyCutOffError as error:
        raise BackupError(f"{folder / cell.file} is damaged: {error}") from error
    except OSError as error:
        raise BackupError(f"{folder / cell.file}: {error.strerror}") from error


class _Summed:
    """A file, summed up as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size_bytes: int) -> bytes:
        """As of a file."""
        octets = self._file.read(size_bytes)
        self.digest.update(octets)
        return octets


def verified(folder: Path, cell: CellFile) -> tuple[CopyEnd, dict[bytes, bytes]]:
    """Read all of a cell's copy: its end, and the items of the registry that have secrets.

    Raises BackupError where it is not as it was written.
    """
    path = folder / cell.file
    secrets: dict[bytes, bytes] = {}
    end: CopyEnd | None = None
    frames = 0
    try:
        if path.stat().st_size != cell.size_bytes:
            raise BackupError(f"{path} has not the {cell.size_bytes} bytes that were written")
        with path.open("rb", _PIECE_BYTES) as file:
            summed = _Summed(file)
            for frame in read_frames(summed):
                if frame.kind == LAST:
                    end = msgspec.json.decode(frame.value, type=CopyEnd)
                    break
                frames += 1
                if frame.key.startswith(b"M|secrets"):
                    secrets[frame.key] = frame.value
    except (CopyCutOffError, *UNDECODABLE) as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    if end is None or end.frames != frames or summed.digest.hexdigest() != cell.sha256:
        raise BackupError(f"{path} is damaged: its checksum is another")
    return end, secrets

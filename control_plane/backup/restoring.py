"""A backup made a data directory again, which a server starts on as after a crash.

Everything is read and checked before anything is written. Data files are made in `restoring`
beside their places, and take them together at the end; while that directory is there no server
starts (control_plane/data_folder.py).
"""

import asyncio
import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from control_plane.backup.folder import CellFile, Contents, frames_of, read_manifest, verified
from control_plane.backup.source import BackupError
from control_plane.cell_folders import NEW_FOLDER, Folders
from control_plane.cells import LOCAL
from control_plane.folder_modes import FOLDER_MODE, close_to_others
from control_plane.manifest import write_manifest
from control_plane.places.own import OWN, KnownService, decode_own, with_paths
from control_plane.places.starting import MANIFEST
from control_plane.registry_secret import context, wrapped_secret
from control_plane.whose_cell import why_no_cell
from data_plane.embedded.copying import GONE, CopyEnd
from data_plane.embedded.encoding import decode_item, encode_item, encode_key
from data_plane.embedded.filling import fill
from data_plane.embedded.store import DATA_FILE, CellOpenError, sync_directory
from data_plane.keys import file
from data_plane.keys.file import KeyFile, KeyFileError
from data_plane.ports import Clock, MasterKeysError, WrappedKey
from data_plane.replication.placement import INCARNATION_MARK
from data_plane.settings import KEY_FILE
from data_plane.stored import ledger
from data_plane.system import SystemEntropy
from data_plane.usage.register import AT_WORK
from data_plane.usage.sends import STATE
from data_plane.usage.sent import PARTITION as SENT

RESTORING: Final = "restoring"
"""In a directory that a backup is being restored to."""

_OWN: Final = encode_key(OWN)
_OF_USAGE: Final = frozenset({ledger.PARTITION, STATE.partition, SENT, AT_WORK})
"""What is left out: the usage records that the service made of it after the backup have its name
and numbers, and two of one identity count for nothing. Another ledger begins with the next start.
Nor is the server that was at work then to be ended by one that knows nothing of it.
"""


class Wanted(NamedTuple):
    """What is to be restored: to which data directory, and under which keys.

    `folders` are for the cells in order of their names; () are those in the data directory.
    """

    backup: Path
    data: Path
    key_file: Path | None
    folders: Sequence[Path] = ()


class Restored(NamedTuple):
    """What was restored, and the options by which a server starts on it.

    `closed` are lines about directories that others could use.
    """

    contents: Contents
    items: int
    options: Sequence[str]
    closed: Sequence[str] = ()


def restore(wanted: Wanted, clock: Clock) -> Restored:
    """Make a data directory of a backup. Raises BackupError; then nothing is there to be served."""
    contents = read_manifest(wanted.backup)
    places = _places(wanted, contents)
    folders = list(dict.fromkeys((wanted.data, *places.values())))
    for folder in folders:
        _check_empty(folder)
    found = [verified(wanted.backup, cell) for cell in contents.cells]
    secrets = {key: value for _end, held in found for key, value in held.items()}
    _check_keys(wanted, secrets)
    try:
        with _marked(folders):
            with _or_removed(wanted, places):
                items = _fill_all(wanted, contents, places, [end for end, _held in found], clock)
            _put_in_place(wanted, list(places.values()))
    except OSError as error:
        raise _failed(wanted, error) from error
    closed = [line for folder in folders for line in close_to_others(folder)]
    return Restored(contents, items, _options(wanted, contents), closed)


@contextmanager
def _or_removed(wanted: Wanted, places: Mapping[str, Path]) -> Iterator[None]:
    """What is begun within is removed where it fails. Raises BackupError."""
    try:
        yield
    except BaseException as error:
        for folder in dict.fromkeys((*places.values(), wanted.data)):
            shutil.rmtree(folder / RESTORING, ignore_errors=True)
        if isinstance(error, CellOpenError | KeyFileError):
            raise BackupError(str(error)) from error
        raise


def _failed(wanted: Wanted, error: OSError) -> BackupError:
    return BackupError(f"{error.filename or wanted.data}: {error.strerror}")


@contextmanager
def _marked(folders: Sequence[Path]) -> Iterator[None]:
    """The mark of a restore in each of them, and nothing else, which no other process has.

    What was cut off in it before goes. Where one of them cannot be restored to, marks that were not
    there go again. Raises BackupError, OSError.
    """
    with ExitStack() as stack, ExitStack() as made:
        for folder in folders:
            mark = folder / RESTORING
            is_new = not mark.exists()
            mark.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            mark_fd = os.open(mark, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, mark_fd)
            try:
                fcntl.flock(mark_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BackupError(f"another process restores a backup to {folder}") from None
            if is_new:
                made.callback(_remove_if_empty, mark)
            _check_empty(folder)  # that other one may have finished meanwhile
            for left in mark.iterdir():
                left.unlink()
        made.pop_all()
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _places(wanted: Wanted, contents: Contents) -> Mapping[str, Path]:
    """The directory of each cell of the backup. Raises BackupError."""
    names = [cell.name for cell in contents.cells]
    if names == [LOCAL]:
        if wanted.folders:
            raise BackupError("cell-data: this is the backup of one cell, which lies in --data")
        return {LOCAL: wanted.data}
    if not wanted.folders:
        return {name: wanted.data / name for name in names}
    if len(set(wanted.folders)) != len(names):
        raise BackupError(f"cell-data: name {len(names)} directories, for {', '.join(names)}")
    for folder in wanted.folders:
        if reason := why_no_cell(folder, wanted.data, wanted.folders):
            raise BackupError(f"cell-data: cannot use {folder}: {reason}")
    return dict(zip(names, wanted.folders, strict=True))


def _check_empty(folder: Path) -> None:
    """Raise BackupError unless a directory is missing or empty, but for a restore cut off."""
    try:
        if not folder.exists():
            return
        left = sorted(path.name for path in folder.iterdir() if path.name != "lost+found")
    except OSError as error:
        raise BackupError(f"{folder}: {error.strerror}") from error
    if left not in ([], [RESTORING]):
        raise BackupError(f"{folder} is not empty ({left[0]}): name a directory that is")


def _check_keys(wanted: Wanted, secrets: Mapping[bytes, bytes]) -> None:
    """Raise BackupError unless the keys open what the backup holds."""
    sealed = [wrapped_secret(decode_item(value)) for value in secrets.values()]
    in_file = [secret for secret in sealed if secret.master_key.startswith(file.KIND)]
    if wanted.key_file is None:
        if in_file:
            raise BackupError(
                f"keys: what is in this backup is sealed under {in_file[0].master_key}: name the"
                " file of master keys that has it"
            )
        return
    try:
        opened = asyncio.run(_opened(KeyFile(wanted.key_file, SystemEntropy()), in_file))
    except (KeyFileError, MasterKeysError) as error:
        raise BackupError(f"keys: {error}") from error
    if in_file and not opened:
        raise BackupError(f"keys: {wanted.key_file} does not open what is in this backup")


async def _opened(keys: KeyFile, sealed: Sequence[WrappedKey]) -> int:
    """How many open; those of members that left may be under keys of before."""
    failures: list[MasterKeysError] = []
    for secret in sealed:
        try:
            await keys.unwrap(secret, context())
        except MasterKeysError as error:
            failures.append(error)
    if failures and len(failures) == len(sealed):
        raise failures[0]
    return len(sealed) - len(failures)


def _fill_all(
    wanted: Wanted,
    contents: Contents,
    places: Mapping[str, Path],
    ends: Sequence[CopyEnd],
    clock: Clock,
) -> int:
    """Make the data files; answers how many items were written."""
    folders = Folders(wanted.data, clock)
    # Those that are not in the backup are missed where they would be made.
    paths = {cell.name: folders.text_of(wanted.data / cell.name) for cell in contents.missing}
    paths |= {name: folders.text_of(path.absolute()) for name, path in places.items()}
    items, known = 0, list[KnownService]()
    for cell, end in zip(contents.cells, ends, strict=True):
        unfinished = places[cell.name] / RESTORING
        stored = _items(wanted.backup, cell, paths, folders.data, known)
        items += fill(unfinished, stored, contents.as_of_us, end.eras or None)
    if known:
        latest = max(known, key=lambda one: one.knowledge.order)
        write_manifest(wanted.data / RESTORING, latest)
    if wanted.key_file is not None:
        file.copy(wanted.key_file, wanted.data / RESTORING / KEY_FILE)
    return items


def _partition_of(key: bytes) -> str:
    """The partition of a stored key, by its name in a cell that never left the registry's group."""
    name = key.partition(b"\0")[0].decode(errors="replace")
    return name.partition(INCARNATION_MARK)[0]


def _items(
    backup: Path, cell: CellFile, paths: Mapping[str, str], data: str, known: list[KnownService]
) -> Iterator[tuple[bytes, bytes | None]]:
    """What is stored of a cell, and `known` grows by what it knows of its service."""
    for frame in frames_of(backup, cell):
        if _partition_of(frame.key) in _OF_USAGE:
            continue
        if frame.kind == GONE:
            yield frame.key, None
        elif frame.key == _OWN:
            own = with_paths(decode_item(frame.value), paths, data)
            known.append(decode_own(own).known)
            yield frame.key, encode_item(own)
        else:
            yield frame.key, frame.value


def _put_in_place(wanted: Wanted, folders: Sequence[Path]) -> None:
    """All of it at once: the mark that a restore is under way goes last.

    Raises BackupError; then the mark stays, for some of it may have its place.
    """
    try:
        for folder in folders:
            (folder / RESTORING / DATA_FILE).rename(folder / DATA_FILE)
        for name in (MANIFEST, KEY_FILE):
            if (wanted.data / RESTORING / name).exists():
                (wanted.data / RESTORING / name).rename(wanted.data / name)
        for folder in dict.fromkeys((*folders, wanted.data)):
            sync_directory(folder)
        for folder in sorted(dict.fromkeys((*folders, wanted.data)), key=wanted.data.__eq__):
            shutil.rmtree(folder / RESTORING)
            sync_directory(folder)
    except OSError as error:
        raise BackupError(
            f"{_failed(wanted, error)}; empty {wanted.data}, and restore it again"
        ) from error


def _options(wanted: Wanted, contents: Contents) -> Sequence[str]:
    """What `tidegate serve` is to be told."""
    options = ["--data", shlex.quote(str(wanted.data))]
    missing = [cell.name for cell in contents.missing]
    names = sorted([*(cell.name for cell in contents.cells), *missing])
    if names == [LOCAL]:
        return options
    if 2 * len(missing) >= len(names):  # then no start goes on without them but by this
        options += ["--give-up", ",".join(sorted(missing))]
    if wanted.folders:
        listed = [str(path.absolute()) for path in wanted.folders]
        listed += [str((wanted.data / name).absolute()) for name in missing]
    elif names == sorted(NEW_FOLDER.format(number=n) for n in range(1, len(names) + 1)):
        return [*options, "--cells", str(len(names))]
    else:
        listed = [str((wanted.data / name).absolute()) for name in names]
    return [*options, "--cells", str(len(names)), "--cell-data", shlex.quote(",".join(listed))]

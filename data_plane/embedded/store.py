"""One directory with an LMDB environment: opening, growing, snapshots and write transactions.

LMDB runs without its own locks (`lock=False`): this process is the only one (locks see to it),
transactions are built on one thread, and one is open at a time. In this mode a transaction may
reuse pages that became free two transactions ago, so a snapshot is valid until the next but one
begins. The snapshot moves on only in `renew`, when a commit is known to be on disk: readers never
see what a power cut could take back.
"""

import errno
import fcntl
import logging
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from data_plane.embedded.bodies import Bodies
from data_plane.embedded.damage import DamagedItems
from data_plane.embedded.encoding import (
    FORMAT,
    FORMAT_KEY,
    FORMAT_OF_BEFORE,
    decode_item,
    wrong_format,
)
from data_plane.embedded.file_check import (
    BODIES_TREE,
    FileDamageError,
    RunningCheck,
    check_file,
    check_size,
)
from data_plane.embedded.room import cost_bytes
from data_plane.embedded.standing import (
    OpenFile,
    missing,
    note_closed,
    note_opened,
    note_replacement,
    opened_file,
)
from data_plane.ports import DamagedItemError

MAP_BYTES: Final = 1 << 40
"""Address space, not memory: the store may grow to this size."""

UNLIMITED_BYTES: Final = 1 << 62
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DATA_FILE: Final = "data.mdb"
DEATH_NOTE: Final = "died"
"""Left by a process that a fatal signal ended while it had the directory open."""

LOCK_FILE: Final = "lock"
_FILE_MODE: Final = 0o600

_BIG_MESSAGE_BYTES: Final = 1280 * 1024
"""The biggest call that sends, as it is stored, and what is copied for it."""

LOG: Final = logging.getLogger(__name__)


class CellOpenError(Exception):
    """The directory cannot be served; the message is one line for the person who started us."""


class CellInUseError(CellOpenError):
    """Another process has the directory."""


@dataclass(frozen=True, slots=True)
class StoreRoom:
    """What is free on the disk, how big it is, and how much more messages may take; in bytes."""

    disk_free: int
    disk: int
    takes: int


@dataclass(frozen=True, slots=True)
class StoreSizes:
    """How the data file grows, in bytes.

    It is allocated ahead, by `growth` at a time (by `batch` when the disk has no more), so that a
    full disk shows before a transaction and never inside of one. The last `reserve` is kept for
    what must go on when the disk is full (room.py). `batch` bounds what one transaction writes; no
    item is bigger.
    """

    growth: int = 64 * 1024 * 1024
    reserve: int = 16 * 1024 * 1024
    batch: int = 16 * 1024 * 1024


class Store:
    """An open directory. Raises CellOpenError, lmdb.Error."""

    def __init__(self, directory: Path, sizes: StoreSizes) -> None:
        self._directory = directory
        self._data_path = str(directory / DATA_FILE)
        self._sizes = sizes
        self._full = False
        self._in_doubt = False
        self._was_missing = False
        self._passes = 0
        self.damaged = DamagedItems(str(directory))
        made = [folder for folder in directory.parents if not folder.exists()]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_fd = _lock(directory / LOCK_FILE)
        try:
            for folder in made:
                sync_directory(folder.parent)
            self._check_file()
            self._open()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _check_file(self) -> None:
        """Look at the file before LMDB does; after a death in here, at all of it."""
        path, note = self._directory / DATA_FILE, self._directory / DEATH_NOTE
        died = note.exists()
        if path.exists():
            try:
                check_file(path, self.damaged, whole=died)
            except FileDamageError as error:
                raise CellOpenError(told_of_damage(self._directory, error)) from error
        if died:
            LOG.warning("a process died with %s open; all of its pages are whole", path)
            note.unlink()

    def _open(self) -> None:
        path = self._directory / DATA_FILE
        is_new = not path.exists()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            # Too: whoever removes the lock file must not let a second process in.
            _hold(fd, self._directory)
            check_size(fd)
            self._sync_names(is_new=is_new)
            self._open_environment(fd)
        except FileDamageError as error:
            raise CellOpenError(told_of_damage(self._directory, error)) from error
        except lmdb.Error as error:
            if is_new:
                path.unlink()  # half of a new file would be taken for a damaged one
                raise CellOpenError(f"data: {path} cannot be made: {error}") from error
            raise CellOpenError(f"data: {path} is not readable as a cell: {error}") from error
        finally:
            os.close(fd)
        self._allocated_bytes = os.fstat(self._data_fd).st_size
        self.snapshot = self._env.begin()

    def _sync_names(self, *, is_new: bool) -> None:
        """Of one that is not new, too: its first start may have been killed before it came here."""
        sync_directory(self._directory)
        try:
            sync_directory(self._directory.parent)
        except PermissionError:
            if is_new:
                raise

    def _open_environment(self, held_fd: int) -> None:
        self._env = lmdb.open(
            str(self._directory), map_size=MAP_BYTES, lock=False, readahead=False, max_dbs=1
        )
        try:
            self._page_bytes: int = self._env.stat()["psize"]
            self._check_format()
            self.bodies = Bodies(self._env.open_db(BODIES_TREE), self._page_bytes)
            self._data_fd = os.dup(held_fd)  # it has the lock until both are closed
            _keep_from_children(self._data_fd)
            note_opened(self._data_fd, self._data_path)
            self._check = RunningCheck(self._data_fd, self.damaged)
        except BaseException:
            self._env.close()
            raise

    def _check_format(self) -> None:
        with self._env.begin() as txn:
            found = txn.get(FORMAT_KEY)
        is_new = found is None and self._env.stat()["entries"] == 0
        if is_new or found == FORMAT_OF_BEFORE:
            with self._env.begin(write=True) as txn:
                txn.put(FORMAT_KEY, FORMAT)
            return
        if wrong := wrong_format(found):
            raise CellOpenError(f"data: {self._directory} {wrong}")

    def begin(self, *, adds: bool = True) -> tuple[lmdb.Transaction, int]:
        """A write transaction, and how many bytes it has room for, the reserve included.

        One that `adds` nothing does not try whether a disk that was full has room again: to try
        and fail costs more than the write. Raises lmdb.Error, OSError.
        """
        if self._in_doubt:
            os.fdatasync(self._data_fd)
            self._in_doubt = False
        room_bytes = self._free_bytes() if self._full and not adds else self._room_bytes()
        return self._env.begin(write=True), room_bytes

    def renew(self) -> None:
        """Move the snapshot to the last commit."""
        self.snapshot.abort()
        self.snapshot = self._env.begin()

    def reopen(self) -> None:
        """Leave a handle on which a write failed, and look at what is really there.

        A commit that failed at its very end may have reached the disk nevertheless, while the file
        shows the one before again. Before its pages are used anew, that has to be on disk, too: a
        power cut between the two would leave a commit whose pages hold something else.

        Raises CellOpenError or lmdb.Error where that fails.
        """
        self._in_doubt = True
        told = self.missing()
        self._close_handles()
        if told:
            raise CellOpenError(f"data: {told}")
        self._open()

    def let_go(self) -> None:
        """Close everything but the lock: what is here must not be touched any more."""
        self.missing()
        self._close_handles()

    def close(self) -> None:
        """Close everything and let others open the directory."""
        self.missing()  # A swap just before a stop is one, too.
        self._close_handles()
        self.unlock()

    def unlock(self) -> None:
        """Let others open the directory, once nothing else of it is open."""
        os.close(self._lock_fd)

    def scan(self, after: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Items' keys and what lies under them, behind this key, for use before the next write."""
        with self._env.begin(buffers=True) as txn, txn.cursor() as cursor:
            if cursor.set_range(after + b"\0"):
                for key, stored in cursor.iternext():
                    if b"\0" in (name := bytes(key)) and not name.startswith(b"\0"):
                        yield name, stored

    def look_over(self, leaf_pages: int) -> None:
        """Look at some more pages of the file. Raises CellOpenError where it is damaged."""
        if self._check.passes > self._passes:
            self._passes = self._check.passes
            self.damaged.look_again(self._is_damaged)
        try:
            self._check.step(self.snapshot.id(), leaf_pages)
        except FileDamageError as error:
            raise CellOpenError(told_of_damage(self._directory, error)) from error

    def _is_damaged(self, key: bytes) -> bool:
        stored = self.snapshot.get(key)
        try:
            if stored is not None:
                decode_item(self.bodies.join(self.snapshot, key, stored))
        except DamagedItemError:
            return True
        return False

    def read_disk(self) -> None:
        """Read a page of the data file from the disk, not from memory. Raises OSError.

        Uses nothing that is open, so that any thread may. File systems that cannot do that (tmpfs)
        have no disk to look at; that the file was moved away `missing` sees.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECT", 0)
        try:
            handle = os.open(self._directory / DATA_FILE, flags)
            try:
                with mmap.mmap(-1, mmap.PAGESIZE) as page:  # aligned, as the flag asks for
                    os.readv(handle, [page])
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOENT}:
                raise

    def missing(self) -> str:
        """Why what is open is not what stands at its path; "" if it is.

        Another file that stands there is noted beside it: nobody is to take it for this one.
        """
        told = missing(self._data_fd, self._data_path, self._allocated_bytes)
        if told or self._was_missing:
            note_replacement(self._data_fd, Path(self._data_path))
        self._was_missing = bool(told)
        return told

    @property
    def file(self) -> OpenFile:
        """The data file that is open."""
        return opened_file(self._data_fd)

    @property
    def cannot_grow(self) -> bool:
        """Whether the file could not grow when it last had to."""
        return self._full

    def has_room(self, size_bytes: int) -> bool:
        """Whether the file's free pages, or the disk, have room for this and for a big message."""
        needed_bytes = max(cost_bytes(size_bytes), _BIG_MESSAGE_BYTES)
        return not self._full or self._free_bytes() >= self._sizes.reserve + needed_bytes

    def grows_again(self, size_bytes: int) -> bool:
        """Whether a disk that was full has room for this again. Raises lmdb.Error, OSError.

        Not to be asked while a transaction is open, or is being committed.
        """
        self._room_bytes()
        return self.has_room(size_bytes)

    def room(self) -> StoreRoom:
        """What the store can still take. Raises OSError."""
        disk = os.fstatvfs(self._data_fd)
        disk_free_bytes = 0 if self._full else disk.f_bavail * disk.f_frsize
        takes_bytes = max(0, self._free_bytes() + disk_free_bytes - self._sizes.reserve)
        return StoreRoom(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize, takes_bytes)

    def _free_bytes(self) -> int:
        return self._allocated_bytes - self.used_bytes

    @property
    def disk_bytes(self) -> int:
        """Size of the data file."""
        return self._allocated_bytes

    @property
    def used_bytes(self) -> int:
        """How much of the data file holds items."""
        trees = (self._env.stat(), self.snapshot.stat(self.bodies.tree))
        pages = sum(tree["branch_pages"] + tree["leaf_pages"] for tree in trees)
        return pages * self._page_bytes

    def _room_bytes(self) -> int:
        end_bytes = (self._env.info()["last_pgno"] + 1) * self._page_bytes
        # Twice: who was told that there is room finds it, also where the file cannot grow since.
        needed_bytes = end_bytes + self._sizes.reserve + 2 * self._sizes.batch
        if needed_bytes <= self._allocated_bytes or self._grow():
            return UNLIMITED_BYTES
        return self._free_bytes()

    def _grow(self) -> bool:
        present_bytes = max(self._allocated_bytes, os.fstat(self._data_fd).st_size)
        # An eighth more: a big store must not stop for this more often than a small one.
        for growth_bytes in (self._sizes.growth + present_bytes // 8, self._sizes.batch):
            if self._allocate(present_bytes, growth_bytes):
                self._allocated_bytes = present_bytes + growth_bytes
                if self._full:
                    self._limit_map(MAP_BYTES)
                    self._full = False
                return True
        self._allocated_bytes = present_bytes
        self._limit_map(present_bytes)
        self._full = True
        return False

    def _allocate(self, present_bytes: int, growth_bytes: int) -> bool:
        try:
            os.posix_fallocate(self._data_fd, present_bytes, growth_bytes)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            # Some file systems keep what they could get: give it back to the others on this disk.
            os.ftruncate(self._data_fd, present_bytes)
            return False
        return True

    def _limit_map(self, size_bytes: int) -> None:
        """Make LMDB refuse, cleanly and early, pages past what is allocated."""
        self.snapshot.abort()
        self._env.set_mapsize(size_bytes)
        self.snapshot = self._env.begin()

    def _close_handles(self) -> None:
        self.snapshot.abort()
        self._env.close()
        note_closed(self._data_fd, self._data_path)
        os.close(self._data_fd)


def _keep_from_children(file_fd: int) -> None:
    """Keep the descriptors of this file, up to this one, from programs that this one starts.

    LMDB leaves one of its own to them, and they would keep the directory's disk busy.
    """
    file = os.fstat(file_fd)
    for fd in range(file_fd):
        try:
            if os.path.samestat(file, os.fstat(fd)):
                os.set_inheritable(fd, False)  # noqa: FBT003 - the function's own way
        except OSError:
            continue  # it is none


def told_of_damage(directory: Path, error: FileDamageError) -> str:
    """What helps where a data file is damaged, in a line."""
    return (
        f"data: {directory / DATA_FILE} is damaged: {error}; restore a backup, or write what is"
        f" whole into a new directory: tidegate rescue {directory} NEW"
    )


def _lock(path: Path) -> int:
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _hold(lock_fd, path.parent)
    except CellOpenError:
        os.close(lock_fd)
        raise
    return lock_fd


def _hold(fd: int, directory: Path) -> None:
    """Keep other processes from this file until it is closed. Raises CellOpenError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CellInUseError(f"data: {directory} is in use by another process") from None
    except OSError as error:
        raise CellOpenError(
            f"data: {directory} cannot be locked ({error.strerror}), so two servers could use it;"
            " name a directory on a local disk"
        ) from error


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    directory_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)

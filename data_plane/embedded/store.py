"""One directory with an LMDB environment: opening, growing, snapshots and write transactions.

LMDB runs without its own locks (`lock=False`): this process is the only one (a lock file sees to
it), transactions are built on one thread, and one is open at a time. In this mode a transaction may
reuse pages that became free two transactions ago, so a snapshot is valid until the next but one
begins. The snapshot moves on only in `renew`, when a commit is known to be on disk: readers never
see what a power cut could take back.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from data_plane.embedded.bodies import Bodies
from data_plane.embedded.encoding import FORMAT, FORMAT_KEY

MAP_BYTES: Final = 1 << 40
"""Address space, not memory: the store may grow to this size."""

UNLIMITED_BYTES: Final = 1 << 62
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DATA_FILE: Final = "data.mdb"
_LOCK_FILE: Final = "lock"
_BODIES_TREE: Final = b"\x01bodies"  # without the zero byte that every item's key has


class CellOpenError(Exception):
    """The directory cannot be served; the message is one line for the person who started us."""


@dataclass(frozen=True, slots=True)
class StoreSizes:
    """How the data file grows, in bytes.

    It is allocated ahead, by `growth` at a time (by `batch` when the disk has no more), so that a
    full disk shows before a transaction and never inside of one. The last `reserve` is kept for
    what must go on when the disk is full. `batch` bounds what one transaction writes; no item is
    bigger.
    """

    growth: int = 64 * 1024 * 1024
    reserve: int = 16 * 1024 * 1024
    batch: int = 16 * 1024 * 1024


class Store:
    """An open directory. Raises CellOpenError, lmdb.Error."""

    def __init__(self, directory: Path, sizes: StoreSizes) -> None:
        self._directory = directory
        self._sizes = sizes
        self._full = False
        self._in_doubt = False
        directory.mkdir(parents=True, exist_ok=True)
        self._lock_fd = _lock(directory / _LOCK_FILE)
        try:
            self._open()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _open(self) -> None:
        path = self._directory / _DATA_FILE
        is_new = not path.exists()
        try:
            self._env = lmdb.open(
                str(self._directory), map_size=MAP_BYTES, lock=False, readahead=False, max_dbs=1
            )
        except lmdb.Error as error:
            raise CellOpenError(f"{path} is not readable as a cell: {error}") from error
        try:
            self._page_bytes: int = self._env.stat()["psize"]
            self._check_format()
            self.bodies = Bodies(self._env.open_db(_BODIES_TREE), self._page_bytes)
            self._data_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            _keep_from_children(self._data_fd)
        except BaseException:
            self._env.close()
            raise
        self._allocated_bytes = os.fstat(self._data_fd).st_size
        if is_new:
            _sync_directory(self._directory)
            _sync_directory(self._directory.parent)
        self.snapshot = self._env.begin()

    def _check_format(self) -> None:
        with self._env.begin() as txn:
            found = txn.get(FORMAT_KEY)
        if found is None and self._env.stat()["entries"] == 0:
            with self._env.begin(write=True) as txn:
                txn.put(FORMAT_KEY, FORMAT)
            return
        if found != FORMAT:
            shown = "no format" if found is None else repr(found.decode(errors="replace"))
            raise CellOpenError(
                f"{self._directory} holds {shown}; this program reads {FORMAT.decode()!r} only"
            )

    def begin(self) -> tuple[lmdb.Transaction, int]:
        """A write transaction, and how many bytes it has room for, the reserve included.

        Raises lmdb.Error, OSError.
        """
        if self._in_doubt:
            os.fdatasync(self._data_fd)
            self._in_doubt = False
        room_bytes = self._room_bytes()
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
        self._close_handles()
        self._open()

    def close(self) -> None:
        """Close everything and let others open the directory."""
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

    @property
    def is_full(self) -> bool:
        """Whether the file could not grow when it last had to."""
        return self._full

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
        needed_bytes = end_bytes + self._sizes.reserve + self._sizes.batch
        if needed_bytes <= self._allocated_bytes or self._grow():
            return UNLIMITED_BYTES
        return self._allocated_bytes - self.used_bytes

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


def _lock(path: Path) -> int:
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock_fd)
        raise CellOpenError(f"{path.parent} is in use by another process") from None
    return lock_fd


def _sync_directory(path: Path) -> None:
    directory_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)

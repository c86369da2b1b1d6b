"""The manifest of a service: a file in the data directory that says which cells it has, and where.

It is replaced as a whole. What is written there is in each cell, too: a server goes on without it,
and a start does, too, where more than half of the cells are there.
"""

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from control_plane.cells import BlockedStartError, StartError
from control_plane.core.item_field import UnknownItemFormatError
from control_plane.places.own import KnownService, decode_manifest, encode_manifest
from control_plane.places.starting import MANIFEST

_NEW: Final = f"{MANIFEST}.new"
_FILE_MODE: Final = 0o600
_WRITE_S_MAX: Final = 2.0

LOG: Final = logging.getLogger(__name__)


def read_manifest(data: Path) -> KnownService | None:
    """What it says; None where there is none. Raises StartError."""
    path = data / MANIFEST
    try:
        return decode_manifest(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartError(f"cells: cannot read {path}: {error.strerror}") from error
    except (UnknownItemFormatError, UnicodeDecodeError) as error:
        raise BlockedStartError(
            f"cells: {path} cannot be read: {error}; put it back, or remove it where more than half"
            " of the cells are there, which loses nothing"
        ) from error


def check_not_copied(data: Path, known: KnownService | None) -> None:
    """Raise StartError where it was written for another directory, and leads out of this one.

    A copy of a service must not take the messages of the one that it was copied from.
    """
    if known is None or known.data in ("", str(data.resolve())) or not known.elsewhere():
        return
    paths = ",".join(str(known.data / Path(path)) for _, path in sorted(known.paths.items()))
    raise StartError(
        f"cells: {data / MANIFEST} was written for {known.data}, and names cells elsewhere: if this"
        f" is a copy, name the copies of the cells; if it was moved, name them: --cells"
        f" {len(known.paths)} --cell-data {paths}"
    )


class ManifestFile:
    """Writes the manifest, in a thread: its disk may hang, and nobody is to wait for that long."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._writing: asyncio.Future[None] | None = None
        self._has_failed = False

    async def keep(self, known: KnownService) -> bool:
        """Whether it is on disk. Where it is not the next one may be."""
        if self._writing is not None and not self._writing.done():
            return False  # An earlier one would come later.
        written = asyncio.to_thread(write_manifest, self._data, known)
        self._writing = asyncio.ensure_future(written)
        self._writing.add_done_callback(_seen)
        try:
            await asyncio.wait_for(asyncio.shield(self._writing), _WRITE_S_MAX)
        except (OSError, TimeoutError) as error:
            if not self._has_failed:
                LOG.warning("cells: %s cannot be written: %r", self._data / MANIFEST, error)
            self._has_failed = True
            return False
        self._has_failed = False
        return True


def _seen(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled():
        writing.exception()  # told when it came in time


def write_manifest(data: Path, known: KnownService) -> None:
    """Put it in its place, whole and on disk. Raises OSError."""
    path = data / _NEW
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    try:
        os.fchmod(fd, _FILE_MODE)
        octets = encode_manifest(known).encode()
        while octets:
            octets = octets[os.write(fd, octets) :]
        os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(fd)
    path.replace(data / MANIFEST)
    directory_fd = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)

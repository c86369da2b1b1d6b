"""How exports and backups get copies of embedded cells that a server has: sockets beside the data.

Whoever may use the directory may read the cell anyway, so the file's mode is all the protection
that a socket needs. A connection is answered with one copy (data_plane/embedded/copying.py).
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from data_plane.ports import CellUnavailableError

SOCKET: Final = "copies"
"""Name of the socket in the directory of a cell, for exports of it."""

PATIENCE_S: Final = 60.0
"""What changes behind a copy is remembered: so nobody may take as long as he likes."""

LOG: Final = logging.getLogger(__name__)

Copy = Callable[[], AsyncIterator[bytes]]


@contextmanager
def socket_path(directory: Path, name: str = SOCKET) -> Iterator[str]:
    """A short path of the socket, whatever the directory's: addresses have at most 107 bytes."""
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory_fd}/{name}"
    finally:
        os.close(directory_fd)


@asynccontextmanager
async def copies_for_exports(
    directory: Path, copy: Copy | None, name: str = SOCKET
) -> AsyncIterator[None]:
    """Hand out copies at the socket of this name; None: of no embedded cell.

    Raises OSError.
    """
    if copy is None:
        yield
        return
    under_way: set[asyncio.Task[None]] = set()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a connection is answered in a task")
        under_way.add(task)
        try:
            await _send(copy, writer)
        finally:
            under_way.discard(task)

    with _listener(directory, name) as listener:
        server = await asyncio.start_unix_server(answer, sock=listener)
        try:
            yield
        finally:
            server.close()
            for task in under_way:
                task.cancel()


class CopyDoors:
    """Hands out copies of several cells, which come and go."""

    def __init__(self) -> None:
        self._doors: dict[Path, AsyncExitStack] = {}
        self._refused: set[Path] = set()
        self._one_at_a_time = asyncio.Lock()

    async def keep(self, wanted: Mapping[Path, Copy]) -> None:
        """Hand out copies of the cells in these directories, and of no others."""
        async with self._one_at_a_time:
            await self._keep(wanted)

    async def _keep(self, wanted: Mapping[Path, Copy]) -> None:
        for directory in self._doors.keys() - wanted.keys():
            await self._doors.pop(directory).aclose()
        self._refused &= wanted.keys()
        for directory in wanted.keys() - self._doors.keys() - self._refused:
            door = AsyncExitStack()
            try:
                await door.enter_async_context(copies_for_exports(directory, wanted[directory]))
            except OSError as error:
                self._refused.add(directory)
                LOG.warning("no exports of %s: %s", directory, error)
            else:
                self._doors[directory] = door

    async def close(self) -> None:
        """Hand out no copies any more."""
        await self.keep({})


@contextmanager
def _listener(directory: Path, name: str) -> Iterator[socket.socket]:
    with socket_path(directory, name) as path:
        yield _listen(path)
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            # The disk fails, or is gone. Whoever listens here next removes what is left.
            LOG.warning("the socket %s stays in %s: %s", name, directory, error)


def _listen(path: str) -> socket.socket:
    # Only one process has the directory: what is there was left behind.
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    listener.listen()
    listener.setblocking(False)  # noqa: FBT003 - that is what the method takes
    return listener


async def _send(copy: Copy, writer: asyncio.StreamWriter) -> None:
    try:
        async for page in copy():
            writer.write(page)
            async with asyncio.timeout(PATIENCE_S):
                await writer.drain()
            await asyncio.sleep(0)  # which draining does not, while the reader keeps up
    except (CellUnavailableError, ConnectionError, TimeoutError) as error:
        # Without its last frame a copy is none: who asked for it sees that.
        LOG.warning("a copy for an export or a backup was cut off: %r", error)
        writer.transport.abort()
    finally:
        writer.close()

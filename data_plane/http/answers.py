"""Long answers, which whoever asked may be slow to take, or never take at all.

Granian copies an answer into memory that nobody counts, and does not tell when it was taken. From a
file it reads as it can write. So a long answer is handed over as a file, which is a pipe: it takes
what the client takes, and the rest waits here, counted. (Linux alone lets a pipe be opened so.)
"""

import asyncio
import fcntl
import os
import sys
from typing import Any, Final, cast

from data_plane.core.limits import ANSWERS_HELD_BYTES_MAX
from data_plane.http.held import Held
from data_plane.protocol.http import HttpResponse

LONG_ANSWER_BYTES: Final = 262_144
"""Shorter ones are in the kernel's buffers at once; it is more than a pipe takes."""

_PIPE_BYTES: Final = 131_072
"""What a pipe takes. By itself it is 16 pages, which is a mebibyte where a page has 64 KiB."""

_BEGUN_S: Final = 1.0
"""So long a client has, when the server stops, to begin to take its answer."""

_UNOPENED_S: Final = 600.0
"""So long the number of a file stays taken that Granian was to open and has not: it must not open
another one."""


class StalledError(Exception):
    """Nothing was taken for too long."""


class Answers:
    """The long answers that wait to be taken.

    One of which nothing was taken for `stalled_s` ends its connection.
    """

    def __init__(self, stalled_s: float, bytes_max: int = ANSWERS_HELD_BYTES_MAX) -> None:
        self._stalled_s = stalled_s
        self._held = Held(bytes_max)
        self._waiting: set[asyncio.Task[None]] = set()
        self._unread: set[asyncio.Task[None]] = set()
        """Those of which nothing was taken yet."""
        self._ended = False

    @property
    def held_bytes(self) -> int:
        """What waits now."""
        return self._held.total

    def send(self, proto: Any, response: HttpResponse) -> bool:
        """Send it, or return False: its account lets too much wait already, or there is no file.

        After `end` nothing is sent.
        """
        size = len(response.body)
        if sys.platform != "linux":
            proto.response_bytes(response.status, list(response.headers), response.body)
            return True
        if self._ended or not self._held.take(response.account, size):
            return False
        try:
            reading, writing = _pipe()
        except OSError:
            self._held.leave(response.account, size)
            return False
        headers = [*response.headers, ("content-length", str(size))]
        proto.response_file(response.status, headers, f"/proc/self/fd/{reading}")
        waiting = asyncio.create_task(self._wait(reading, writing, response))
        for these in (self._waiting, self._unread):
            these.add(waiting)
            waiting.add_done_callback(these.discard)
        return True

    async def taken(self) -> None:
        """Return when none waits of which anything is taken; of the others nobody may be there."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_BEGUN_S)
        while taking := self._waiting - self._unread:
            await asyncio.wait(taking)

    async def end(self) -> None:
        """End the connections of those that wait, and send no further ones.

        To be called before Granian stops: one of its threads may wait for a pipe that nobody writes
        to. When the last connection is gone Granian waits for that thread, and meanwhile lets no
        line of Python run.
        """
        self._ended = True
        late = list(self._waiting)
        for waiting in late:
            waiting.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _wait(self, reading: int, writing: int, response: HttpResponse) -> None:
        rest = memoryview(response.body)
        waiting = cast("asyncio.Task[None]", asyncio.current_task())
        is_open = False
        try:
            while rest:
                try:
                    rest = rest[os.write(writing, rest) :]
                except BlockingIOError:
                    await _writable(writing, self._stalled_s)
                    if not is_open:  # somebody has read, and need not be us
                        is_open = True
                        os.close(reading)
                        self._unread.discard(waiting)
        except (BrokenPipeError, StalledError):
            return  # the client is gone; or it is now, because its answer ends early
        finally:
            os.close(writing)
            if not is_open:
                _close_later(reading)
            self._held.leave(response.account, len(response.body))


def _pipe() -> tuple[int, int]:
    """Its ends, of which the one to write to never waits. Raises OSError."""
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    os.set_blocking(writing, False)
    return reading, writing


async def _writable(pipe: int, for_s: float) -> None:
    """Return when something was taken from the pipe. Raises StalledError if that takes too long."""
    loop = asyncio.get_running_loop()
    taken: asyncio.Future[bool] = loop.create_future()

    def settle(value: bool) -> None:  # noqa: FBT001 - a callback's only argument
        if not taken.done():
            taken.set_result(value)

    timer = loop.call_later(for_s, settle, False)  # noqa: FBT003 - as above
    loop.add_writer(pipe, settle, True)  # noqa: FBT003 - as above
    try:
        if not await taken:
            raise StalledError
    finally:
        timer.cancel()
        loop.remove_writer(pipe)


def _close_later(reading: int) -> None:
    """Close a pipe now, and give its number to others when nobody can want to open it any more."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, reading, inheritable=False)
    os.close(nothing)
    asyncio.get_running_loop().call_later(_UNOPENED_S, os.close, reading)

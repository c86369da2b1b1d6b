"""Signals that end a server."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Final

from data_plane.http.logs import LogWriter

SECOND_S: Final = 2.0
"""A process group's stop reaches its members more than once: `make` hands on a signal that all of
them got. What comes so soon after the first signal is the same wish."""

_LAST_LINES_S: Final = 0.2
"""Who asks twice does not want to wait for the log."""


class Stopping:
    """The first signal stops in good order; one that comes `SECOND_S` later ends the process.

    `end` is given the exit code.
    """

    def __init__(self, end: Callable[[int], None], log: LogWriter) -> None:
        self._end = end
        self._log = log
        self._first_s: float | None = None
        self._numbers: list[int] = []

    def listen(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], None]) -> None:
        """Call `begin` with the first signal, before anything else.

        SIGHUP says that the terminal is gone, unless who started the server wants it to stay
        (`nohup`).
        """
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._numbers = list(numbers)
        for number in numbers:
            told = partial(self.signalled, number, loop.time, begin)
            loop.add_signal_handler(number, told)

    def ended(self, loop: asyncio.AbstractEventLoop) -> None:
        """The server has stopped: what asks for that again changes nothing any more."""
        for number in self._numbers:
            # The loop would give them back to the system when it is closed, which ends processes.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def signalled(self, number: int, now_s: Callable[[], float], begin: Callable[[], None]) -> None:
        """Do what this signal asks for."""
        if self._first_s is None:
            self._first_s = now_s()
            begin()
            self._log.event("info", "stopping", signal=signal.Signals(number).name)
        elif now_s() - self._first_s >= SECOND_S:
            self._log.flush()
            self._end(128 + number)


def end_now(close_log: Callable[[float], object]) -> Callable[[int], None]:
    """What ends the process, whatever else it does, after a moment for its log."""

    def end(code: int) -> None:
        close_log(_LAST_LINES_S)
        os._exit(code)

    return end

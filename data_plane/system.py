"""The machine's clock and randomness: the only module that reads them, or waits for time."""

import os
import time
from typing import Final

_POOL_BYTES = 4096


class SystemClock:
    """Wall-clock time."""

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000


_RUNNING: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Runs on while a machine sleeps, where there is such a clock."""


def running_us() -> int:
    """Microseconds since some moment, of a clock that nobody sets."""
    return time.clock_gettime_ns(_RUNNING) // 1000


def sleep(seconds: float) -> None:
    """Hold up this thread for so long."""
    time.sleep(seconds)


class SystemEntropy:
    """The kernel's random bytes, fetched a page at a time: a system call for each id is dear.

    A byte is given out once. Not to be carried over a fork, whose child would repeat the parent.
    """

    __slots__ = ("_at", "_pool")

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0

    def random_bytes(self, count: int) -> bytes:
        """Unpredictable bytes."""
        if count > _POOL_BYTES:
            return os.urandom(count)
        end = self._at + count
        if end > len(self._pool):
            self._pool, self._at, end = os.urandom(_POOL_BYTES), 0, count
        drawn = self._pool[self._at : end]
        self._at = end
        return drawn

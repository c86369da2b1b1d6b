"""Time, threads and pauses: what producers and consumers take from outside, and tests replace."""

import random  # noqa: TID251 - a client has no Entropy; nothing but pauses depends on it
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """A time that only grows, and waiting for it to pass."""

    def now_s(self) -> float:
        """Seconds since some moment."""

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        """Wait until the condition is notified or so much time has passed; it is held."""

    def take(self, queue: "SimpleQueue[T]", timeout_s: float | None) -> T | None:
        """The next of a queue; None: nothing came in so much time."""


def in_bounds(timeout_s: float | None) -> float | None:
    """As Python can wait: it refuses centuries."""
    return None if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)


_RUNS_ASLEEP: Final = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's clock that nobody sets; it runs on while that sleeps, where there is such."""

    def now_s(self) -> float:
        """Seconds since some moment."""
        return time.monotonic() if _RUNS_ASLEEP is None else time.clock_gettime(_RUNS_ASLEEP)

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        """Wait until the condition is notified or so much time has passed; it is held."""
        condition.wait(in_bounds(timeout_s))

    def take(self, queue: "SimpleQueue[T]", timeout_s: float | None) -> T | None:
        """The next of a queue; None: nothing came in so much time."""
        try:
            return queue.get(timeout=in_bounds(timeout_s))
        except Empty:
            return None


SYSTEM_CLOCK: Final = SystemClock()


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Run something beside the caller; it does not keep the program from ending."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def guarded(
    target: Callable[[], None], fail: Callable[[BaseException], None]
) -> Callable[[], None]:
    """The function, whose errors are handed on: nobody would see what ends a thread."""

    def run() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - it is handed on
            fail(error)

    return run


Spawn = Callable[[Callable[[], None], str], Any]
"""Starts a thread that runs a function, under a name."""


class Backoff(NamedTuple):
    """Pauses between attempts: each twice the one before, up to a longest one, less a random part.

    `fraction` gives numbers from 0 to 1. It takes half of a pause away at most, so that many
    clients do not come all at once.
    """

    first_s: float = 0.1
    max_s: float = 5.0
    fraction: Callable[[], float] = random.random

    def pause_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row, of which there is at least one."""
        whole_s = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return whole_s * (1 - self.fraction() / 2)
